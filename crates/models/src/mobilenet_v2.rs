use crate::Family;
use crate::blocks::conv_norm_activation;
use crate::check::check_classes;
use crate::names::{Names, indices, replace_layer};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-5;

/// Expansion, output channels, units and stride of the first unit, stage by stage.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// MobileNetV2 of width 1: inverted residuals with depthwise convolutions and ReLU6.
///
/// Parameter names are torchvision's (`features.1.conv.0.0`, `classifier.1`); timm's (`blocks.0.0.conv_dw`,
/// `classifier`) are accepted too.
///
/// *Reference*: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MobileNetV2Config {
    /// Outputs of the classifier.
    pub classes: usize,
}

impl MobileNetV2Config {
    /// The published network.
    pub fn new(classes: usize) -> Self {
        Self { classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        check_classes("mobilenet_v2", self.classes)
    }
}

/// The layers of MobileNetV2.
pub fn build_mobilenet_v2(config: &MobileNetV2Config) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let stem = Conv2d::new(3, 32, 3).stride(2).padding(1);
    x = conv_norm_relu6(&mut g, "features.0", x, stem);
    let mut index = 1;
    for (expansion, outputs, units, first_stride) in STAGES {
        for unit in 0..units {
            let stride = if unit == 0 { first_stride } else { 1 };
            let name = format!("features.{index}");
            x = inverted_residual(&mut g, &name, x, expansion, outputs, stride);
            index += 1;
        }
    }
    let features = g.channels(x);
    let head = Conv2d::new(features, 1280, 1);
    x = conv_norm_relu6(&mut g, &format!("features.{index}"), x, head);
    x = g.global_avg_pool("avgpool", x);
    let logits = g.linear("classifier.1", x, 1280, config.classes);
    g.finish(logits)
}

fn conv_norm_relu6(g: &mut GraphBuilder, name: &str, x: NodeId, conv: Conv2d) -> NodeId {
    conv_norm_activation(g, name, x, conv, EPS, Activation::Relu6)
}

fn inverted_residual(
    g: &mut GraphBuilder,
    name: &str,
    x: NodeId,
    expansion: usize,
    outputs: usize,
    stride: usize,
) -> NodeId {
    let inputs = g.channels(x);
    let inner = inputs * expansion;
    let mut y = x;
    let mut step = 0;
    if expansion > 1 {
        let expand = Conv2d::new(inputs, inner, 1);
        y = conv_norm_relu6(g, &format!("{name}.conv.{step}"), y, expand);
        step += 1;
    }
    let depthwise = Conv2d::new(inner, inner, 3).stride(stride).padding(1).groups(inner);
    y = conv_norm_relu6(g, &format!("{name}.conv.{step}"), y, depthwise);
    let project = Conv2d::new(inner, outputs, 1);
    y = g.conv(&format!("{name}.conv.{}", step + 1), y, project);
    y = g.batch_norm(&format!("{name}.conv.{}", step + 2), y, EPS);
    if stride == 1 && inputs == outputs {
        y = g.add(&format!("{name}.add"), y, x);
    }
    y
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
    fn only_units_that_keep_extents_have_a_shortcut() {
        let graph = build_mobilenet_v2(&MobileNetV2Config::new(10)).unwrap();
        let adds = graph.nodes().iter().filter(|n| n.name.ends_with(".add"));
        let names: Vec<_> = adds.map(|node| node.name.as_str()).collect();
        let units = [3, 5, 6, 8, 9, 10, 12, 13, 15, 16];
        assert_eq!(names, units.map(|i| format!("features.{i}.add")));
    }
}
