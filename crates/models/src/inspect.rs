use crate::load::open;
use crate::recognise::{Match, recognise};
use crate::registry::ARCHITECTURES;
use crate::rename::is_ignored;
use crate::weight_tags::WEIGHT_TAGS;
use crate::{Family, Format, ModelError, TensorInfo};
use flipcast_graph::Graph;
use flipcast_images::preprocess::Preprocess;
use flipcast_tensor::DType;
use std::path::Path;

/// One line of `flipcast models`: an architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchitectureSummary {
    /// The name.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub aliases: &'static [&'static str],
    /// The family.
    pub family: Family,
    /// Trained values with the usual number of classes; running statistics are not counted.
    pub parameters: usize,
    /// Scales and shifts of norm layers, the values that adapt.
    pub norm_parameters: usize,
    /// Usual height and width of the images.
    pub input_size: usize,
    /// Usual number of classes.
    pub classes: usize,
}

/// One line of `flipcast models`: published weights.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightTagSummary {
    /// The name, `<architecture>.<weights>`.
    pub name: &'static str,
    /// The architecture.
    pub architecture: &'static str,
    /// Number of classes.
    pub classes: usize,
    /// What is done to an image.
    pub preprocess: Preprocess,
}

/// What `flipcast models show FILE` tells about a weight file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSummary {
    /// The file format.
    pub format: Format,
    /// Element types with the number of tensors of each, most frequent first.
    pub dtypes: Vec<(DType, usize)>,
    /// Tensors, batch counters left out.
    pub tensors: usize,
    /// Values in them; running statistics are not counted.
    pub parameters: usize,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    /// Free text the file carries.
    pub metadata: Vec<(String, String)>,
    /// The architecture that fits best, with what is missing, left over or of other extents.
    pub best: Option<Match>,
}

/// Every architecture that has a name, in the order of the table.
pub fn list_architectures() -> Vec<ArchitectureSummary> {
    let summaries = ARCHITECTURES.iter().map(|entry| {
        let config = (entry.config)(entry.classes);
        let graph = config.build().expect("a test builds every entry");
        ArchitectureSummary {
            name: entry.name,
            aliases: entry.aliases,
            family: config.family(),
            parameters: count_parameters(&graph),
            norm_parameters: graph.affine_table().len(),
            input_size: entry.input_size,
            classes: entry.classes,
        }
    });
    summaries.collect()
}

/// Every known set of weights, in the order of the table.
pub fn list_weight_tags() -> Vec<WeightTagSummary> {
    let summaries = WEIGHT_TAGS.iter().map(|tag| WeightTagSummary {
        name: tag.name,
        architecture: tag.architecture,
        classes: tag.classes,
        preprocess: (tag.preprocess)(),
    });
    summaries.collect()
}

/// Looks at the weight file at `path` without loading any tensor.
pub fn inspect_file(path: &Path) -> Result<FileSummary, ModelError> {
    let file = open(path, None)?;
    let tensors: Vec<TensorInfo> = file.tensors().cloned().collect();
    let mut dtypes: Vec<(DType, usize)> = Vec::new();
    for tensor in &tensors {
        match dtypes.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype) {
            Some((_, count)) => *count += 1,
            None => dtypes.push((tensor.dtype, 1)),
        }
    }
    dtypes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let best = recognise(&tensors);
    let family = best.as_ref().map(|best| best.architecture.config.family());
    let trained = tensors.iter().filter(|tensor| !is_statistic(&tensor.name) && !is_ignored(family, &tensor.name));
    let parameters =
        trained.fold(0usize, |sum, tensor| sum.saturating_add(tensor.shape.checked_len().unwrap_or(usize::MAX)));
    let metadata = file.metadata().iter();
    Ok(FileSummary {
        format: file.format(),
        dtypes,
        tensors: tensors.len(),
        parameters,
        sha256: file.sha256(),
        metadata: metadata.map(|(k, v)| (k.clone(), v.clone())).collect(),
        best,
    })
}

/// Trained values of a network: everything but running statistics.
pub fn count_parameters(graph: &Graph) -> usize {
    let params = graph.params().into_iter();
    let trained = params.filter(|param| !is_statistic(&param.name));
    trained.map(|param| param.shape.iter().product::<usize>()).sum()
}

fn is_statistic(name: &str) -> bool {
    name.ends_with(".running_mean") || name.ends_with(".running_var")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_counts_are_the_published_ones() {
        let listed = list_architectures();
        for (name, parameters) in [
            ("resnet18", 11_689_512),
            ("resnet34", 21_797_672),
            ("resnet50", 25_557_032),
            ("resnet101", 44_549_160),
            ("resnet152", 60_192_808),
            ("resnext50_32x4d", 25_028_904),
            ("resnext101_32x8d", 88_791_336),
            ("resnext101_64x4d", 83_455_272),
            ("wide_resnet50_2", 68_883_240),
            ("resnet50_gn", 25_557_032),
            ("mobilenet_v2", 3_504_872),
            ("efficientnet_lite0", 4_652_008),
            ("cifar_resnet20", 272_474),
            ("wrn_40_2", 2_243_546),
            ("wrn_28_10", 36_479_194),
        ] {
            let entry = listed.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(entry.parameters, parameters, "{name}");
        }
    }

    #[test]
    fn group_norm_adapts_as_many_values_as_batch_norm() {
        let listed = list_architectures();
        for name in ["resnet50", "resnet50_gn"] {
            let entry = listed.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(entry.norm_parameters, 53_120);
        }
    }
}
