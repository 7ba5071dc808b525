use crate::Family;
use crate::blocks::{conv_norm_activation, squeeze_excite};
use crate::check::{check_classes, check_rule, check_setting};
use crate::efficientnet_lite::Origin;
use crate::names::{Names, indices, replace_layer};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId};
use serde::{Deserialize, Serialize};

/// Units of one resolution and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetStage {
    /// Channels inside a unit as a multiple of its input's.
    pub expansion: usize,
    /// Side of the depthwise filter.
    pub kernel: usize,
    /// Stride of the first unit.
    pub stride: usize,
    /// Channels of the output.
    pub width: usize,
    /// Units.
    pub units: usize,
}

/// EfficientNet: inverted residuals with squeeze-excite and SiLU.
///
/// Parameter names are torchvision's (`features.1.0.block.0.0`, `classifier.1`); timm's (`blocks.0.0.conv_dw`,
/// `se.conv_reduce`, `classifier`) are accepted too, and for B0 those of lukemelas' EfficientNet-PyTorch (`_blocks.0._se_reduce`,
/// `_fc`), whose networks are TensorFlow's.
///
/// *Reference*: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetConfig {
    /// Channels of the stem.
    pub stem_width: usize,
    /// The stages.
    pub stages: Vec<EfficientNetStage>,
    /// Channels of the last convolution.
    pub head_width: usize,
    /// Padding and variance constant.
    pub origin: Origin,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl EfficientNetConfig {
    /// EfficientNet-B0.
    pub fn b0(origin: Origin, classes: usize) -> Self {
        let stage = |[expansion, kernel, stride, width, units]: [usize; 5]| EfficientNetStage {
            expansion,
            kernel,
            stride,
            width,
            units,
        };
        let stages = [
            [1, 3, 1, 16, 1],
            [6, 3, 2, 24, 2],
            [6, 5, 2, 40, 2],
            [6, 3, 2, 80, 3],
            [6, 5, 1, 112, 3],
            [6, 5, 2, 192, 4],
            [6, 3, 1, 320, 1],
        ];
        Self { stem_width: 32, stages: stages.map(stage).to_vec(), head_width: 1280, origin, classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "efficientnet";
        check_setting(family, "stem_width", self.stem_width, 1..=65_536)?;
        check_setting(family, "head_width", self.head_width, 1..=65_536)?;
        check_setting(family, "stages", self.stages.len(), 1..=16)?;
        for stage in &self.stages {
            check_setting(family, "expansion", stage.expansion, 1..=64)?;
            check_setting(family, "kernel", stage.kernel, 1..=31)?;
            check_rule(stage.kernel % 2 == 1, family, "kernel", stage.kernel, || "an odd number".into())?;
            check_setting(family, "stride", stage.stride, 1..=4)?;
            check_setting(family, "width", stage.width, 1..=65_536)?;
            check_setting(family, "units", stage.units, 1..=1_000)?;
        }
        check_classes(family, self.classes)
    }
}

/// The layers of EfficientNet.
pub fn build_efficientnet(config: &EfficientNetConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let stem = config.origin.pad(Conv2d::new(3, config.stem_width, 3).stride(2));
    x = conv_norm_silu(&mut g, "features.0", x, stem, config.origin.eps());
    for (stage, settings) in config.stages.iter().enumerate() {
        for unit in 0..settings.units {
            let name = format!("features.{}.{unit}", stage + 1);
            let stride = if unit == 0 { settings.stride } else { 1 };
            let settings = EfficientNetStage { stride, ..*settings };
            x = inverted_residual(&mut g, config, &name, x, settings);
        }
    }
    let last = format!("features.{}", config.stages.len() + 1);
    let head = Conv2d::new(g.channels(x), config.head_width, 1);
    x = conv_norm_silu(&mut g, &last, x, head, config.origin.eps());
    x = g.global_avg_pool("avgpool", x);
    let logits = g.linear("classifier.1", x, config.head_width, config.classes);
    g.finish(logits)
}

fn conv_norm_silu(g: &mut GraphBuilder, name: &str, x: NodeId, conv: Conv2d, eps: f32) -> NodeId {
    conv_norm_activation(g, name, x, conv, eps, Activation::Silu)
}

fn inverted_residual(
    g: &mut GraphBuilder,
    config: &EfficientNetConfig,
    name: &str,
    x: NodeId,
    unit: EfficientNetStage,
) -> NodeId {
    let inputs = g.channels(x);
    let inner = inputs * unit.expansion;
    let mut y = x;
    // The parts are numbered in order; without an expansion the depthwise convolution comes first.
    let mut part = 0;
    let mut next = || {
        part += 1;
        format!("{name}.block.{}", part - 1)
    };
    if inner != inputs {
        let expand = Conv2d::new(inputs, inner, 1);
        y = conv_norm_silu(g, &next(), y, expand, config.origin.eps());
    }
    let depthwise = Conv2d::new(inner, inner, unit.kernel).stride(unit.stride).groups(inner);
    let depthwise = config.origin.pad(depthwise);
    y = conv_norm_silu(g, &next(), y, depthwise, config.origin.eps());
    y = squeeze_excite(g, &next(), y, (inputs / 4).max(1));
    let project = next();
    y = g.conv(&format!("{project}.0"), y, Conv2d::new(inner, unit.width, 1));
    y = g.batch_norm(&format!("{project}.1"), y, config.origin.eps());
    if unit.stride == 1 && inputs == unit.width {
        y = g.add(&format!("{name}.add"), y, x);
    }
    y
}

pub(crate) const FAMILY: Family = Family { rename, ..Family::new("EfficientNet") };

/// timm's layers outside the units; every published size has seven stages.
const OUTER: &Names = &[
    ("conv_stem", "features.0.0"),
    ("bn1", "features.0.1"),
    ("conv_head", "features.8.0"),
    ("bn2", "features.8.1"),
    ("classifier", "classifier.1"),
];
/// timm's layers of a unit that expands its input.
const EXPANDING_UNIT: &Names = &[
    ("conv_pw", "0.0"),
    ("bn1", "0.1"),
    ("conv_dw", "1.0"),
    ("bn2", "1.1"),
    ("se.conv_reduce", "2.fc1"),
    ("se.conv_expand", "2.fc2"),
    ("conv_pwl", "3.0"),
    ("bn3", "3.1"),
];
/// The same of the first stage, which does not expand.
const FIRST_UNIT: &Names = &[
    ("conv_dw", "0.0"),
    ("bn1", "0.1"),
    ("se.conv_reduce", "1.fc1"),
    ("se.conv_expand", "1.fc2"),
    ("conv_pw", "2.0"),
    ("bn2", "2.1"),
];

/// EfficientNet-PyTorch's layers outside the units.
const FLAT_OUTER: &Names = &[
    ("_conv_stem", "features.0.0"),
    ("_bn0", "features.0.1"),
    ("_conv_head", "features.8.0"),
    ("_bn1", "features.8.1"),
    ("_fc", "classifier.1"),
];
/// EfficientNet-PyTorch's layers of a unit that expands its input.
const FLAT_EXPANDING: &Names = &[
    ("_expand_conv", "0.0"),
    ("_bn0", "0.1"),
    ("_depthwise_conv", "1.0"),
    ("_bn1", "1.1"),
    ("_se_reduce", "2.fc1"),
    ("_se_expand", "2.fc2"),
    ("_project_conv", "3.0"),
    ("_bn2", "3.1"),
];
/// The same of the first unit, which does not expand.
const FLAT_FIRST: &Names = &[
    ("_depthwise_conv", "0.0"),
    ("_bn1", "0.1"),
    ("_se_reduce", "1.fc1"),
    ("_se_expand", "1.fc2"),
    ("_project_conv", "2.0"),
    ("_bn2", "2.1"),
];
/// Stage and place in it of B0's units, which EfficientNet-PyTorch counts through.
const FLAT_UNITS: [(usize, usize); 16] = [
    (1, 0),
    (2, 0),
    (2, 1),
    (3, 0),
    (3, 1),
    (4, 0),
    (4, 1),
    (4, 2),
    (5, 0),
    (5, 1),
    (5, 2),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (7, 0),
];

fn rename_flat(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("_blocks.") else {
        return replace_layer(FLAT_OUTER, name);
    };
    let (number, path) = path.split_once('.')?;
    let number: usize = number.parse().ok()?;
    let (stage, unit) = FLAT_UNITS.get(number)?;
    let path = replace_layer(if number == 0 { FLAT_FIRST } else { FLAT_EXPANDING }, path)?;
    Some(format!("features.{stage}.{unit}.block.{path}"))
}

fn rename(name: &str) -> Option<String> {
    if name.starts_with('_') {
        return rename_flat(name);
    }
    let Some(path) = name.strip_prefix("blocks.") else {
        return replace_layer(OUTER, name);
    };
    let (stage, unit, path) = indices(path, "")?;
    let path = replace_layer(if stage == 0 { FIRST_UNIT } else { EXPANDING_UNIT }, path)?;
    Some(format!("features.{}.{unit}.block.{path}", stage + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn the_last_features_have_7_by_7_pixels() {
        for origin in [Origin::Pytorch, Origin::Tensorflow] {
            let graph = build_efficientnet(&EfficientNetConfig::b0(origin, 1000)).unwrap();
            let dims = graph.infer_dims(224, 224).unwrap();
            let last = graph.find("features.8.2").unwrap();
            assert_eq!(dims[last.index()], Dims::new(7, 7, 1280));
        }
    }

    #[test]
    fn the_squeeze_follows_the_input_of_a_unit() {
        let graph = build_efficientnet(&EfficientNetConfig::b0(Origin::Pytorch, 10)).unwrap();
        let params = graph.params();
        let shape = |name: &str| {
            let param = params.iter().find(|param| param.name == name);
            param.unwrap().shape.clone()
        };
        // The first unit does not expand its 32 channels, the second turns 16 into 96.
        assert_eq!(shape("features.1.0.block.1.fc1.weight"), [8, 32, 1, 1]);
        assert_eq!(shape("features.2.0.block.2.fc1.weight"), [4, 96, 1, 1]);
    }

    #[test]
    fn an_even_filter_is_refused() {
        let mut config = EfficientNetConfig::b0(Origin::Pytorch, 10);
        config.stages[2].kernel = 4;
        let error = build_efficientnet(&config).unwrap_err();
        assert_eq!(error.to_string(), "`efficientnet` has kernel = 4, expected an odd number");
    }
}
