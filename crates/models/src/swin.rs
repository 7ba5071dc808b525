use crate::blocks::FeedForward;
use crate::check::{check_classes, check_rule, check_setting};
use crate::names::{Names, downsample, indices, is_window_table, replace_layer};
use crate::shapes::{Shapes, join};
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Attention, Conv2d, Graph, GraphBuilder, GraphError, NodeId, NormKind, Tokens};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-5;

/// Swin Transformer: attention within windows that shift from block to block, and patches merged between stages.
///
/// Images of any size are taken: maps are padded to whole windows behind the first norm of a block, so that padded tokens
/// carry the projection's bias and take part, as in torchvision. Parameter names are torchvision's
/// (`features.1.0.attn.qkv`, `head`); timm's (`layers.0.blocks.0.attn.qkv`, `head.fc`) are accepted too.
///
/// *Reference*: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (2021).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwinConfig {
    /// Side of a patch.
    pub patch_size: usize,
    /// Channels of the first stage; each further stage has twice as many.
    pub width: usize,
    /// Blocks per stage.
    pub layers: Vec<usize>,
    /// Attention heads per stage.
    pub heads: Vec<usize>,
    /// Side of a window in tokens.
    pub window: usize,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl SwinConfig {
    /// Swin-T.
    pub fn tiny(classes: usize) -> Self {
        Self::published(96, 6, [3, 6, 12, 24], classes)
    }

    /// Swin-S.
    pub fn small(classes: usize) -> Self {
        Self::published(96, 18, [3, 6, 12, 24], classes)
    }

    /// Swin-B.
    pub fn base(classes: usize) -> Self {
        Self::published(128, 18, [4, 8, 16, 32], classes)
    }

    fn published(width: usize, third: usize, heads: [usize; 4], classes: usize) -> Self {
        Self { patch_size: 4, width, layers: vec![2, 2, third, 2], heads: heads.to_vec(), window: 7, classes }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "swin";
        check_setting(family, "patch_size", self.patch_size, 1..=1_024)?;
        check_setting(family, "width", self.width, 1..=16_384)?;
        check_setting(family, "stages", self.layers.len(), 1..=8)?;
        let stages = self.layers.len();
        check_setting(family, "stages with heads", self.heads.len(), stages..=stages)?;
        for (stage, (&layers, &heads)) in self.layers.iter().zip(&self.heads).enumerate() {
            check_setting(family, "layers", layers, 1..=1_000)?;
            let width = self.width << stage;
            check_setting(family, "heads", heads, 1..=width)?;
            let divides = width.is_multiple_of(heads);
            check_rule(divides, family, "heads", heads, || format!("a divisor of {width}"))?;
        }
        check_setting(family, "window", self.window, 1..=1_024)?;
        check_classes(family, self.classes)
    }
}

/// The layers of a Swin Transformer.
pub fn build_swin(config: &SwinConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, mut x) = GraphBuilder::new(3);
    let patch = Conv2d::new(3, config.width, config.patch_size).stride(config.patch_size).with_bias();
    x = g.conv("features.0.0", x, patch);
    x = g.norm("features.0.2", x, NormKind::Layer, EPS);
    for (stage, (&layers, &heads)) in config.layers.iter().zip(&config.heads).enumerate() {
        if stage > 0 {
            x = merge_patches(&mut g, &format!("features.{}", 2 * stage), x);
        }
        for layer in 0..layers {
            let name = format!("features.{}.{layer}", 2 * stage + 1);
            let shift = if layer % 2 == 0 { 0 } else { config.window / 2 };
            let tokens = Tokens::Window { size: config.window, shift };
            x = block(&mut g, &name, x, heads, tokens, config.window);
        }
    }
    x = g.norm("norm", x, NormKind::Layer, EPS);
    x = g.global_avg_pool("avgpool", x);
    let features = g.channels(x);
    let logits = g.linear("head", x, features, config.classes);
    g.finish(logits)
}

fn merge_patches(g: &mut GraphBuilder, name: &str, x: NodeId) -> NodeId {
    let channels = g.channels(x);
    let y = g.merge_patches(name, x);
    let y = g.norm(&format!("{name}.norm"), y, NormKind::Layer, EPS);
    g.linear_without_bias(&format!("{name}.reduction"), y, 4 * channels, 2 * channels)
}

fn block(g: &mut GraphBuilder, name: &str, x: NodeId, heads: usize, tokens: Tokens, window: usize) -> NodeId {
    let dim = g.channels(x);
    let attention = format!("{name}.attn");
    let mut y = g.norm(&format!("{name}.norm1"), x, NormKind::Layer, EPS);
    y = g.pad_to_multiple(&format!("{attention}.pad"), y, window);
    y = g.linear(&format!("{attention}.qkv"), y, dim, 3 * dim);
    let scale = ((dim / heads) as f32).powf(-0.5);
    let settings = Attention::new(heads, scale).tokens(tokens).with_relative_bias();
    y = g.attention(&attention, y, settings);
    y = g.crop_like(&format!("{attention}.crop"), y, x);
    y = g.linear(&format!("{attention}.proj"), y, dim, dim);
    let x = g.add(&format!("{attention}.add"), x, y);
    let feed_forward = FeedForward {
        norm: "norm2",
        linear: ["mlp.0", "mlp.3"],
        inner: 4 * dim,
        activation: Activation::Gelu,
        eps: EPS,
        scale: None,
    };
    feed_forward.build(g, name, x)
}

pub(crate) const FAMILY: Family = Family { rename, ignores: is_window_table, infer, ..Family::new("Swin") };

/// timm's layers outside the stages.
const OUTER: &Names =
    &[("patch_embed.proj", "features.0.0"), ("patch_embed.norm", "features.0.2"), ("head.fc", "head")];
/// timm's layers of a block, where they differ.
const BLOCK: &Names = &[("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.3")];

fn rename(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("layers.") else {
        return replace_layer(OUTER, name);
    };
    let Some((stage, block, path)) = indices(path, "blocks.") else {
        return downsample(path);
    };
    let path = replace_layer(BLOCK, path).unwrap_or_else(|| path.to_owned());
    Some(format!("features.{}.{block}.{path}", 2 * stage + 1))
}

fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [width, 3, patch_size, _] = shapes.get("features.0.0.weight")? else {
        return None;
    };
    let table =
        |stage: usize, block: usize| format!("features.{}.{block}.attn.relative_position_bias_table", 2 * stage + 1);
    let layers = shapes.count_stages(table);
    let (window, _) = shapes.window(&table(0, 0))?;
    let heads = (0..layers.len()).map(|stage| Some(shapes.window(&table(stage, 0))?.1)).collect::<Option<_>>()?;
    let [classes, _] = shapes.get("head.weight")?;
    let name = format!("swin_w{width}_l{}_patch{patch_size}_window{window}", join(&layers));
    Some(Architecture::new(name, 224, SwinConfig { patch_size, width, heads, window, classes, layers }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    #[test]
    fn stages_halve_the_map_and_double_the_channels() {
        let graph = build_swin(&SwinConfig::tiny(1000)).unwrap();
        let dims = graph.infer_dims(224, 224).unwrap();
        let of = |name: &str| dims[graph.find(name).unwrap().index()];
        assert_eq!(of("features.0.2"), Dims::new(56, 56, 96));
        assert_eq!(of("features.2.reduction"), Dims::new(28, 28, 192));
        assert_eq!(of("norm"), Dims::new(7, 7, 768));
    }

    #[test]
    fn odd_maps_are_padded_and_cropped_again() {
        let graph = build_swin(&SwinConfig::tiny(10)).unwrap();
        let dims = graph.infer_dims(100, 131).unwrap();
        let of = |name: &str| dims[graph.find(name).unwrap().index()];
        assert_eq!(of("features.0.0"), Dims::new(25, 32, 96));
        assert_eq!(of("features.1.0.attn.qkv"), Dims::new(28, 35, 288));
        assert_eq!(of("features.1.0.attn.proj"), Dims::new(25, 32, 96));
        assert_eq!(of("features.2.reduction"), Dims::new(13, 16, 192));
    }

    #[test]
    fn every_second_block_shifts_its_windows() {
        let graph = build_swin(&SwinConfig::tiny(10)).unwrap();
        let shifts: Vec<_> = graph.nodes().iter().filter_map(window_shift).collect();
        assert_eq!(shifts, [0, 3].repeat(6));
    }

    fn window_shift(node: &flipcast_graph::Node) -> Option<usize> {
        match &node.op {
            flipcast_graph::Op::Attention(attention) => match attention.tokens {
                Tokens::Window { shift, .. } => Some(shift),
                _ => None,
            },
            _ => None,
        }
    }

    #[test]
    fn heads_must_divide_the_channels() {
        let mut config = SwinConfig::tiny(10);
        config.heads[1] = 5;
        let error = build_swin(&config).unwrap_err();
        assert_eq!(error.to_string(), "`swin` has heads = 5, expected a divisor of 192");
        config.heads.pop();
        assert!(build_swin(&config).is_err());
    }
}
