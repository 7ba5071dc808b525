use crate::blocks::FeedForward;
use crate::check::{check_classes, check_rule, check_setting};
use crate::layout::find_channel_factors;
use crate::names::{Names, replace_layer};
use crate::shapes::{Shapes, exact_root};
use crate::{Architecture, Family};
use flipcast_graph::{Activation, Attention, Conv2d, Graph, GraphBuilder, GraphError, NodeId, NormKind};
use serde::{Deserialize, Serialize};

const EPS: f32 = 1e-6;
/// Channels of an attention head in every published network; no tensor tells it.
const HEAD_DIM: usize = 64;

/// The learned token in front of the patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassToken {
    /// There is none.
    Absent,
    /// It has a position embedding like every patch.
    WithPosition,
    /// Only the patches have position embeddings, as in DeiT III.
    WithoutPosition,
    /// Behind it comes a second one, taught by another network, with a classifier of its own: DeiT's distilled networks, whose
    /// logits are the mean of the two.
    Distilled,
}

impl ClassToken {
    /// Position embeddings in front of those of the patches.
    pub(crate) fn positions(self) -> usize {
        match self {
            Self::Absent | Self::WithoutPosition => 0,
            Self::WithPosition => 1,
            Self::Distilled => 2,
        }
    }
}

/// What the classifier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenPool {
    /// The class token behind the last norm.
    ClassToken,
    /// The mean of the patches behind the last norm.
    NormThenMean,
    /// The mean of the patches, and only then a norm (`fc_norm`).
    MeanThenNorm,
}

/// A vision transformer: patches as tokens, pre-norm blocks of self-attention and feed-forward layers.
///
/// Parameter names are torchvision's (`encoder.layers.encoder_layer_0.ln_1`, `heads.head`) except that the packed projection
/// is a layer of its own, `self_attention.in_proj`. Both spellings of torchvision's files and timm's (`blocks.0.norm1`,
/// `attn.qkv`, `head`) are accepted. DeiT without distillation is the same network. With it there is a second token
/// (`dist_token`), and the mean of two classifiers is one that reads both tokens ([`ClassToken::Distilled`]). DeiT III adds a factor
/// per channel (`ls1`, `ls2`) and gives the class token no position. Positions learned for other images are resampled when the
/// weights are loaded.
///
/// *Reference*: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021); Touvron et al., "Training data-efficient image
/// transformers" (2021) and "DeiT III" (2022).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VitConfig {
    /// Height and width of the images; they fix the number of position embeddings.
    pub image_size: [usize; 2],
    /// Side of a patch.
    pub patch_size: usize,
    /// Channels of a token.
    pub hidden_dim: usize,
    /// Channels between the two feed-forward layers.
    pub mlp_dim: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// The token in front.
    pub class_token: ClassToken,
    /// What the classifier reads.
    pub pool: TokenPool,
    /// Whether both halves of a block end with a learned factor per channel.
    pub layer_scale: bool,
    /// Outputs of the classifier.
    pub classes: usize,
}

impl VitConfig {
    /// A network with a class token and feed-forward layers four times as wide as the tokens.
    pub fn new(image: usize, patch: usize, [hidden_dim, layers, heads]: [usize; 3], classes: usize) -> Self {
        Self {
            image_size: [image, image],
            patch_size: patch,
            hidden_dim,
            mlp_dim: hidden_dim.saturating_mul(4),
            layers,
            heads,
            class_token: ClassToken::WithPosition,
            pool: TokenPool::ClassToken,
            layer_scale: false,
            classes,
        }
    }

    /// Names the first setting outside its range.
    pub fn check(&self) -> Result<(), GraphError> {
        let family = "vit";
        check_setting(family, "patch_size", self.patch_size, 1..=1_024)?;
        for side in self.image_size {
            check_setting(family, "image_size", side, 1..=16_384)?;
            let fits = side.is_multiple_of(self.patch_size);
            check_rule(fits, family, "image_size", side, || format!("a multiple of {}", self.patch_size))?;
        }
        check_setting(family, "hidden_dim", self.hidden_dim, 1..=65_536)?;
        check_setting(family, "mlp_dim", self.mlp_dim, 1..=1_048_576)?;
        check_setting(family, "layers", self.layers, 1..=1_000)?;
        check_setting(family, "heads", self.heads, 1..=self.hidden_dim)?;
        let divides = self.hidden_dim.is_multiple_of(self.heads);
        check_rule(divides, family, "heads", self.heads, || format!("a divisor of {}", self.hidden_dim))?;
        let reads_token = self.pool == TokenPool::ClassToken;
        let is_read = !reads_token || self.class_token != ClassToken::Absent;
        check_rule(is_read, family, "class tokens", 0, || "1, since the classifier reads it".into())?;
        let reads_both = reads_token || self.class_token != ClassToken::Distilled;
        let expected = || "1 or none, since a mean leaves the second one out".into();
        check_rule(reads_both, family, "class tokens", 2, expected)?;
        check_classes(family, self.classes)
    }

    fn patches(&self) -> usize {
        let [rows, columns] = self.image_size.map(|side| side / self.patch_size);
        rows * columns
    }
}

/// The layers of a vision transformer.
pub fn build_vit(config: &VitConfig) -> Result<Graph, GraphError> {
    config.check()?;
    let (mut g, images) = GraphBuilder::new(3);
    let mut x = embed_patches(&mut g, config, images);
    for layer in 0..config.layers {
        // Behind the last attention every token is on its own, and the classifier may read only the first.
        let narrows = layer + 1 == config.layers && config.pool == TokenPool::ClassToken;
        x = encoder_block(&mut g, config, layer, x, narrows);
    }
    if config.pool != TokenPool::MeanThenNorm {
        x = g.norm("encoder.ln", x, NormKind::Layer, EPS);
    }
    if config.pool != TokenPool::ClassToken {
        if config.class_token != ClassToken::Absent {
            x = g.drop_tokens("patches", x, 1);
        }
        x = g.global_avg_pool("pool", x);
    }
    if config.pool == TokenPool::MeanThenNorm {
        x = g.norm("fc_norm", x, NormKind::Layer, EPS);
    }
    let mut features = config.hidden_dim;
    if config.class_token == ClassToken::Distilled {
        x = g.flatten("class_tokens", x);
        features *= 2;
    }
    let logits = g.linear("heads.head", x, features, config.classes);
    g.finish(logits)
}

fn embed_patches(g: &mut GraphBuilder, config: &VitConfig, images: NodeId) -> NodeId {
    let patch = Conv2d::new(3, config.hidden_dim, config.patch_size).stride(config.patch_size).with_bias();
    let x = g.conv("conv_proj", images, patch);
    let (patches, positions) = (config.patches(), "encoder.pos_embedding");
    match config.class_token {
        ClassToken::Absent => g.add_position(positions, x, patches),
        ClassToken::WithPosition => {
            let x = g.prepend_tokens("class_token", x, 1);
            g.add_position(positions, x, 1 + patches)
        }
        ClassToken::WithoutPosition => {
            let x = g.add_position(positions, x, patches);
            g.prepend_tokens("class_token", x, 1)
        }
        ClassToken::Distilled => {
            let x = g.prepend_tokens("dist_token", x, 1);
            let x = g.prepend_tokens("class_token", x, 1);
            g.add_position(positions, x, 2 + patches)
        }
    }
}

fn encoder_block(g: &mut GraphBuilder, config: &VitConfig, layer: usize, x: NodeId, narrows: bool) -> NodeId {
    let name = format!("encoder.layers.encoder_layer_{layer}");
    let attention = format!("{name}.self_attention");
    let dim = config.hidden_dim;
    let mut skip = x;
    let mut y = g.norm(&format!("{name}.ln_1"), x, NormKind::Layer, EPS);
    y = g.linear(&format!("{attention}.in_proj"), y, dim, 3 * dim);
    let scale = ((dim / config.heads) as f32).powf(-0.5);
    y = g.attention(&attention, y, Attention::new(config.heads, scale));
    if narrows {
        let read = match config.class_token {
            ClassToken::Distilled => 2,
            _ => 1,
        };
        skip = g.token_range(&format!("{name}.class_token"), skip, 0, read);
        y = g.token_range(&format!("{attention}.class_token"), y, 0, read);
    }
    y = g.linear(&format!("{attention}.out_proj"), y, dim, dim);
    if config.layer_scale {
        y = g.scale(&format!("{name}.ls1"), y);
    }
    let x = g.add(&format!("{attention}.add"), skip, y);
    let feed_forward = FeedForward {
        norm: "ln_2",
        linear: ["mlp.0", "mlp.3"],
        inner: config.mlp_dim,
        activation: Activation::Gelu,
        eps: EPS,
        scale: config.layer_scale.then_some("ls2"),
    };
    feed_forward.build(g, &name, x)
}

pub(crate) const FAMILY: Family = Family { rename, find_layout: find_channel_factors, infer, ..Family::new("ViT") };

/// timm's layers outside the blocks.
const OUTER: &Names = &[
    ("patch_embed.proj", "conv_proj"),
    ("norm", "encoder.ln"),
    ("head", "heads.head"),
    ("head_dist", "heads.head_dist"),
];
/// timm's layers of a block.
const BLOCK: &Names = &[
    ("norm1", "ln_1"),
    ("attn.qkv", "self_attention.in_proj"),
    ("attn.proj", "self_attention.out_proj"),
    ("norm2", "ln_2"),
    ("mlp.fc1", "mlp.0"),
    ("mlp.fc2", "mlp.3"),
];
/// Layers that torchvision's published files still have under older names.
const OLDER: &Names = &[("mlp.linear_1", "mlp.0"), ("mlp.linear_2", "mlp.3")];

fn rename(name: &str) -> Option<String> {
    match name {
        "cls_token" => return Some("class_token".into()),
        "pos_embed" => return Some("encoder.pos_embedding".into()),
        _ => {}
    }
    // torchvision's packed projection is a parameter of its module, a layer here.
    if let Some((module, suffix)) = name.rsplit_once(".in_proj_") {
        return matches!(suffix, "weight" | "bias").then(|| format!("{module}.in_proj.{suffix}"));
    }
    if let Some(path) = name.strip_prefix("encoder.layers.") {
        let (block, path) = path.split_once('.')?;
        return Some(format!("encoder.layers.{block}.{}", replace_layer(OLDER, path)?));
    }
    let Some(path) = name.strip_prefix("blocks.") else {
        return replace_layer(OUTER, name);
    };
    let (block, path) = path.split_once('.')?;
    let path = match path.strip_suffix(".gamma") {
        Some(scale) => scale.to_owned(),
        None => replace_layer(BLOCK, path)?,
    };
    Some(format!("encoder.layers.encoder_layer_{block}.{path}"))
}

/// Images are taken as square and heads as those of the published networks.
fn infer(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [hidden_dim, 3, patch, _] = shapes.get("conv_proj.weight")? else {
        return None;
    };
    let layer = |i: usize| format!("encoder.layers.encoder_layer_{i}");
    let layers = shapes.count(|i| format!("{}.ln_1.weight", layer(i)));
    let [mlp_dim, _] = shapes.get(&format!("{}.mlp.0.weight", layer(0)))?;
    let [1, positions, _] = shapes.get("encoder.pos_embedding")? else {
        return None;
    };
    // A square number of positions leaves none for the class token.
    let class_token = match (shapes.has("class_token"), exact_root(positions)) {
        (true, _) if shapes.has("dist_token") => ClassToken::Distilled,
        (false, _) => ClassToken::Absent,
        (true, None) => ClassToken::WithPosition,
        (true, Some(_)) => ClassToken::WithoutPosition,
    };
    let side = exact_root(positions.checked_sub(class_token.positions())?)?;
    let pool = match (shapes.has("fc_norm.weight"), class_token) {
        (true, _) => TokenPool::MeanThenNorm,
        (false, ClassToken::Absent) => TokenPool::NormThenMean,
        (false, _) => TokenPool::ClassToken,
    };
    let [classes, _] = shapes.get("heads.head.weight")?;
    let image = side.checked_mul(patch)?;
    let config = VitConfig {
        mlp_dim,
        class_token,
        pool,
        layer_scale: shapes.has(&format!("{}.ls1", layer(0))),
        ..VitConfig::new(image, patch, [hidden_dim, layers, hidden_dim / HEAD_DIM], classes)
    };
    hidden_dim.is_multiple_of(HEAD_DIM).then(|| Architecture::new(config.name(), image, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Dims;

    fn base() -> VitConfig {
        VitConfig::new(224, 16, [768, 12, 12], 1000)
    }

    #[test]
    fn the_class_token_alone_passes_the_last_block() {
        let graph = build_vit(&base()).unwrap();
        let dims = graph.infer_dims(224, 224).unwrap();
        let of = |name: &str| dims[graph.find(name).unwrap().index()];
        assert_eq!(of("encoder.pos_embedding"), Dims::new(197, 1, 768));
        let last = "encoder.layers.encoder_layer_11";
        assert_eq!(of(&format!("{last}.ln_1")).pixels(), 197);
        assert_eq!(of(&format!("{last}.ln_2")), Dims::new(1, 1, 768));
    }

    #[test]
    fn images_of_another_size_are_refused() {
        let graph = build_vit(&base()).unwrap();
        assert!(graph.infer_dims(256, 224).is_err());
    }

    #[test]
    fn images_may_be_taller_than_wide() {
        let config = VitConfig { image_size: [32, 16], ..VitConfig::new(16, 8, [12, 2, 3], 5) };
        let graph = build_vit(&config).unwrap();
        assert!(graph.infer_dims(32, 16).is_ok());
        assert!(graph.infer_dims(16, 16).is_err());
    }

    #[test]
    fn a_mean_over_patches_leaves_the_class_token_out() {
        let config = VitConfig { pool: TokenPool::MeanThenNorm, ..base() };
        let graph = build_vit(&config).unwrap();
        let dims = graph.infer_dims(224, 224).unwrap();
        assert_eq!(dims[graph.find("patches").unwrap().index()].pixels(), 196);
        assert!(graph.find("encoder.ln").is_none());
        assert!(graph.find("fc_norm").is_some());
    }

    #[test]
    fn impossible_settings_are_named() {
        for (config, message) in [
            (VitConfig::new(225, 16, [768, 12, 12], 10), "`vit` has image_size = 225, expected a multiple of 16"),
            (VitConfig::new(224, 16, [768, 12, 7], 10), "`vit` has heads = 7, expected a divisor of 768"),
            (
                VitConfig { class_token: ClassToken::Absent, ..base() },
                "`vit` has class tokens = 0, expected 1, since the classifier reads it",
            ),
        ] {
            assert_eq!(build_vit(&config).unwrap_err().to_string(), message);
        }
    }
}
