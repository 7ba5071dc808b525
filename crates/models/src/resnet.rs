use crate::check::{check_classes, check_rule, check_setting};
use crate::shapes::{Shapes, join};
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Conv2d, Graph, GraphBuilder, GraphError, NodeId, NormKind, Pool};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-5;

/// The residual unit a network repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Two 3x3 convolutions.
    Basic,
    /// 1x1, 3x3 (which carries stride and groups) and 1x1 to four times the width.
    Bottleneck,
}

impl Block {
    fn expansion(self) -> usize {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

/// What comes before the first residual unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// 7x7 convolution of stride 2 and a 3x3 max pool of stride 2.
    Imagenet,
    /// 3x3 convolution of stride 1, no pool.
    Cifar,
}

/// How the shortcut follows a change of stride or width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortcut {
    /// Type A: every second pixel, missing channels filled with zeros; no parameters.
    A,
    /// Type B: 1x1 convolution and norm, called `downsample.0` and `downsample.1`.
    #[default]
    B,
}

/// Which norm follows each convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResNetNorm {
    /// Batch norm.
    #[default]
    Batch,
    /// Group norm with this many groups in every layer.
    Group(usize),
}

/// A residual network: stem, stages of residual units, mean over all pixels, `fc`.
///
/// The first unit of every stage but the first has stride 2. Parameter names are torchvision's; timm uses the same
/// ones. The names `linear` for `fc` and `shortcut` for `downsample`, common among CIFAR networks, are accepted too.
///
/// *Reference*: He et al., "Deep Residual Learning for Image Recognition" (2016); Xie et al., "Aggregated Residual
/// Transformations" (2017); Zagoruyko and Komodakis, "Wide Residual Networks" (2016) for the doubled bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResNetConfig {
    /// The unit.
    pub block: Block,
    /// Width of each stage before the unit's expansion; the first is also the stem's.
    pub widths: Vec<usize>,
    /// Units in each stage.
    pub layers: Vec<usize>,
    /// The first layers.
    pub stem: Stem,
    /// The shortcut where extents change.
    #[serde(default)]
    pub shortcut: Shortcut,
    /// Groups of a bottleneck's 3x3 convolution.
    #[serde(default = "one_group")]
    pub groups: usize,
    /// Channels per group of a bottleneck's 3x3 convolution where the stage's width is 64.
    #[serde(default = "width_64")]
    pub width_per_group: usize,
    /// The norm layers.
    #[serde(default)]
    pub norm: ResNetNorm,
    /// Outputs of `fc`.
    pub classes: usize,
}

fn one_group() -> usize {
    1
}

fn width_64() -> usize {
    64
}

impl ResNetConfig {
    /// A network with batch norm and type B shortcuts, without groups.
    pub fn plain(block: Block, stem: Stem, widths: &[usize], layers: &[usize], classes: usize) -> Self {
        Self {
            block,
            widths: widths.to_vec(),
            layers: layers.to_vec(),
            stem,
            shortcut: Shortcut::B,
            groups: 1,
            width_per_group: 64,
            norm: ResNetNorm::Batch,
            classes,
        }
    }

    /// Four stages of width 64 to 512 of basic units: ResNet-18 and 34.
    pub fn imagenet_basic(layers: [usize; 4], classes: usize) -> Self {
        let widths = [64, 128, 256, 512];
        Self::plain(Block::Basic, Stem::Imagenet, &widths, &layers, classes)
    }

    /// Four stages of width 64 to 512 of bottlenecks: ResNet-50, 101 and 152.
    pub fn imagenet_bottleneck(layers: [usize; 4], classes: usize) -> Self {
        let widths = [64, 128, 256, 512];
        Self::plain(Block::Bottleneck, Stem::Imagenet, &widths, &layers, classes)
    }

    /// Bottlenecks with grouped 3x3 convolutions: ResNeXt, and with one group of 128 Wide-ResNet-50-2.
    pub fn grouped(layers: [usize; 4], groups: usize, width_per_group: usize, classes: usize) -> Self {
        Self { groups, width_per_group, ..Self::imagenet_bottleneck(layers, classes) }
    }

    /// ResNet-50 with group norm of 32 groups.
    pub fn resnet50_gn(classes: usize) -> Self {
        Self { norm: ResNetNorm::Group(32), ..Self::imagenet_bottleneck([3, 4, 6, 3], classes) }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let stages = self.widths.len();
        check_setting("resnet", "stages", stages, 1..=8)?;
        let layers = self.layers.len();
        check_rule(layers == stages, "resnet", "number of layers", layers, || format!("{stages}, one per width"))?;
        for &width in &self.widths {
            check_setting("resnet", "width", width, 1..=16_384)?;
        }
        for &units in &self.layers {
            check_setting("resnet", "layers", units, 1..=512)?;
        }
        check_setting("resnet", "groups", self.groups, 1..=4_096)?;
        check_setting("resnet", "width_per_group", self.width_per_group, 1..=4_096)?;
        if self.block == Block::Basic {
            check_setting("resnet", "groups of basic blocks", self.groups, 1..=1)?;
            let width = self.width_per_group;
            check_setting("resnet", "width_per_group of basic blocks", width, 64..=64)?;
        }
        check_classes("resnet", self.classes)
    }

    /// Channels of a bottleneck's inner convolution in a stage of `width`.
    pub(crate) fn inner_width(&self, width: usize) -> usize {
        width * self.width_per_group / 64 * self.groups
    }

    fn norm_kind(&self) -> NormKind {
        match self.norm {
            ResNetNorm::Batch => NormKind::Batch,
            ResNetNorm::Group(groups) => NormKind::Group { groups },
        }
    }
}

/// The layers of a residual network.
pub fn build_resnet(config: &ResNetConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let width = config.widths[0];
    let conv = match config.stem {
        Stem::Imagenet => Conv2d::new(3, width, 7).stride(2).padding(3),
        Stem::Cifar => Conv2d::new(3, width, 3).padding(1),
    };
    x = g.conv("conv1", x, conv);
    x = g.norm("bn1", x, config.norm_kind(), EPS);
    x = g.activation("relu", x, Activation::Relu);
    if config.stem == Stem::Imagenet {
        let pool = Pool::new(3, 2, 1);
        x = g.max_pool("maxpool", x, pool);
    }
    for (stage, (&width, &units)) in config.widths.iter().zip(&config.layers).enumerate() {
        for unit in 0..units {
            let stride = if stage > 0 && unit == 0 { 2 } else { 1 };
            let name = format!("layer{}.{unit}", stage + 1);
            x = residual_unit(&mut g, config, &name, x, width, stride);
        }
    }
    x = g.global_avg_pool("avgpool", x);
    let features = g.channels(x);
    let logits = g.linear("fc", x, features, config.classes);
    g.finish(logits)
}

fn residual_unit(
    g: &mut GraphBuilder,
    config: &ResNetConfig,
    name: &str,
    x: NodeId,
    width: usize,
    stride: usize,
) -> NodeId {
    let inputs = g.channels(x);
    let outputs = width * config.block.expansion();
    let inner = config.inner_width(width);
    let convs = match config.block {
        Block::Basic => {
            vec![Conv2d::new(inputs, width, 3).stride(stride).padding(1), Conv2d::new(width, width, 3).padding(1)]
        }
        Block::Bottleneck => vec![
            Conv2d::new(inputs, inner, 1),
            Conv2d::new(inner, inner, 3).stride(stride).padding(1).groups(config.groups),
            Conv2d::new(inner, outputs, 1),
        ],
    };
    let last = convs.len();
    let mut branch = x;
    for (index, conv) in (1..).zip(convs) {
        branch = g.conv(&format!("{name}.conv{index}"), branch, conv);
        let bn = format!("{name}.bn{index}");
        branch = g.norm(&bn, branch, config.norm_kind(), EPS);
        if index < last {
            let relu = format!("{name}.relu{index}");
            branch = g.activation(&relu, branch, Activation::Relu);
        }
    }
    let mut skip = x;
    if stride != 1 || inputs != outputs {
        skip = match config.shortcut {
            Shortcut::A => g.shortcut_a(&format!("{name}.downsample"), x, stride, outputs),
            Shortcut::B => {
                let conv = Conv2d::new(inputs, outputs, 1).stride(stride);
                let y = g.conv(&format!("{name}.downsample.0"), x, conv);
                let bn = format!("{name}.downsample.1");
                g.norm(&bn, y, config.norm_kind(), EPS)
            }
        };
    }
    let sum = g.add(&format!("{name}.add"), branch, skip);
    g.activation(&format!("{name}.relu"), sum, Activation::Relu)
}

pub(crate) const FAMILY: Family = Family { rename, infer, ..Family::new("ResNet") };

/// CIFAR implementations call the head `linear` and the projection `shortcut`.
fn rename(name: &str) -> Option<String> {
    if let Some(suffix) = name.strip_prefix("linear.") {
        return Some(format!("fc.{suffix}"));
    }
    let (unit, suffix) = name.split_once(".shortcut.")?;
    Some(format!("{unit}.downsample.{suffix}"))
}

/// Networks with batch norm of any width and depth; the stem is CIFAR's where its filter is 3x3.
fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    // Without running statistics the norm is of another kind, whose groups no tensor tells.
    shapes.get::<1>("bn1.running_mean")?;
    let [stem_width, 3, kernel, _] = shapes.get("conv1.weight")? else {
        return None;
    };
    let (stem, input_size) = match kernel {
        3 => (Stem::Cifar, 32),
        7 => (Stem::Imagenet, 224),
        _ => return None,
    };
    let layers = shapes.count_stages(|stage, unit| format!("layer{}.{unit}.conv1.weight", stage + 1));
    let (block, widest) =
        if shapes.has("layer1.0.conv3.weight") { (Block::Bottleneck, "conv3") } else { (Block::Basic, "conv1") };
    let width = |stage| Some(shapes.get::<4>(&format!("layer{stage}.0.{widest}.weight"))?[0] / block.expansion());
    let widths: Vec<usize> = (1..=layers.len()).map(width).collect::<Option<_>>()?;
    if widths.first() != Some(&stem_width) {
        return None;
    }
    let [classes, _] = shapes.get("fc.weight")?;
    let mut config = ResNetConfig::plain(block, stem, &widths, &layers, classes);
    if !shapes.names().any(|name| name.contains(".downsample.")) {
        config.shortcut = Shortcut::A;
    }
    if block == Block::Bottleneck {
        let [inner, per_group, ..] = shapes.get::<4>("layer1.0.conv2.weight")?;
        config.groups = inner.checked_div(per_group)?;
        let channels = stem_width.checked_mul(config.groups)?;
        config.width_per_group = inner.checked_mul(64)?.checked_div(channels)?;
    }
    let name = config.cifar_name().unwrap_or_else(|| {
        let stem = if stem == Stem::Cifar { "cifar" } else { "imagenet" };
        let block = if block == Block::Basic { "basic" } else { "bottleneck" };
        format!("resnet_{stem}_{block}_l{}_w{}", join(&layers), join(&widths))
    });
    Some(Architecture::new(name, input_size, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    fn dims_of(graph: &Graph, size: usize, node: &str) -> Dims {
        let id = graph.find(node).unwrap();
        graph.infer_dims(size, size).unwrap()[id.index()]
    }

    #[test]
    fn resnet50_halves_the_image_five_times() {
        let graph = build_resnet(&ResNetConfig::imagenet_bottleneck([3, 4, 6, 3], 1000)).unwrap();
        assert_eq!(dims_of(&graph, 224, "maxpool"), Dims::new(56, 56, 64));
        assert_eq!(dims_of(&graph, 224, "layer1.0.relu"), Dims::new(56, 56, 256));
        assert_eq!(dims_of(&graph, 224, "layer2.0.relu1"), Dims::new(56, 56, 128));
        assert_eq!(dims_of(&graph, 224, "layer2.0.relu2"), Dims::new(28, 28, 128));
        assert_eq!(dims_of(&graph, 224, "layer4.2.relu"), Dims::new(7, 7, 2048));
        assert_eq!(dims_of(&graph, 224, "embedding"), Dims::new(1, 1, 2048));
        assert_eq!(dims_of(&graph, 224, "logits"), Dims::new(1, 1, 1000));
    }

    #[test]
    fn resnet50_adapts_53120_values() {
        let graph = build_resnet(&ResNetConfig::imagenet_bottleneck([3, 4, 6, 3], 1000)).unwrap();
        assert_eq!(graph.affine_table().len(), 53_120);
    }

    #[test]
    fn the_wide_bottleneck_doubles_only_the_inner_width() {
        let graph = build_resnet(&ResNetConfig::grouped([3, 4, 6, 3], 1, 128, 10)).unwrap();
        assert_eq!(dims_of(&graph, 64, "layer1.0.conv2"), Dims::new(16, 16, 128));
        assert_eq!(dims_of(&graph, 64, "layer1.0.conv3"), Dims::new(16, 16, 256));
    }

    #[test]
    fn a_missing_layer_count_is_named() {
        let mut config = ResNetConfig::imagenet_basic([2, 2, 2, 2], 10);
        config.layers.pop();
        assert_eq!(
            build_resnet(&config).unwrap_err().to_string(),
            "`resnet` has number of layers = 3, expected 4, one per width"
        );
    }

    #[test]
    fn hostile_depth_is_refused_before_building() {
        let config = ResNetConfig::imagenet_basic([2, 2, usize::MAX, 2], 10);
        assert!(matches!(build_resnet(&config), Err(GraphError::BadSetting { setting: "layers", .. })));
    }

    #[test]
    fn group_norm_has_no_running_statistics() {
        let graph = build_resnet(&ResNetConfig::resnet50_gn(10)).unwrap();
        assert!(graph.params().iter().all(|p| !p.name.contains("running")));
    }
}
