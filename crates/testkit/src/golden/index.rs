use super::{GoldenError, TensorFile, golden_root, resnet};
use flipcast_graph::Graph;
use flipcast_tensor::{Batch, Tensor};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The residual block of a golden network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// Two 3x3 convolutions.
    Basic,
    /// 1x1, 3x3 and 1x1 convolutions, four times as wide at the end.
    Bottleneck,
}

/// The first layers of a golden network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// 7x7 convolution with stride 2 and 3x3 max pool with stride 2.
    Imagenet,
    /// 3x3 convolution with stride 1.
    Cifar,
}

/// One method run on one golden network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct GoldenCase {
    /// Published name of the method, lower case.
    pub method: String,
    /// Residual block.
    pub block: Block,
    /// First layers.
    pub stem: Stem,
    /// Width of each stage; the first is also the stem's.
    pub widths: Vec<usize>,
    /// Blocks of each stage.
    pub layers: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// Images per batch.
    pub batch: usize,
    /// Rows and columns of an image.
    pub size: usize,
    /// Number of batches.
    pub steps: usize,
    /// Learning rate of SGD.
    pub lr: f64,
    /// Similarity margin of the methods that have one.
    pub d_margin: f64,
    /// Weight of the Fisher penalty.
    pub fisher_alpha: f64,
    /// Value of the step counter before the first step, for methods that reset.
    #[serde(default)]
    pub start: Option<u64>,
    /// Samples that passed the first and both filters up to each step, -1 where there is no filter.
    #[serde(default)]
    pub cumulative_kept: Vec<[i64; 2]>,
    /// Mean entropy of each step's logits.
    pub mean_entropy: Vec<f64>,
    /// Parameters, in torchvision's names.
    pub weights: String,
    /// Batches, named `0`, `1`, ...
    pub inputs: String,
    /// Expected logits, features and parameter changes.
    pub expected: String,
    /// The folder the file names above refer to.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// The cases of `tta/index.json` below [`golden_root`].
pub fn golden_index() -> Result<Vec<GoldenCase>, GoldenError> {
    load_golden_index(&golden_root().join("tta"))
}

/// The cases of `index.json` in `folder`.
pub fn load_golden_index(folder: &Path) -> Result<Vec<GoldenCase>, GoldenError> {
    let path = folder.join("index.json");
    let name = path.display().to_string();
    let text = std::fs::read(&path).map_err(|source| GoldenError::Read { path: name.clone(), source })?;
    let mut cases: Vec<GoldenCase> =
        serde_json::from_slice(&text).map_err(|source| GoldenError::Index { path: name, source })?;
    for (position, case) in cases.iter_mut().enumerate() {
        case.check(position)?;
        case.folder = folder.to_owned();
    }
    Ok(cases)
}

impl GoldenCase {
    /// Network and method, for messages: `basic_cifar.tent`.
    pub fn name(&self) -> String {
        let network = self.weights.split('.').next().unwrap_or_default();
        format!("{network}.{}", self.method)
    }

    /// The network, with torchvision's names.
    pub fn build_graph(&self) -> Result<Graph, GoldenError> {
        resnet::build(self)
    }

    /// The network's parameters before the first step.
    pub fn load_weights(&self) -> Result<HashMap<String, Tensor>, GoldenError> {
        TensorFile::load(&self.folder.join(&self.weights))?.to_tensors()
    }

    /// All batches, in order; `source` and `bn` use the first two.
    pub fn load_batches(&self) -> Result<Vec<Batch>, GoldenError> {
        let file = TensorFile::load(&self.folder.join(&self.inputs))?;
        (0..self.steps)
            .map(|step| {
                let name = step.to_string();
                let extents = [self.batch, 3, self.size, self.size];
                if file.shape(&name)? != extents {
                    return Err(GoldenError::ShapeMismatch {
                        path: file.path().to_owned(),
                        expected: extents.to_vec(),
                        found: file.shape(&name)?.to_vec(),
                        name,
                    });
                }
                let values: Vec<f32> = file.values(&name)?.iter().map(|&v| v as f32).collect();
                Batch::from_channels_first(extents, &values)
                    .map_err(|source| GoldenError::Tensor { path: file.path().to_owned(), source })
            })
            .collect()
    }

    /// `logits.<step>`, `features.<step>` and `delta.<parameter>`.
    pub fn load_expected(&self) -> Result<TensorFile, GoldenError> {
        TensorFile::load(&self.folder.join(&self.expected))
    }

    /// Refuses sizes no golden network has, and file names that lead out of the folder.
    fn check(&self, case: usize) -> Result<(), GoldenError> {
        let bad = |field, found: String, expected| GoldenError::BadField { case, field, found, expected };
        let within = |field, value: usize, most: usize, expected| {
            if (1..=most).contains(&value) { Ok(()) } else { Err(bad(field, value.to_string(), expected)) }
        };
        within("stages", self.widths.len(), 4, "1 to 4")?;
        if self.layers.len() != self.widths.len() {
            let found = format!("{:?}", self.layers);
            return Err(bad("layers", found, "as many entries as `widths`"));
        }
        for (&width, &blocks) in self.widths.iter().zip(&self.layers) {
            within("width", width, 4096, "1 to 4096")?;
            within("layers", blocks, 100, "1 to 100")?;
        }
        within("classes", self.classes, 100_000, "1 to 100000")?;
        within("batch", self.batch, 4096, "1 to 4096")?;
        within("size", self.size, 4096, "1 to 4096")?;
        within("steps", self.steps, 100_000, "1 to 100000")?;
        for (field, file) in [("weights", &self.weights), ("inputs", &self.inputs), ("expected", &self.expected)] {
            if Path::new(file).file_name() != Some(file.as_ref()) {
                return Err(bad(field, format!("`{file}`"), "a plain file name"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_lists_three_networks_with_the_four_first_methods() {
        let cases = golden_index().unwrap();
        for method in ["source", "bn", "tent", "tent_adam"] {
            let networks = cases.iter().filter(|case| case.method == method).count();
            assert!(networks >= 3, "{method}: {networks}");
        }
    }

    #[test]
    fn every_listed_file_has_what_the_index_promises() {
        for case in golden_index().unwrap() {
            let graph = case.build_graph().unwrap();
            let weights = case.load_weights().unwrap();
            for spec in graph.params() {
                let tensor = weights.get(&spec.name);
                let found = tensor.map(|tensor| tensor.shape().extents().to_vec());
                assert_eq!(found, Some(spec.shape), "{} {}", case.name(), spec.name);
            }
            assert_eq!(case.load_batches().unwrap().len(), case.steps);
            assert_eq!(case.mean_entropy.len(), case.steps);
            let expected = case.load_expected().unwrap();
            let last = format!("logits.{}", case.steps - 1);
            let shape = expected.shape(&last).unwrap();
            assert_eq!(shape, [case.batch, case.classes], "{}", case.name());
            let table = graph.affine_table();
            for name in expected.names().filter_map(|n| n.strip_prefix("delta.")) {
                assert!(table.find(name).is_some(), "{} {name}", case.name());
            }
        }
    }

    #[test]
    fn a_file_name_that_leaves_the_folder_is_refused() {
        let mut case = golden_index().unwrap().swap_remove(0);
        case.weights = "../secret.safetensors".into();
        let error = case.check(0).unwrap_err();
        assert_eq!(error.to_string(), "case 0 has weights = `../secret.safetensors`, expected a plain file name");
    }

    #[test]
    fn unequal_stages_are_refused() {
        let mut case = golden_index().unwrap().swap_remove(0);
        case.layers.pop();
        let error = case.check(3).unwrap_err();
        assert!(matches!(error, GoldenError::BadField { field: "layers", .. }));
    }
}
