use crate::check::{check_classes, check_setting};
use crate::layout::find_channel_factors;
use crate::names::{Names, downsample, indices, replace_layer};
use crate::shapes::{Shapes, join};
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId, NormKind};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-6;

/// ConvNeXt: depthwise 7x7 convolutions, layer norms over channels and inverted bottlenecks.
///
/// Parameter names are torchvision's (`features.1.0.block.0`, `features.1.0.layer_scale`, `classifier.2`); timm's
/// (`stages.0.blocks.0.conv_dw`, `gamma`, `head.fc`) are accepted too.
///
/// *Reference*: Liu et al., "A ConvNet for the 2020s" (2022).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvNextConfig {
    /// Channels per stage.
    pub widths: Vec<usize>,
    /// Blocks per stage.
    pub layers: Vec<usize>,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl ConvNextConfig {
    /// ConvNeXt-T.
    pub fn tiny(classes: usize) -> Self {
        Self::published(96, 9, classes)
    }

    /// ConvNeXt-S.
    pub fn small(classes: usize) -> Self {
        Self::published(96, 27, classes)
    }

    /// ConvNeXt-B.
    pub fn base(classes: usize) -> Self {
        Self::published(128, 27, classes)
    }

    fn published(width: usize, third: usize, classes: usize) -> Self {
        Self { widths: vec![width, 2 * width, 4 * width, 8 * width], layers: vec![3, 3, third, 3], classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "convnext";
        let stages = self.widths.len();
        check_setting(family, "stages", stages, 1..=8)?;
        check_setting(family, "stages with layers", self.layers.len(), stages..=stages)?;
        for (&width, &layers) in self.widths.iter().zip(&self.layers) {
            check_setting(family, "widths", width, 1..=65_536)?;
            check_setting(family, "layers", layers, 1..=1_000)?;
        }
        check_classes(family, self.classes)
    }
}

/// The layers of ConvNeXt.
pub fn build_convnext(config: &ConvNextConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    for (stage, (&width, &layers)) in config.widths.iter().zip(&config.layers).enumerate() {
        let name = format!("features.{}", 2 * stage);
        if stage == 0 {
            let stem = Conv2d::new(3, width, 4).stride(4).with_bias();
            x = g.conv(&format!("{name}.0"), x, stem);
            x = g.norm(&format!("{name}.1"), x, NormKind::Layer, EPS);
        } else {
            let narrow = g.channels(x);
            x = g.norm(&format!("{name}.0"), x, NormKind::Layer, EPS);
            let halve = Conv2d::new(narrow, width, 2).stride(2).with_bias();
            x = g.conv(&format!("{name}.1"), x, halve);
        }
        for layer in 0..layers {
            x = block(&mut g, &format!("features.{}.{layer}", 2 * stage + 1), x);
        }
    }
    x = g.global_avg_pool("avgpool", x);
    x = g.norm("classifier.0", x, NormKind::Layer, EPS);
    let features = g.channels(x);
    let logits = g.linear("classifier.2", x, features, config.classes);
    g.finish(logits)
}

fn block(g: &mut GraphBuilder, name: &str, x: NodeId) -> NodeId {
    let dim = g.channels(x);
    let depthwise = Conv2d::new(dim, dim, 7).padding(3).groups(dim).with_bias();
    let mut y = g.conv(&format!("{name}.block.0"), x, depthwise);
    y = g.norm(&format!("{name}.block.2"), y, NormKind::Layer, EPS);
    y = g.linear(&format!("{name}.block.3"), y, dim, 4 * dim);
    y = g.activation(&format!("{name}.block.4"), y, Activation::Gelu);
    y = g.linear(&format!("{name}.block.5"), y, 4 * dim, dim);
    y = g.scale(&format!("{name}.layer_scale"), y);
    g.add(&format!("{name}.add"), x, y)
}

pub(crate) const FAMILY: Family =
    Family { rename, find_layout: find_channel_factors, infer, ..Family::new("ConvNeXt") };

/// timm's layers outside the stages.
const OUTER: &Names = &[
    ("stem.0", "features.0.0"),
    ("stem.1", "features.0.1"),
    ("head.norm", "classifier.0"),
    ("head.fc", "classifier.2"),
];
/// timm's layers of a block.
const BLOCK: &Names = &[("conv_dw", "block.0"), ("norm", "block.2"), ("mlp.fc1", "block.3"), ("mlp.fc2", "block.5")];

fn rename(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("stages.") else {
        return replace_layer(OUTER, name);
    };
    let Some((stage, block, path)) = indices(path, "blocks.") else {
        return downsample(path);
    };
    let path = match path {
        "gamma" => "layer_scale".to_owned(),
        _ => replace_layer(BLOCK, path)?,
    };
    Some(format!("features.{}.{block}.{path}", 2 * stage + 1))
}

fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    let layers = shapes.count_stages(|stage, block| format!("features.{}.{block}.layer_scale", 2 * stage + 1));
    let width = |stage| match shapes.get(&format!("features.{}.0.block.0.weight", 2 * stage + 1))? {
        [width, 1, 7, 7] => Some(width),
        _ => None,
    };
    let widths: Vec<usize> = (0..layers.len()).map(width).collect::<Option<_>>()?;
    let [classes, _] = shapes.get("classifier.2.weight")?;
    let name = format!("convnext_l{}_w{}", join(&layers), join(&widths));
    Some(Architecture::new(name, 224, ConvNextConfig { widths, layers, classes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn stages_end_with_7_by_7_pixels() {
        let graph = build_convnext(&ConvNextConfig::tiny(1000)).unwrap();
        let dims = graph.infer_dims(224, 224).unwrap();
        let of = |name: &str| dims[graph.find(name).unwrap().index()];
        assert_eq!(of("features.0.1"), Dims::new(56, 56, 96));
        assert_eq!(of("features.7.2.add"), Dims::new(7, 7, 768));
    }

    #[test]
    fn every_norm_is_a_layer_norm() {
        let graph = build_convnext(&ConvNextConfig::small(10)).unwrap();
        assert!(graph.norms().all(|(_, norm)| norm.kind == NormKind::Layer && norm.eps == EPS));
        // Stem, three between stages, one per block and one in the classifier.
        assert_eq!(graph.norms().count(), 1 + 3 + 36 + 1);
    }

    #[test]
    fn stages_need_both_widths_and_layers() {
        let mut config = ConvNextConfig::tiny(10);
        config.layers.pop();
        let error = build_convnext(&config).unwrap_err();
        assert_eq!(error.to_string(), "`convnext` has stages with layers = 3, expected 4 to 4");
    }
}
