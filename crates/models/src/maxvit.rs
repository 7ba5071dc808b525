use crate::blocks::{FeedForward, conv_norm_activation, squeeze_excite};
use crate::check::{check_classes, check_rule, check_setting};
use crate::efficientnet_lite::Origin;
use crate::layout::find_bias_by_head;
use crate::names::{Names, indices, is_window_table, replace_layer};
use crate::shapes::{Shapes, join};
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Attention, Conv2d, Graph, GraphBuilder, GraphError, NodeId, NormKind, Pool, Tokens};
use serde::{Deserialize, Serialize};

const BATCH_NORM_EPS: f32 = 1e-3;
const LAYER_NORM_EPS: f32 = 1e-5;
/// Channels of a convolution block's inside, and of a feed-forward layer's, as a multiple of the outside's.
const EXPANSION: usize = 4;

/// MaxViT: each layer is an inverted residual with squeeze-excite, attention within windows and attention across a grid.
///
/// The convolution blocks have batch norms, the attention blocks layer norms. Parameter names are torchvision's
/// (`blocks.0.layers.0.layers.MBconv.layers.conv_a.0`, `classifier.5`); timm's for the networks converted from TensorFlow
/// (`stages.0.blocks.0.conv.conv1_1x1`, `head.fc`) are accepted too.
///
/// *Reference*: Tu et al., "MaxViT: Multi-Axis Vision Transformer" (2022).
///
/// *Departures from the reference*: the two published forms differ, and [`Origin`] chooses. torchvision's (`pytorch`)
/// scales attention by the square root of all channels instead of one head's, shortens shortcuts with overlapping 3x3 means
/// and always projects them, uses the exact GELU, and has no bias in the stem and the classifier. The converted networks
/// (`tensorflow`) keep the reference's scale, 2x2 means, SAME padding, the tanh form of GELU and these biases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxVitConfig {
    /// Channels of the stem.
    pub stem_width: usize,
    /// Channels per stage.
    pub widths: Vec<usize>,
    /// Layers per stage.
    pub layers: Vec<usize>,
    /// Side of a window, and of the grid.
    pub partition: usize,
    /// Channels of an attention head.
    pub head_dim: usize,
    /// Which of the two published forms it is.
    pub origin: Origin,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl MaxVitConfig {
    /// MaxViT-T.
    pub fn tiny(origin: Origin, classes: usize) -> Self {
        Self {
            stem_width: 64,
            widths: vec![64, 128, 256, 512],
            layers: vec![2, 2, 5, 2],
            partition: 7,
            head_dim: 32,
            origin,
            classes,
        }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "maxvit";
        check_setting(family, "stem_width", self.stem_width, 1..=65_536)?;
        let stages = self.widths.len();
        check_setting(family, "stages", stages, 1..=8)?;
        check_setting(family, "stages with layers", self.layers.len(), stages..=stages)?;
        check_setting(family, "head_dim", self.head_dim, 1..=65_536)?;
        for (&width, &layers) in self.widths.iter().zip(&self.layers) {
            // Squeeze-excite keeps a quarter of the channels.
            check_setting(family, "widths", width, 4..=65_536)?;
            let fits = width.is_multiple_of(self.head_dim);
            check_rule(fits, family, "widths", width, || format!("a multiple of {}", self.head_dim))?;
            check_setting(family, "layers", layers, 1..=1_000)?;
        }
        check_setting(family, "partition", self.partition, 1..=1_024)?;
        check_classes(family, self.classes)
    }

    fn gelu(&self) -> Activation {
        match self.origin {
            Origin::Pytorch => Activation::Gelu,
            Origin::Tensorflow => Activation::GeluTanh,
        }
    }

    fn attention_scale(&self, channels: usize) -> f32 {
        let terms = match self.origin {
            Origin::Pytorch => channels,
            Origin::Tensorflow => self.head_dim,
        };
        (terms as f32).powf(-0.5)
    }
}

/// The layers of MaxViT.
pub fn build_maxvit(config: &MaxVitConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, images) = GraphBuilder::new(3);
    let mut x = stem(&mut g, config, images);
    for (stage, (&width, &layers)) in config.widths.iter().zip(&config.layers).enumerate() {
        for layer in 0..layers {
            let name = format!("blocks.{stage}.layers.{layer}.layers");
            let stride = if layer == 0 { 2 } else { 1 };
            x = convolution(&mut g, config, &format!("{name}.MBconv"), x, width, stride);
            let size = config.partition;
            let windows = Tokens::Window { size, shift: 0 };
            x = attention(&mut g, config, &format!("{name}.window_attention"), x, windows);
            let grid = Tokens::Grid { size };
            x = attention(&mut g, config, &format!("{name}.grid_attention"), x, grid);
        }
    }
    let width = g.channels(x);
    x = g.global_avg_pool("classifier.0", x);
    x = g.norm("classifier.2", x, NormKind::Layer, LAYER_NORM_EPS);
    x = g.linear("classifier.3", x, width, width);
    x = g.activation("classifier.4", x, Activation::Tanh);
    let logits = match config.origin {
        Origin::Pytorch => g.linear_without_bias("classifier.5", x, width, config.classes),
        Origin::Tensorflow => g.linear("classifier.5", x, width, config.classes),
    };
    g.finish(logits)
}

fn stem(g: &mut GraphBuilder, config: &MaxVitConfig, images: NodeId) -> NodeId {
    let width = config.stem_width;
    let mut halve = config.origin.pad(Conv2d::new(3, width, 3).stride(2));
    halve.bias = config.origin == Origin::Tensorflow;
    let x = conv_norm_gelu(g, config, "stem.0", images, halve);
    let refine = Conv2d::new(width, width, 3).padding(1).with_bias();
    g.conv("stem.1.0", x, refine)
}

fn conv_norm_gelu(g: &mut GraphBuilder, config: &MaxVitConfig, name: &str, x: NodeId, conv: Conv2d) -> NodeId {
    conv_norm_activation(g, name, x, conv, BATCH_NORM_EPS, config.gelu())
}

fn convolution(
    g: &mut GraphBuilder,
    config: &MaxVitConfig,
    name: &str,
    x: NodeId,
    width: usize,
    stride: usize,
) -> NodeId {
    let (inputs, inner) = (g.channels(x), width * EXPANSION);
    let skip = shortcut(g, config, &format!("{name}.proj"), x, width, stride);
    let layers = format!("{name}.layers");
    let mut y = g.batch_norm(&format!("{layers}.pre_norm"), x, BATCH_NORM_EPS);
    let expand = Conv2d::new(inputs, inner, 1);
    y = conv_norm_gelu(g, config, &format!("{layers}.conv_a"), y, expand);
    let depthwise = Conv2d::new(inner, inner, 3).stride(stride).groups(inner);
    let depthwise = config.origin.pad(depthwise);
    y = conv_norm_gelu(g, config, &format!("{layers}.conv_b"), y, depthwise);
    y = squeeze_excite(g, &format!("{layers}.squeeze_excitation"), y, width / 4);
    let project = Conv2d::new(inner, width, 1).with_bias();
    y = g.conv(&format!("{layers}.conv_c"), y, project);
    g.add(&format!("{name}.add"), skip, y)
}

fn shortcut(g: &mut GraphBuilder, config: &MaxVitConfig, name: &str, x: NodeId, width: usize, stride: usize) -> NodeId {
    let inputs = g.channels(x);
    if stride == 1 && inputs == width {
        return x;
    }
    let project = Conv2d::new(inputs, width, 1).with_bias();
    if stride == 1 {
        return g.conv(&format!("{name}.0"), x, project);
    }
    let (kernel, padding) = match config.origin {
        Origin::Pytorch => (3, 1),
        Origin::Tensorflow => (2, 0),
    };
    let pool = Pool::new(kernel, stride, padding);
    let x = g.avg_pool(&format!("{name}.0"), x, pool);
    if config.origin == Origin::Tensorflow && inputs == width {
        return x;
    }
    g.conv(&format!("{name}.1"), x, project)
}

fn attention(g: &mut GraphBuilder, config: &MaxVitConfig, name: &str, x: NodeId, tokens: Tokens) -> NodeId {
    let dim = g.channels(x);
    let layer = format!("{name}.attn_layer");
    let mut y = g.norm(&format!("{layer}.0"), x, NormKind::Layer, LAYER_NORM_EPS);
    y = g.linear(&format!("{layer}.1.to_qkv"), y, dim, 3 * dim);
    let settings =
        Attention::new(dim / config.head_dim, config.attention_scale(dim)).tokens(tokens).with_relative_bias();
    y = g.attention(&format!("{layer}.1"), y, settings);
    y = g.linear(&format!("{layer}.1.merge"), y, dim, dim);
    let x = g.add(&format!("{layer}.add"), x, y);
    let feed_forward = FeedForward {
        norm: "0",
        linear: ["1", "3"],
        inner: EXPANSION * dim,
        activation: config.gelu(),
        eps: LAYER_NORM_EPS,
        scale: None,
    };
    feed_forward.build(g, &format!("{name}.mlp_layer"), x)
}

pub(crate) const FAMILY: Family =
    Family { rename, ignores: is_window_table, find_layout: find_bias_by_head, infer, ..Family::new("MaxViT") };

/// timm's layers outside the stages.
const OUTER: &Names = &[
    ("stem.conv1", "stem.0.0"),
    ("stem.norm1", "stem.0.1"),
    ("stem.conv2", "stem.1.0"),
    ("head.norm", "classifier.2"),
    ("head.pre_logits.fc", "classifier.3"),
    ("head.fc", "classifier.5"),
];
/// timm's layers of a convolution block.
const CONVOLUTION: &Names = &[
    ("shortcut.expand", "proj.1"),
    ("pre_norm", "layers.pre_norm"),
    ("conv1_1x1", "layers.conv_a.0"),
    ("norm1", "layers.conv_a.1"),
    ("conv2_kxk", "layers.conv_b.0"),
    ("norm2", "layers.conv_b.1"),
    ("se.fc1", "layers.squeeze_excitation.fc1"),
    ("se.fc2", "layers.squeeze_excitation.fc2"),
    ("conv3_1x1", "layers.conv_c"),
];
/// timm's layers of an attention block.
const ATTENTION: &Names = &[
    ("norm1", "attn_layer.0"),
    ("attn.qkv", "attn_layer.1.to_qkv"),
    ("attn.proj", "attn_layer.1.merge"),
    ("attn.rel_pos", "attn_layer.1"),
    ("norm2", "mlp_layer.0"),
    ("mlp.fc1", "mlp_layer.1"),
    ("mlp.fc2", "mlp_layer.3"),
];

fn rename(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("stages.") else {
        return replace_layer(OUTER, name);
    };
    let (stage, block, path) = indices(path, "blocks.")?;
    let (part, path) = path.split_once('.')?;
    let (part, table) = match part {
        "conv" => ("MBconv", CONVOLUTION),
        "attn_block" => ("window_attention", ATTENTION),
        "attn_grid" => ("grid_attention", ATTENTION),
        _ => return None,
    };
    let path = replace_layer(table, path)?;
    Some(format!("blocks.{stage}.layers.{block}.layers.{part}.{path}"))
}

fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [stem_width, 3, 3, 3] = shapes.get("stem.0.0.weight")? else {
        return None;
    };
    let layer = |stage: usize, layer: usize| format!("blocks.{stage}.layers.{layer}.layers");
    let first = |stage, index| format!("{}.MBconv.layers.conv_c.weight", layer(stage, index));
    let layers = shapes.count_stages(first);
    let width = |stage| Some(shapes.get::<4>(&first(stage, 0))?[0]);
    let widths: Vec<usize> = (0..layers.len()).map(width).collect::<Option<_>>()?;
    let table = ".window_attention.attn_layer.1.relative_position_bias_table";
    let (partition, heads) = shapes.window(&(layer(0, 0) + table))?;
    let head_dim = widths.first()?.checked_div(heads)?;
    let origin = if shapes.has("classifier.5.bias") { Origin::Tensorflow } else { Origin::Pytorch };
    let [classes, _] = shapes.get("classifier.5.weight")?;
    let name = format!("maxvit_l{}_w{}_partition{partition}", join(&layers), join(&widths));
    let config = MaxVitConfig { stem_width, widths, layers, partition, head_dim, origin, classes };
    Some(Architecture::new(name, 224, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn both_forms_end_with_7_by_7_pixels() {
        for origin in [Origin::Pytorch, Origin::Tensorflow] {
            let graph = build_maxvit(&MaxVitConfig::tiny(origin, 1000)).unwrap();
            let dims = graph.infer_dims(224, 224).unwrap();
            let last = graph.find("classifier.0").unwrap();
            let map = graph.node(last).inputs[0];
            assert_eq!(dims[map.index()], Dims::new(7, 7, 512));
        }
    }

    #[test]
    fn maps_that_are_not_whole_windows_are_refused() {
        let graph = build_maxvit(&MaxVitConfig::tiny(Origin::Pytorch, 10)).unwrap();
        assert!(graph.infer_dims(192, 192).is_err());
        assert!(graph.infer_dims(448, 224).is_ok());
    }

    #[test]
    fn both_kinds_of_norm_adapt() {
        let graph = build_maxvit(&MaxVitConfig::tiny(Origin::Pytorch, 10)).unwrap();
        let count = |kind: NormKind| graph.norms().filter(|(_, norm)| norm.kind == kind).count();
        // Three per convolution block and one in the stem; four per layer and one in the classifier.
        assert_eq!(count(NormKind::Batch), 3 * 11 + 1);
        assert_eq!(count(NormKind::Layer), 4 * 11 + 1);
    }

    #[test]
    fn heads_must_fill_the_channels() {
        let mut config = MaxVitConfig::tiny(Origin::Pytorch, 10);
        config.head_dim = 48;
        let error = build_maxvit(&config).unwrap_err();
        assert_eq!(error.to_string(), "`maxvit` has widths = 64, expected a multiple of 48");
    }
}
