use crate::check::{check_classes, check_rule, check_setting};
use crate::shapes::Shapes;
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-5;
/// Some networks were saved with a second copy of their first block.
const SECOND_COPY: &str = "sub_block1.";

/// A pre-activation wide residual network for small images.
///
/// Three blocks of `(depth - 4) / 6` units with widths `16 k, 32 k, 64 k` for the widening factor `k`. Where the width
/// changes, the 1x1 `convShortcut` reads the unit's *activated* input. Parameter names are those of the common PyTorch
/// implementation (`block1.layer.0.bn1`, `bn1`, `fc`), which RobustBench uses as well.
///
/// *Reference*: Zagoruyko and Komodakis, "Wide Residual Networks" (2016).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WideResNetConfig {
    /// Convolutions along the main path, `6 n + 4`.
    pub depth: usize,
    /// The widening factor.
    pub widen_factor: usize,
    /// Outputs of `fc`.
    pub classes: usize,
}

impl WideResNetConfig {
    /// WRN-`depth`-`widen_factor`.
    pub fn new(depth: usize, widen_factor: usize, classes: usize) -> Self {
        Self { depth, widen_factor, classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        check_setting("wide_resnet", "depth", self.depth, 10..=1_000)?;
        check_rule(self.depth % 6 == 4, "wide_resnet", "depth", self.depth, || "6 n + 4".into())?;
        check_setting("wide_resnet", "widen_factor", self.widen_factor, 1..=256)?;
        check_classes("wide_resnet", self.classes)
    }
}

/// The layers of a wide residual network.
pub fn build_wide_resnet(config: &WideResNetConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    x = g.conv("conv1", x, Conv2d::new(3, 16, 3).padding(1));
    for block in 0..3 {
        let width = (16 << block) * config.widen_factor;
        for unit in 0..(config.depth - 4) / 6 {
            let stride = if block > 0 && unit == 0 { 2 } else { 1 };
            let name = format!("block{}.layer.{unit}", block + 1);
            x = preactivation_unit(&mut g, &name, x, width, stride);
        }
    }
    x = g.batch_norm("bn1", x, EPS);
    x = g.activation("relu", x, Activation::Relu);
    x = g.global_avg_pool("avgpool", x);
    let features = g.channels(x);
    let logits = g.linear("fc", x, features, config.classes);
    g.finish(logits)
}

fn preactivation_unit(g: &mut GraphBuilder, name: &str, x: NodeId, width: usize, stride: usize) -> NodeId {
    let inputs = g.channels(x);
    let active = g.batch_norm(&format!("{name}.bn1"), x, EPS);
    let active = g.activation(&format!("{name}.relu1"), active, Activation::Relu);
    let conv = Conv2d::new(inputs, width, 3).stride(stride).padding(1);
    let y = g.conv(&format!("{name}.conv1"), active, conv);
    let y = g.batch_norm(&format!("{name}.bn2"), y, EPS);
    let y = g.activation(&format!("{name}.relu2"), y, Activation::Relu);
    let conv = Conv2d::new(width, width, 3).padding(1);
    let y = g.conv(&format!("{name}.conv2"), y, conv);
    let skip = if inputs == width {
        x
    } else {
        let conv = Conv2d::new(inputs, width, 1).stride(stride);
        g.conv(&format!("{name}.convShortcut"), active, conv)
    };
    g.add(&format!("{name}.add"), y, skip)
}

pub(crate) const FAMILY: Family =
    Family { ignores: |name| name.starts_with(SECOND_COPY), infer, ..Family::new("WideResNet") };

fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    let units = shapes.count(|unit| format!("block1.layer.{unit}.conv1.weight"));
    let [width, ..] = shapes.get::<4>("block1.layer.0.conv1.weight")?;
    let [classes, _] = shapes.get("fc.weight")?;
    let config = WideResNetConfig::new(6 * units + 4, width / 16, classes);
    let name = format!("wrn_{}_{}", config.depth, config.widen_factor);
    width.is_multiple_of(16).then(|| Architecture::new(name, 32, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn wrn_40_2_ends_with_8_by_8_pixels_of_128_channels() {
        let graph = build_wide_resnet(&WideResNetConfig::new(40, 2, 100)).unwrap();
        let dims = graph.infer_dims(32, 32).unwrap();
        let last = graph.find("block3.layer.5.add").unwrap();
        assert_eq!(dims[last.index()], Dims::new(8, 8, 128));
        assert_eq!(dims[graph.output().index()], Dims::new(1, 1, 100));
    }

    #[test]
    fn the_shortcut_convolution_reads_the_activated_input() {
        let graph = build_wide_resnet(&WideResNetConfig::new(40, 2, 10)).unwrap();
        let shortcut = graph.find("block2.layer.0.convShortcut").unwrap();
        let input = graph.node(shortcut).inputs[0];
        assert_eq!(graph.node(input).name, "block2.layer.0.relu1");
        assert!(graph.find("block2.layer.1.convShortcut").is_none());
    }

    #[test]
    fn a_depth_that_does_not_divide_is_refused() {
        let error = build_wide_resnet(&WideResNetConfig::new(30, 2, 10)).unwrap_err();
        assert_eq!(error.to_string(), "`wide_resnet` has depth = 30, expected 6 n + 4");
    }
}
