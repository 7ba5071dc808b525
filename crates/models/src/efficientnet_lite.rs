use crate::Family;
use crate::check::{check_classes, check_setting};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId};
use serde::{Deserialize, Serialize};

/// Kernel, expansion, output channels, units and stride of the first unit, stage by stage, before scaling.
const STAGES: [(usize, usize, usize, usize, usize); 7] = [
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
];
const STEM_WIDTH: usize = 32;
const HEAD_WIDTH: usize = 1280;

/// Where a network was trained, which decides its padding and the constant added to variances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Symmetric padding, `eps = 1e-5`.
    Pytorch,
    /// TensorFlow's SAME padding, `eps = 1e-3`; timm's networks whose names start with `tf_`.
    Tensorflow,
}

impl Origin {
    /// The constant added to variances.
    pub(crate) fn eps(self) -> f32 {
        match self {
            Self::Pytorch => 1e-5,
            Self::Tensorflow => 1e-3,
        }
    }

    /// The convolution with this origin's padding, for a filter of odd size.
    pub(crate) fn pad(self, conv: Conv2d) -> Conv2d {
        // With stride 1 and an odd filter both rules pad alike.
        if self == Self::Tensorflow && conv.stride > 1 {
            conv.pad_same()
        } else {
            let pixels = conv.kernel[0] / 2;
            conv.padding(pixels)
        }
    }
}

/// EfficientNet-Lite: EfficientNet without squeeze-excite, with ReLU6 and a fixed stem and head.
///
/// Parameter names are timm's (`conv_stem`, `blocks.0.0.conv_dw`, `classifier`); torchvision has no such network.
///
/// *Reference*: Tan and Le, "EfficientNet: Rethinking Model Scaling" (2019), and the lite variants published with
/// TensorFlow's TPU models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficientNetLiteConfig {
    /// Width of the stages in percent, rounded to multiples of 8.
    pub width_percent: usize,
    /// Units of all stages but the first and last in percent, rounded up.
    pub depth_percent: usize,
    /// Padding and variance constant.
    pub origin: Origin,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl EfficientNetLiteConfig {
    /// EfficientNet-Lite0.
    pub fn lite0(origin: Origin, classes: usize) -> Self {
        Self { width_percent: 100, depth_percent: 100, origin, classes }
    }

    /// EfficientNet-Lite1.
    pub fn lite1(origin: Origin, classes: usize) -> Self {
        Self { depth_percent: 110, ..Self::lite0(origin, classes) }
    }

    /// EfficientNet-Lite2.
    pub fn lite2(origin: Origin, classes: usize) -> Self {
        Self { width_percent: 110, depth_percent: 120, ..Self::lite0(origin, classes) }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "efficientnet_lite";
        check_setting(family, "width_percent", self.width_percent, 25..=400)?;
        check_setting(family, "depth_percent", self.depth_percent, 25..=1_000)?;
        check_classes(family, self.classes)
    }

    fn width(&self, channels: usize) -> usize {
        // The nearest multiple of 8, but never more than a tenth below the exact product.
        let exact = channels * self.width_percent;
        let rounded = ((exact + 400) / 800 * 8).max(8);
        if rounded * 1000 < exact * 9 { rounded + 8 } else { rounded }
    }

    fn units(&self, stage: usize, units: usize) -> usize {
        if stage == 0 || stage + 1 == STAGES.len() { units } else { (units * self.depth_percent).div_ceil(100) }
    }
}

/// The layers of EfficientNet-Lite.
pub fn build_efficientnet_lite(config: &EfficientNetLiteConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let stem = config.origin.pad(Conv2d::new(3, STEM_WIDTH, 3).stride(2));
    x = g.conv("conv_stem", x, stem);
    x = norm_relu6(&mut g, "bn1", x, config.origin.eps());
    for (stage, (kernel, expansion, outputs, units, first_stride)) in STAGES.into_iter().enumerate() {
        for unit in 0..config.units(stage, units) {
            let stride = if unit == 0 { first_stride } else { 1 };
            let name = format!("blocks.{stage}.{unit}");
            let width = config.width(outputs);
            let inner = g.channels(x) * expansion;
            let depthwise = Conv2d::new(inner, inner, kernel).stride(stride).groups(inner);
            x = inverted_residual(&mut g, config, &name, x, depthwise, width);
        }
    }
    let features = g.channels(x);
    x = g.conv("conv_head", x, Conv2d::new(features, HEAD_WIDTH, 1));
    x = norm_relu6(&mut g, "bn2", x, config.origin.eps());
    x = g.global_avg_pool("global_pool", x);
    let logits = g.linear("classifier", x, HEAD_WIDTH, config.classes);
    g.finish(logits)
}

fn norm_relu6(g: &mut GraphBuilder, name: &str, x: NodeId, eps: f32) -> NodeId {
    let y = g.batch_norm(name, x, eps);
    g.activation(&format!("{name}.act"), y, Activation::Relu6)
}

fn inverted_residual(
    g: &mut GraphBuilder,
    config: &EfficientNetLiteConfig,
    name: &str,
    x: NodeId,
    depthwise: Conv2d,
    outputs: usize,
) -> NodeId {
    let inputs = g.channels(x);
    let inner = depthwise.in_channels;
    let keeps_extents = depthwise.stride == 1 && inputs == outputs;
    let depthwise = config.origin.pad(depthwise);
    let mut y = x;
    // timm numbers the norms in order and calls the last convolution `conv_pwl` only where another 1x1 precedes it.
    let expands = inner != inputs;
    if expands {
        y = g.conv(&format!("{name}.conv_pw"), y, Conv2d::new(inputs, inner, 1));
        y = norm_relu6(g, &format!("{name}.bn1"), y, config.origin.eps());
    }
    let [second, third, project] = if expands { ["bn2", "bn3", "conv_pwl"] } else { ["bn1", "bn2", "conv_pw"] };
    y = g.conv(&format!("{name}.conv_dw"), y, depthwise);
    y = norm_relu6(g, &format!("{name}.{second}"), y, config.origin.eps());
    let conv = Conv2d::new(inner, outputs, 1);
    y = g.conv(&format!("{name}.{project}"), y, conv);
    y = g.batch_norm(&format!("{name}.{third}"), y, config.origin.eps());
    if keeps_extents {
        y = g.add(&format!("{name}.add"), y, x);
    }
    y
}

pub(crate) const FAMILY: Family = Family::new("EfficientNet-Lite");

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::{Dims, Op, Padding};

    #[test]
    fn lite2_widths_are_multiples_of_8() {
        let config = EfficientNetLiteConfig::lite2(Origin::Pytorch, 10);
        let widths = STAGES.map(|stage| config.width(stage.2));
        assert_eq!(widths, [16, 24, 48, 88, 120, 208, 352]);
    }

    #[test]
    fn lite1_deepens_all_but_the_outer_stages() {
        let config = EfficientNetLiteConfig::lite1(Origin::Pytorch, 10);
        let units: Vec<_> = (0..7).map(|i| config.units(i, STAGES[i].3)).collect();
        assert_eq!(units, [1, 3, 3, 4, 4, 5, 1]);
    }

    #[test]
    fn tensorflow_weights_pad_strided_filters_after_the_image() {
        let config = EfficientNetLiteConfig::lite0(Origin::Tensorflow, 10);
        let graph = build_efficientnet_lite(&config).unwrap();
        let stem = graph.node(graph.find("conv_stem").unwrap());
        let Op::Conv2d(conv) = &stem.op else { panic!("the stem is a convolution") };
        assert_eq!(conv.padding, Padding::Same);
        let (offsets, dims) = conv.resolve(Dims::new(224, 224, 3)).unwrap();
        assert_eq!((offsets, dims), ([0, 0], Dims::new(112, 112, 32)));
    }

    #[test]
    fn odd_sizes_still_add_up() {
        for origin in [Origin::Pytorch, Origin::Tensorflow] {
            let config = EfficientNetLiteConfig::lite1(origin, 10);
            let graph = build_efficientnet_lite(&config).unwrap();
            assert!(graph.infer_dims(97, 61).is_ok());
        }
    }
}
