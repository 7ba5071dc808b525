use crate::text::shown;
use crate::weights::write_safetensors;
use crate::{ImportError, Model, WeightFile};
use flipcast_graph::{Graph, GraphError, NodeId, Op};
use flipcast_ground::Hint;
use flipcast_tensor::Tensor;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The metadata entry that says the file holds restored norms, and in which version of the format.
const VERSION_ENTRY: &str = "flipcast_restored_norms";
/// The version this program writes, and the newest it reads.
const VERSION: &str = "1";
/// The metadata entry with the SHA-256 of the network.
const MODEL_ENTRY: &str = "model_sha256";
/// The metadata entry with the number of images behind the statistics.
const IMAGES_ENTRY: &str = "images";
/// The metadata entry that says how the images were cut.
const CROP_ENTRY: &str = "training_crop";
/// What stands behind a layer's name in the names of its statistics.
const MEAN: &str = ".mean";
const VARIANCE: &str = ".variance";
/// Added to variances, as PyTorch's batch norms do.
const EPS: f32 = 1e-5;

/// Batch norms for a network whose exporter folded them into the convolutions before them.
///
/// *Idea*: a folded convolution gives what the norm behind it gave. A batch norm with the mean and variance that these values have on
/// clean images, and scale and shift to match, changes nothing with running statistics. With batch statistics it is the network from
/// before folding, but for the difference between those images and the ones that the lost statistics were gathered on.
///
/// *Formula*: `running_mean = mean(y)`, `running_var = var(y)`, `weight = sqrt(var(y) + eps)`, `bias = mean(y)`.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredNorms {
    /// SHA-256 of the network's file; none for one that came from no file.
    pub model_sha256: Option<String>,
    /// Images behind the statistics.
    pub images: usize,
    /// How these images were cut, if they were, in the words of whoever gathered the statistics.
    pub crop: Option<String>,
    /// What was measured behind every layer that gets a norm.
    pub layers: Vec<LayerStatistics>,
}

/// Mean and variance of a layer's values, by channel.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerStatistics {
    /// The layer.
    pub layer: String,
    /// Means.
    pub mean: Vec<f32>,
    /// Variances, divided by the number of values.
    pub variance: Vec<f32>,
}

/// Why norms cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file of statistics cannot be read.
    #[error("cannot read the restored norms `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<ImportError>,
    },
    /// A tensor file of another kind, or of another version.
    #[error("`{path}` has `{VERSION_ENTRY}` {found}, expected {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: String,
    },
    /// Statistics of another network.
    #[error("`{path}` was made for a network with SHA-256 {found}, but the model has {expected}")]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The hash in the file.
        found: String,
        /// The hash of the model.
        expected: String,
    },
    /// Statistics that no norm can have.
    #[error("the statistics of `{layer}` are {found}, expected {expected}")]
    Statistics {
        /// The layer.
        layer: String,
        /// What they are.
        found: String,
        /// What they should be.
        expected: String,
    },
    /// A layer that cannot have a norm.
    #[error("no norm can be restored behind `{layer}`, which is {found}")]
    Layer {
        /// The name.
        layer: String,
        /// What it is.
        found: &'static str,
    },
    /// The network does not take the norms.
    #[error("the norms do not fit the network")]
    Graph {
        /// Why not.
        #[source]
        source: GraphError,
    },
}

impl Hint for RestoreError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::OtherModel { .. } | Self::Version { .. } => {
                "remove the file, or restore the norms of this network again from clean images"
            }
            Self::Layer { .. } => "name convolutions of the network that no norm follows",
            Self::Read { .. } | Self::Statistics { .. } | Self::Graph { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

impl RestoredNorms {
    /// Where the norms of the network at `weights` are looked for: `net.norms.safetensors` beside `net.onnx`.
    pub fn place_beside(weights: &Path) -> PathBuf {
        weights.with_extension("norms.safetensors")
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut metadata =
            vec![(VERSION_ENTRY.to_owned(), VERSION.to_owned()), (IMAGES_ENTRY.to_owned(), self.images.to_string())];
        metadata.extend(self.model_sha256.iter().map(|hash| (MODEL_ENTRY.to_owned(), hash.clone())));
        metadata.extend(self.crop.iter().map(|crop| (CROP_ENTRY.to_owned(), crop.clone())));
        let mut layers: Vec<&LayerStatistics> = self.layers.iter().collect();
        layers.sort_by(|a, b| a.layer.cmp(&b.layer));
        let tensors = layers.into_iter().flat_map(|statistics| {
            let named = |suffix: &str| format!("{}{suffix}", statistics.layer);
            [(named(MEAN), &statistics.mean[..]), (named(VARIANCE), &statistics.variance[..])]
        });
        write_safetensors(metadata, tensors)
    }

    /// Reads a file that [`RestoredNorms::to_bytes`] gave.
    pub fn load(path: &Path) -> Result<Self, RestoreError> {
        let read = |source| RestoreError::Read { path: path.to_owned(), source: Box::new(source) };
        let file = WeightFile::open(path).map_err(read)?;
        let entry = |name: &str| file.metadata().get(name);
        match entry(VERSION_ENTRY).map(String::as_str) {
            Some(VERSION) => {}
            found => {
                let found = found.map_or_else(|| "nowhere".to_owned(), shown);
                return Err(RestoreError::Version { path: path.to_owned(), found });
            }
        }
        let mut layers = Vec::new();
        for tensor in file.tensors() {
            let Some(layer) = tensor.name.strip_suffix(MEAN) else {
                continue;
            };
            let mean = file.load(&tensor.name).map_err(read)?.into_values();
            let variance = file.load(&format!("{layer}{VARIANCE}")).map_err(read)?.into_values();
            layers.push(LayerStatistics { layer: layer.to_owned(), mean, variance });
        }
        layers.sort_by(|a, b| a.layer.cmp(&b.layer));
        Ok(Self {
            model_sha256: entry(MODEL_ENTRY).cloned(),
            images: entry(IMAGES_ENTRY).and_then(|images| images.parse().ok()).unwrap_or(0),
            crop: entry(CROP_ENTRY).map(|crop| shown(crop)),
            layers,
        })
    }

    /// Refuses norms of another network than `model`; `path` is where they came from.
    pub(crate) fn check_model(&self, path: &Path, model: &Model) -> Result<(), RestoreError> {
        match (&self.model_sha256, model.weights_sha256()) {
            (Some(found), Some(expected)) if found == expected => Ok(()),
            (found, expected) => Err(RestoreError::OtherModel {
                path: path.to_owned(),
                found: found.as_deref().map_or_else(|| "none".to_owned(), shown),
                expected: expected.unwrap_or("none").to_owned(),
            }),
        }
    }
}

impl Model {
    /// Convolutions behind which a batch norm may have stood before an exporter folded it: those with a bias whose values have
    /// several pixels, which no norm follows, and which are not the classifier. None where the network has batch norms, or
    /// norms of another kind.
    pub fn folded_layers(&self) -> Vec<String> {
        let graph = self.graph();
        let size = self.input_size();
        let Ok(dims) = graph.infer_dims(size.height, size.width) else {
            return Vec::new();
        };
        if graph.norms().next().is_some() {
            return Vec::new();
        }
        let leads = leads_to_weights(graph);
        let nodes = graph.nodes().iter().enumerate();
        let folded = nodes.filter(|(index, node)| {
            matches!(&node.op, Op::Conv2d(conv) if conv.bias) && dims[*index].pixels() > 1 && leads[*index]
        });
        folded.map(|(_, node)| node.name.clone()).collect()
    }

    /// The same network with `norms`, which change nothing with running statistics. It counts as other weights.
    pub fn with_restored_norms(&self, norms: &RestoredNorms) -> Result<Self, RestoreError> {
        let graph = self.graph();
        let mut params: HashMap<String, Tensor> = (**self.params()).clone();
        let mut behind: Vec<(NodeId, String)> = Vec::new();
        for statistics in &norms.layers {
            let layer = &statistics.layer;
            let refuse = |found| RestoreError::Layer { layer: shown(layer), found };
            let node = graph.nodes().iter().position(|node| node.name == *layer);
            let id = node.and_then(|_| graph.find(layer)).ok_or_else(|| refuse("no layer of the network"))?;
            let Op::Conv2d(conv) = &graph.node(id).op else {
                return Err(refuse("no convolution"));
            };
            if graph.nodes().iter().any(|node| node.inputs.contains(&id) && matches!(node.op, Op::Norm(_))) {
                return Err(refuse("followed by a norm"));
            }
            check(statistics, conv.out_channels)?;
            let name = format!("{layer}.norm");
            let scale =
                statistics.variance.iter().map(|&variance| (f64::from(variance) + f64::from(EPS)).sqrt() as f32);
            let scale = scale.collect();
            for (suffix, values) in [
                ("weight", scale),
                ("bias", statistics.mean.clone()),
                ("running_mean", statistics.mean.clone()),
                ("running_var", statistics.variance.clone()),
            ] {
                let tensor = Tensor::new([conv.out_channels], values).expect("as many values as channels were checked");
                params.insert(format!("{name}.{suffix}"), tensor);
            }
            behind.push((id, name));
        }
        let graph = graph.insert_batch_norms(&behind, EPS).map_err(|source| RestoreError::Graph { source })?;
        let restored = self.with_layers(graph, params);
        Ok(match self.weights_sha256() {
            Some(hash) => {
                let digest = Sha256::new().chain_update(hash).chain_update(norms.to_bytes()).finalize();
                restored.with_sha256(digest.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            None => restored,
        })
    }
}

fn check(statistics: &LayerStatistics, channels: usize) -> Result<(), RestoreError> {
    let LayerStatistics { layer, mean, variance } = statistics;
    let wrong = |found: String, expected: String| RestoreError::Statistics { layer: shown(layer), found, expected };
    if mean.len() != channels || variance.len() != channels {
        let found = format!("of {} and {} channels", mean.len(), variance.len());
        return Err(wrong(found, format!("those of {channels} channels")));
    }
    match mean.iter().chain(variance).find(|value| !value.is_finite()).or(variance.iter().find(|value| **value < 0.0)) {
        Some(value) => Err(wrong(value.to_string(), "finite means and variances that are not negative".into())),
        None => Ok(()),
    }
}

/// Whether any layer with weights reads what comes of a node. A last product that only exchanges nothing does not count: it stands
/// for a head that is no linear layer.
fn leads_to_weights(graph: &Graph) -> Vec<bool> {
    let mut leads = vec![false; graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        let is_output = index == graph.output().index();
        let weighted = match &node.op {
            Op::Projection { inputs, outputs } => !(is_output && inputs == outputs),
            Op::Conv2d(_) | Op::Linear { .. } => true,
            _ => false,
        };
        for input in &node.inputs {
            leads[input.index()] |= weighted || leads[index];
        }
    }
    leads
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::{Conv2d, GraphBuilder};

    fn model() -> Model {
        let (mut g, x) = GraphBuilder::new(3);
        let x = g.conv("stem", x, Conv2d::new(3, 4, 3).with_bias());
        let y = g.global_avg_pool("squeeze", x);
        let y = g.conv("gate", y, Conv2d::new(4, 4, 1).with_bias());
        let x = g.mul("gated", x, y);
        let x = g.conv("bare", x, Conv2d::new(4, 4, 1));
        let x = g.global_avg_pool("avgpool", x);
        let x = g.linear("fc", x, 4, 5);
        let graph = g.finish(x).unwrap();
        let params = crate::random::random_params(&graph, 3);
        Model::from_params(graph, params).unwrap().with_sha256("ab".repeat(32))
    }

    fn norms(model: &Model) -> RestoredNorms {
        let layers = model.folded_layers().into_iter();
        let layers = layers.map(|layer| LayerStatistics {
            layer,
            mean: vec![0.1, -0.2, 0.3, 0.0],
            variance: vec![1.0, 0.5, 0.0, 2.0],
        });
        RestoredNorms {
            model_sha256: model.weights_sha256().map(str::to_owned),
            images: 7,
            crop: Some("padded:4".to_owned()),
            layers: layers.collect(),
        }
    }

    #[test]
    fn norms_stood_behind_biased_convolutions_of_several_pixels() {
        assert_eq!(model().folded_layers(), ["stem"]);
    }

    #[test]
    fn a_restored_network_counts_as_other_weights_and_has_no_folded_layers() {
        let model = model();
        let restored = model.with_restored_norms(&norms(&model)).unwrap();
        assert_eq!(restored.graph().affine_table().names().count(), 2);
        assert_ne!(restored.weights_sha256(), model.weights_sha256());
        assert!(restored.folded_layers().is_empty());
        assert_eq!(restored.param("stem.norm.bias").unwrap().values(), [0.1, -0.2, 0.3, 0.0]);
    }

    #[test]
    fn a_file_of_norms_comes_back_as_it_was() {
        let model = model();
        let norms = norms(&model);
        let path = std::env::temp_dir().join(format!("flipcast-norms-{}.safetensors", std::process::id()));
        std::fs::write(&path, norms.to_bytes()).unwrap();
        let found = RestoredNorms::load(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found, norms);
        assert!(found.check_model(&path, &model).is_ok());
        let other = model.with_sha256("cd".repeat(32));
        assert!(matches!(found.check_model(&path, &other), Err(RestoreError::OtherModel { .. })));
    }

    #[test]
    fn statistics_that_do_not_fit_are_refused() {
        let model = model();
        let good = norms(&model);
        let with = |change: &dyn Fn(&mut LayerStatistics)| {
            let mut norms = good.clone();
            change(&mut norms.layers[0]);
            model.with_restored_norms(&norms).unwrap_err()
        };
        assert!(matches!(with(&|layer| layer.layer = "fc".into()), RestoreError::Layer { .. }));
        assert!(matches!(with(&|layer| layer.layer = "nowhere".into()), RestoreError::Layer { .. }));
        assert!(matches!(with(&|layer| layer.mean[0] = f32::NAN), RestoreError::Statistics { .. }));
        assert!(matches!(with(&|layer| layer.variance[0] = -1.0), RestoreError::Statistics { .. }));
        assert!(matches!(with(&|layer| layer.mean.truncate(2)), RestoreError::Statistics { .. }));
    }
}
