use crate::blocks::conv_norm_activation;
use crate::check::{check_classes, check_setting};
use crate::names::{Names, indices, replace_layer};
use crate::{Family, Origin};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId};
use serde::{Deserialize, Serialize};

/// Expansion, output channels, units and stride of the first unit, stage by stage.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Channels of the last features of width 1 and less.
const HEAD_WIDTH: usize = 1280;

/// MobileNetV2: inverted residuals with depthwise convolutions and ReLU6.
///
/// Parameter names are torchvision's (`features.1.conv.0.0`, `classifier.1`); timm's (`blocks.0.0.conv_dw`,
/// `classifier`) are accepted too, for networks of width 1, and those of Transformers in folders of its hub.
///
/// *Reference*: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobileNetV2Config {
    /// Width of the layers in percent, rounded to multiples of 8.
    #[serde(default = "whole_width")]
    pub width_percent: usize,
    /// Padding and variance constant.
    #[serde(default = "pytorch")]
    pub origin: Origin,
    /// Outputs of the classifier.
    pub classes: usize,
}

fn whole_width() -> usize {
    100
}

fn pytorch() -> Origin {
    Origin::Pytorch
}

impl MobileNetV2Config {
    /// The published network of width 1, as PyTorch has it.
    pub fn new(classes: usize) -> Self {
        Self { width_percent: whole_width(), origin: pytorch(), classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        check_setting("mobilenet_v2", "width_percent", self.width_percent, 5..=400)?;
        check_classes("mobilenet_v2", self.classes)
    }

    fn width(&self, channels: usize) -> usize {
        // The nearest multiple of 8, but never more than a tenth below the product.
        let product = (channels * self.width_percent + 50) / 100;
        let rounded = ((product + 4) / 8 * 8).max(8);
        if rounded * 10 < product * 9 { rounded + 8 } else { rounded }
    }
}

/// The layers of MobileNetV2.
pub fn build_mobilenet_v2(config: &MobileNetV2Config) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let stem = config.origin.pad(Conv2d::new(3, config.width(32), 3).stride(2));
    x = config.conv_norm_relu6(&mut g, "features.0", x, stem);
    let mut index = 1;
    for (expansion, outputs, units, first_stride) in STAGES {
        for unit in 0..units {
            let stride = if unit == 0 { first_stride } else { 1 };
            let name = format!("features.{index}");
            x = config.inverted_residual(&mut g, &name, x, [expansion, config.width(outputs), stride]);
            index += 1;
        }
    }
    let features = g.channels(x);
    let width = config.width(HEAD_WIDTH).max(HEAD_WIDTH);
    let head = Conv2d::new(features, width, 1);
    x = config.conv_norm_relu6(&mut g, &format!("features.{index}"), x, head);
    x = g.global_avg_pool("avgpool", x);
    let logits = g.linear("classifier.1", x, width, config.classes);
    g.finish(logits)
}

impl MobileNetV2Config {
    fn conv_norm_relu6(&self, g: &mut GraphBuilder, name: &str, x: NodeId, conv: Conv2d) -> NodeId {
        conv_norm_activation(g, name, x, conv, self.origin.eps(), Activation::Relu6)
    }

    fn inverted_residual(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        x: NodeId,
        [expansion, outputs, stride]: [usize; 3],
    ) -> NodeId {
        let inputs = g.channels(x);
        let inner = inputs * expansion;
        let mut y = x;
        let mut step = 0;
        if expansion > 1 {
            let expand = Conv2d::new(inputs, inner, 1);
            y = self.conv_norm_relu6(g, &format!("{name}.conv.{step}"), y, expand);
            step += 1;
        }
        let depthwise = self.origin.pad(Conv2d::new(inner, inner, 3).stride(stride).groups(inner));
        y = self.conv_norm_relu6(g, &format!("{name}.conv.{step}"), y, depthwise);
        let project = Conv2d::new(inner, outputs, 1);
        y = g.conv(&format!("{name}.conv.{}", step + 1), y, project);
        y = g.batch_norm(&format!("{name}.conv.{}", step + 2), y, self.origin.eps());
        // However narrow it is, the first unit has no shortcut in Transformers.
        if stride == 1 && inputs == outputs && expansion > 1 {
            y = g.add(&format!("{name}.add"), y, x);
        }
        y
    }
}

pub(crate) const FAMILY: Family = Family { rename, ..Family::new("MobileNetV2") };

/// timm's layers outside the units.
const OUTER: &Names = &[
    ("conv_stem", "features.0.0"),
    ("bn1", "features.0.1"),
    ("conv_head", "features.18.0"),
    ("bn2", "features.18.1"),
    ("classifier", "classifier.1"),
];
/// timm's layers of a unit that expands its input.
const EXPANDING_UNIT: &Names =
    &[("conv_pw", "0.0"), ("bn1", "0.1"), ("conv_dw", "1.0"), ("bn2", "1.1"), ("conv_pwl", "2"), ("bn3", "3")];
/// The same of the first unit, which does not expand.
const FIRST_UNIT: &Names = &[("conv_dw", "0.0"), ("bn1", "0.1"), ("conv_pw", "1"), ("bn2", "2")];

fn rename(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("blocks.") else {
        return replace_layer(OUTER, name);
    };
    let (stage, unit, path) = indices(path, "")?;
    let &(_, _, units, _) = STAGES.get(stage)?;
    let path = replace_layer(if stage == 0 { FIRST_UNIT } else { EXPANDING_UNIT }, path)?;
    let before: usize = STAGES[..stage].iter().map(|stage| stage.2).sum();
    (unit < units).then(|| format!("features.{}.conv.{path}", 1 + before + unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn the_last_features_have_7_by_7_pixels() {
        let graph = build_mobilenet_v2(&MobileNetV2Config::new(1000)).unwrap();
        let dims = graph.infer_dims(224, 224).unwrap();
        let last = graph.find("features.18.2").unwrap();
        assert_eq!(dims[last.index()], Dims::new(7, 7, 1280));
    }

    #[test]
    fn widths_are_those_of_tensorflow() {
        let widths = |width_percent| {
            let config = MobileNetV2Config { width_percent, ..MobileNetV2Config::new(10) };
            [32, 16, 24, 32, 64, 96, 160, 320].map(|channels| config.width(channels))
        };
        // google/mobilenet_v2_0.35_96, 0.75_160 and 1.4_224.
        assert_eq!(widths(35), [16, 8, 8, 16, 24, 32, 56, 112]);
        assert_eq!(widths(75), [24, 16, 24, 24, 48, 72, 120, 240]);
        assert_eq!(widths(140), [48, 24, 32, 48, 88, 136, 224, 448]);
    }

    #[test]
    fn only_units_that_keep_extents_have_a_shortcut() {
        let graph = build_mobilenet_v2(&MobileNetV2Config::new(10)).unwrap();
        let adds = graph.nodes().iter().filter(|n| n.name.ends_with(".add"));
        let names: Vec<_> = adds.map(|node| node.name.as_str()).collect();
        let units = [3, 5, 6, 8, 9, 10, 12, 13, 15, 16];
        assert_eq!(names, units.map(|i| format!("features.{i}.add")));
    }
}
