use crate::load::{open, open_folder};
use crate::model::build_graph;
use crate::program::list_operators;
use crate::recognise::{Match, recognise};
use crate::{Family, Format, ModelError, TensorInfo};
use flipcast_graph::{Graph, NormKind, Op};
use flipcast_tensor::DType;
use std::path::Path;

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
    /// Operators that the file's network is made of, most frequent first; empty where no network is known.
    pub operators: Vec<OperatorCount>,
    /// The architecture that fits best, with what is missing, left over or of other extents.
    pub best: Option<Match>,
}

/// How often an operator occurs in a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCount {
    /// Its name: the file's where the file brings its layers with it, otherwise the engine's.
    pub name: String,
    /// How often.
    pub count: usize,
    /// Whether it is understood.
    pub is_known: bool,
}

impl OperatorCount {
    /// Counts operators, most frequent first and then by name.
    pub(crate) fn count(names: impl Iterator<Item = (String, bool)>) -> Vec<Self> {
        let mut counts: Vec<Self> = Vec::new();
        for (name, is_known) in names {
            match counts.iter_mut().find(|counted| counted.name == name) {
                Some(counted) => counted.count += 1,
                None => counts.push(Self { name, count: 1, is_known }),
            }
        }
        counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        counts
    }
}

/// What the operators of a built-in network are called.
fn operator_name(op: &Op) -> &'static str {
    match op {
        Op::Input { .. } => "input",
        Op::Conv2d(_) => "convolution",
        Op::Norm(norm) => match norm.kind {
            NormKind::Batch => "batch norm",
            NormKind::Group { .. } => "group norm",
            NormKind::Layer => "layer norm",
        },
        Op::Activation(_) => "activation",
        Op::MaxPool(_) => "max pool",
        Op::AvgPool(_) => "average pool",
        Op::GlobalAvgPool => "global average pool",
        Op::Add => "sum",
        Op::Mul => "product",
        Op::Linear { .. } | Op::Projection { .. } => "linear layer",
        Op::Attention(_) => "attention",
        Op::Arrange(_) => "rearrangement of tokens",
        Op::PickChannels(_) => "choice of channels",
        Op::AddPosition { .. } => "position embedding",
        Op::Scale => "scale",
        Op::Flatten => "flattening",
        Op::Transpose { .. } => "exchange of pixels and channels",
        Op::ShortcutA { .. } => "padded shortcut",
    }
}

/// Looks at the weight file at `path` without loading any tensor.
pub fn inspect_file(path: &Path) -> Result<FileSummary, ModelError> {
    let folder = open_folder(path)?;
    let file = open(folder.as_ref().map_or(path, |folder| &folder.weights), None)?;
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
    let family = best.as_ref().map_or(Family::CUSTOM, |best| best.architecture.config.family());
    let trained = tensors.iter().filter(|tensor| !is_statistic(&tensor.name) && !family.is_ignored(&tensor.name));
    let parameters =
        trained.fold(0usize, |sum, tensor| sum.saturating_add(tensor.shape.checked_len().unwrap_or(usize::MAX)));
    let metadata = file.metadata().iter();
    let operators = match (&best, file.program()) {
        (_, Some(program)) => OperatorCount::count(list_operators(&file, program).into_iter()),
        (Some(best), None) if best.fit.is_exact() => {
            let graph = build_graph(&best.architecture)?;
            let names = graph.nodes().iter().filter(|node| !matches!(node.op, Op::Input { .. }));
            OperatorCount::count(names.map(|node| (operator_name(&node.op).to_owned(), true)))
        }
        _ => Vec::new(),
    };
    Ok(FileSummary {
        operators,
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
    use crate::Architecture;

    #[test]
    fn parameter_counts_are_the_published_ones() {
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
            let graph = Architecture::find(name).unwrap().config.build().unwrap();
            assert_eq!(count_parameters(&graph), parameters, "{name}");
        }
    }

    #[test]
    fn group_norm_adapts_as_many_values_as_batch_norm() {
        for name in ["resnet50", "resnet50_gn"] {
            let graph = Architecture::find(name).unwrap().config.build().unwrap();
            assert_eq!(graph.affine_table().len(), 53_120);
        }
    }
}
