//! Folders of Transformers: ResNet, ViT, DeiT, ConvNeXt, Swin and MobileNetV2.

use super::{HubError, HubModel, HubTensors, read_json};
use crate::{
    Architecture, ArchitectureConfig, Block, ClassToken, ConvNextConfig, MobileNetV2Config, Origin, ResNetConfig, Stem,
    SwinConfig, TensorInfo, VitConfig,
};
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, Resize, Size};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const PREPROCESSOR: &str = "preprocessor_config.json";
/// Names that say nothing start so.
const UNNAMED: &str = "LABEL_";
/// Below this side ConvNeXt's images are cropped; larger ones are only scaled.
const LARGEST_CROPPED: usize = 384;
/// What bytes are multiplied with to lie in 0 to 1.
const PER_BYTE: f64 = 1.0 / 255.0;

pub(super) struct Config {
    family: &'static FamilyRow,
    json: Value,
    class_names: Option<Vec<String>>,
    preprocess: Option<Preprocess>,
}

/// One family of networks: what it is called, how its tensors are, and what its settings mean.
struct FamilyRow {
    model_type: &'static str,
    /// The classifiers, whose first extent is the number of classes.
    heads: &'static [&'static str],
    rename: fn(&str) -> Option<(String, usize)>,
    config: fn(&Config, usize) -> Result<Architecture, HubError>,
    /// What is added to variances, from the configuration's value and the norm's name; the family's own where there is none.
    eps: Option<fn(&str, f32) -> Option<f32>>,
}

const FAMILIES: &[FamilyRow] = &[
    FamilyRow { model_type: "resnet", heads: &["classifier.1.weight"], rename: resnet_name, config: resnet, eps: None },
    FamilyRow {
        model_type: "vit",
        heads: &["classifier.weight"],
        rename: |name| vit_name(name.strip_prefix("vit.").unwrap_or(name)),
        config: vit,
        eps: Some(|_, eps| Some(eps)),
    },
    FamilyRow {
        model_type: "deit",
        heads: &["cls_classifier.weight", "classifier.weight"],
        rename: |name| vit_name(name.strip_prefix("deit.").unwrap_or(name)),
        config: vit,
        eps: Some(|_, eps| Some(eps)),
    },
    FamilyRow {
        model_type: "convnext",
        heads: &["classifier.weight"],
        rename: convnext_name,
        config: convnext,
        // Only the last norm has the configuration's value.
        eps: Some(|name, eps| name.starts_with("classifier").then_some(eps)),
    },
    FamilyRow {
        model_type: "swin",
        heads: &["classifier.weight"],
        rename: swin_name,
        config: swin,
        eps: Some(|_, eps| Some(eps)),
    },
    FamilyRow {
        model_type: "mobilenet_v2",
        heads: &["classifier.weight"],
        rename: mobilenet_v2_name,
        config: mobilenet_v2,
        eps: Some(|_, eps| Some(eps)),
    },
];

/// What Transformers adds to variances where the configuration does not say.
const USUAL_EPS: f32 = 1e-12;
const MOBILENET_EPS: f32 = 1e-3;

impl Config {
    pub fn read(json: Value, folder: &Path) -> Result<Self, HubError> {
        let found = json.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let family = FAMILIES.iter().find(|family| family.model_type == found).ok_or_else(|| {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
            HubError::setting("model_type", found, known.join(", "))
        })?;
        let preprocessor = folder.join(PREPROCESSOR);
        let preprocess = match preprocessor.is_file() {
            true => Some(read_json::<Preprocessor>(&preprocessor)?.preprocess()?),
            false => None,
        };
        let labels: Option<BTreeMap<String, String>> = optional(&json, "id2label")?;
        let class_names = labels.and_then(|labels| {
            let named = (0..labels.len()).map(|class| labels.get(&class.to_string()).cloned());
            let named: Option<Vec<String>> = named.collect();
            named.filter(|names| !names.iter().all(|name| name.starts_with(UNNAMED)))
        });
        Ok(Self { family, json, class_names, preprocess })
    }

    pub fn model(&self, tensors: &[TensorInfo]) -> Result<HubModel, HubError> {
        let heads = self.family.heads.iter();
        let head = heads.filter_map(|head| tensors.iter().find(|tensor| tensor.name == *head)).next();
        let classes = head.and_then(|head| head.shape.extents().first().copied());
        let classes = classes.ok_or_else(|| {
            HubError::setting("architectures", "a network without a classifier", "one for image classification")
        })?;
        Ok(HubModel {
            architecture: (self.family.config)(self, classes)?,
            preprocess: self.preprocess.clone(),
            class_names: self.class_names.clone().filter(|names| names.len() == classes),
            tensors: HubTensors::renamed(tensors, self.family.rename),
            eps: self.family.eps,
            config_eps: self.or(
                "layer_norm_eps",
                if self.family.model_type == "mobilenet_v2" { MOBILENET_EPS } else { USUAL_EPS },
            )?,
        })
    }

    /// The setting `name`, or what Transformers takes where it is absent.
    fn or<T: DeserializeOwned>(&self, name: &'static str, usual: T) -> Result<T, HubError> {
        Ok(optional(&self.json, name)?.unwrap_or(usual))
    }

    /// Refuses a setting that has another value than the one that is known.
    fn only<T: DeserializeOwned + PartialEq + ToString>(&self, name: &'static str, known: T) -> Result<(), HubError> {
        match optional::<T>(&self.json, name)? {
            Some(found) if found != known => Err(HubError::setting(name, &found.to_string(), known.to_string())),
            _ => Ok(()),
        }
    }
}

fn optional<T: DeserializeOwned>(json: &Value, name: &'static str) -> Result<Option<T>, HubError> {
    match json.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|source| HubError::Json { path: format!("{} ({name})", super::CONFIG), source }),
    }
}

fn resnet(config: &Config, classes: usize) -> Result<Architecture, HubError> {
    config.only("hidden_act", "relu".to_owned())?;
    config.only("downsample_in_first_stage", false)?;
    config.only("downsample_in_bottleneck", false)?;
    let hidden: Vec<usize> = config.or("hidden_sizes", vec![256, 512, 1024, 2048])?;
    let depths: Vec<usize> = config.or("depths", vec![3, 4, 6, 3])?;
    let layer_type: String = config.or("layer_type", "bottleneck".to_owned())?;
    let (block, expansion) = match layer_type.as_str() {
        "basic" => (Block::Basic, 1),
        "bottleneck" => (Block::Bottleneck, 4),
        other => return Err(HubError::setting("layer_type", other, "basic or bottleneck")),
    };
    let widths: Vec<usize> = hidden.iter().map(|width| width / expansion).collect();
    let embedding: usize = config.or("embedding_size", 64)?;
    if widths.first() != Some(&embedding) || hidden.iter().any(|width| width % expansion != 0) {
        return Err(HubError::setting("embedding_size", &embedding.to_string(), "the width of the first stage"));
    }
    let resnet = ResNetConfig::plain(block, Stem::Imagenet, &widths, &depths, classes);
    Ok(named("resnet", 224, resnet))
}

fn resnet_name(name: &str) -> Option<(String, usize)> {
    let whole = |name: String| Some((name, 0));
    if let Some(part) = name.strip_prefix("classifier.1.") {
        return whole(format!("fc.{part}"));
    }
    let name = name.strip_prefix("resnet.").unwrap_or(name);
    let layer = |part: &str, conv: String, norm: String| match part.split_once('.')? {
        ("convolution", end) => Some(format!("{conv}.{end}")),
        ("normalization", end) => Some(format!("{norm}.{end}")),
        _ => None,
    };
    if let Some(part) = name.strip_prefix("embedder.embedder.") {
        return layer(part, "conv1".into(), "bn1".into()).and_then(whole);
    }
    let (stage, rest) = name.strip_prefix("encoder.stages.")?.split_once(".layers.")?;
    let (unit, rest) = rest.split_once('.')?;
    let unit = format!("layer{}.{unit}", stage.parse::<usize>().ok()?.checked_add(1)?);
    if let Some(part) = rest.strip_prefix("shortcut.") {
        return layer(part, format!("{unit}.downsample.0"), format!("{unit}.downsample.1")).and_then(whole);
    }
    let (number, part) = rest.strip_prefix("layer.")?.split_once('.')?;
    let number = number.parse::<usize>().ok()?.checked_add(1)?;
    layer(part, format!("{unit}.conv{number}"), format!("{unit}.bn{number}")).and_then(whole)
}

fn vit(config: &Config, classes: usize) -> Result<Architecture, HubError> {
    config.only("hidden_act", "gelu".to_owned())?;
    config.only("qkv_bias", true)?;
    let image: usize = config.or("image_size", 224)?;
    let sizes =
        [config.or("hidden_size", 768)?, config.or("num_hidden_layers", 12)?, config.or("num_attention_heads", 12)?];
    let plain = VitConfig::new(image, config.or("patch_size", 16)?, sizes, classes);
    let architectures: Vec<String> = config.or("architectures", Vec::new())?;
    let class_token = match (config.family.model_type, architectures.first().map(String::as_str)) {
        ("deit", Some("DeiTForImageClassificationWithTeacher")) => ClassToken::Distilled,
        ("deit", other) => {
            let found = other.unwrap_or("absent").to_owned();
            return Err(HubError::setting("architectures", &found, "DeiTForImageClassificationWithTeacher"));
        }
        _ => ClassToken::WithPosition,
    };
    let vit = VitConfig { mlp_dim: config.or("intermediate_size", 3072)?, class_token, ..plain };
    Ok(Architecture::new(vit.name(), image, vit))
}

fn vit_name(name: &str) -> Option<(String, usize)> {
    let whole = |name: String| Some((name, 0));
    let fixed = [
        ("embeddings.cls_token", "cls_token"),
        ("embeddings.distillation_token", "dist_token"),
        ("embeddings.position_embeddings", "pos_embed"),
    ];
    if let Some((_, here)) = fixed.iter().find(|(there, _)| *there == name) {
        return whole((*here).to_owned());
    }
    let (layer, end) = name.rsplit_once('.')?;
    let outside = [
        ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        ("layernorm", "norm"),
        ("classifier", "head"),
        ("cls_classifier", "head"),
        ("distillation_classifier", "head_dist"),
    ];
    if let Some((_, here)) = outside.iter().find(|(there, _)| *there == layer) {
        return whole(format!("{here}.{end}"));
    }
    let block = layer.strip_prefix("encoder.layer.").or_else(|| layer.strip_prefix("layers."))?;
    let (number, inner) = block.split_once('.')?;
    block_layer(inner).map(|(here, place)| (format!("blocks.{number}.{here}.{end}"), place))
}

/// A layer of a transformer's block by timm's name, and which part of the projection it is.
fn block_layer(inner: &str) -> Option<(&'static str, usize)> {
    Some(match inner {
        "layernorm_before" => ("norm1", 0),
        "layernorm_after" => ("norm2", 0),
        "attention.attention.query" | "attention.self.query" | "attention.q_proj" => ("attn.qkv", 0),
        "attention.attention.key" | "attention.self.key" | "attention.k_proj" => ("attn.qkv", 1),
        "attention.attention.value" | "attention.self.value" | "attention.v_proj" => ("attn.qkv", 2),
        "attention.output.dense" | "attention.o_proj" => ("attn.proj", 0),
        "intermediate.dense" | "mlp.fc1" => ("mlp.fc1", 0),
        "output.dense" | "mlp.fc2" => ("mlp.fc2", 0),
        _ => return None,
    })
}

fn convnext(config: &Config, classes: usize) -> Result<Architecture, HubError> {
    config.only("hidden_act", "gelu".to_owned())?;
    config.only("patch_size", 4)?;
    let widths = config.or("hidden_sizes", vec![96, 192, 384, 768])?;
    let layers = config.or("depths", vec![3, 3, 9, 3])?;
    Ok(named("convnext", 224, ConvNextConfig { widths, layers, classes }))
}

fn convnext_name(name: &str) -> Option<(String, usize)> {
    let name = name.strip_prefix("convnext.").unwrap_or(name);
    let (layer, end) = name.rsplit_once('.')?;
    let outside = [
        ("embeddings.patch_embeddings", "stem.0"),
        ("embeddings.layernorm", "stem.1"),
        ("layernorm", "head.norm"),
        ("classifier", "head.fc"),
    ];
    if let Some((_, here)) = outside.iter().find(|(there, _)| *there == layer) {
        return Some((format!("{here}.{end}"), 0));
    }
    let (stage, rest) = name.strip_prefix("encoder.stages.")?.split_once('.')?;
    if let Some(part) = rest.strip_prefix("downsampling_layer.") {
        return Some((format!("stages.{stage}.downsample.{part}"), 0));
    }
    let (block, part) = rest.strip_prefix("layers.")?.split_once('.')?;
    let parts = [("dwconv", "conv_dw"), ("layernorm", "norm"), ("pwconv1", "mlp.fc1"), ("pwconv2", "mlp.fc2")];
    let here = match part.split_once('.') {
        None if part == "layer_scale_parameter" => "gamma".to_owned(),
        Some((layer, end)) => {
            let (_, here) = parts.iter().find(|(there, _)| *there == layer)?;
            format!("{here}.{end}")
        }
        None => return None,
    };
    Some((format!("stages.{stage}.blocks.{block}.{here}"), 0))
}

fn swin(config: &Config, classes: usize) -> Result<Architecture, HubError> {
    config.only("hidden_act", "gelu".to_owned())?;
    config.only("qkv_bias", true)?;
    config.only("use_absolute_embeddings", false)?;
    config.only("mlp_ratio", 4.0)?;
    let swin = SwinConfig {
        patch_size: config.or("patch_size", 4)?,
        width: config.or("embed_dim", 96)?,
        layers: config.or("depths", vec![2, 2, 6, 2])?,
        heads: config.or("num_heads", vec![3, 6, 12, 24])?,
        window: config.or("window_size", 7)?,
        classes,
    };
    Ok(named("swin", config.or("image_size", 224)?, swin))
}

fn swin_name(name: &str) -> Option<(String, usize)> {
    let name = name.strip_prefix("swin.").unwrap_or(name);
    let (layer, end) = name.rsplit_once('.')?;
    let outside = [
        ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        ("embeddings.norm", "patch_embed.norm"),
        ("layernorm", "norm"),
        ("classifier", "head.fc"),
    ];
    if let Some((_, here)) = outside.iter().find(|(there, _)| *there == layer) {
        return Some((format!("{here}.{end}"), 0));
    }
    let (stage, rest) = name.strip_prefix("encoder.layers.")?.split_once('.')?;
    if let Some(part) = rest.strip_prefix("downsample.") {
        // Counted to the stage in front of it there, to the one behind it here.
        let stage = stage.parse::<usize>().ok()?.checked_add(1)?;
        return Some((format!("layers.{stage}.downsample.{part}"), 0));
    }
    let (block, inner) = rest.strip_prefix("blocks.")?.split_once('.')?;
    let block = format!("layers.{stage}.blocks.{block}");
    if let Some(table) = inner.strip_prefix("attention.self.relative_position_") {
        return Some((format!("{block}.attn.relative_position_{table}"), 0));
    }
    let (layer, end) = inner.rsplit_once('.')?;
    block_layer(layer).map(|(here, place)| (format!("{block}.{here}.{end}"), place))
}

fn mobilenet_v2(config: &Config, classes: usize) -> Result<Architecture, HubError> {
    config.only("hidden_act", "relu6".to_owned())?;
    config.only("output_stride", 32)?;
    config.only("expand_ratio", 6.0)?;
    config.only("depth_divisible_by", 8)?;
    config.only("min_depth", 8)?;
    config.only("first_layer_is_expansion", true)?;
    let width: f64 = config.or("depth_multiplier", 1.0)?;
    let percent = (100.0 * width).round();
    if (100.0 * width - percent).abs() > 1e-6 || !(1.0..=1e4).contains(&percent) {
        return Err(HubError::setting("depth_multiplier", &width.to_string(), "a whole number of hundredths"));
    }
    // Narrow networks keep the features of the whole one, as all published ones do.
    if width < 1.0 {
        config.only("finegrained_output", true)?;
    }
    let origin = if config.or("tf_padding", true)? { Origin::Tensorflow } else { Origin::Pytorch };
    let mobilenet = MobileNetV2Config { width_percent: percent as usize, origin, classes };
    Ok(named("mobilenet_v2", config.or("image_size", 224)?, mobilenet))
}

fn mobilenet_v2_name(name: &str) -> Option<(String, usize)> {
    let name = name.strip_prefix("mobilenet_v2.").unwrap_or(name);
    if let Some(end) = name.strip_prefix("classifier.") {
        return Some((format!("classifier.1.{end}"), 0));
    }
    let (path, end) = name.rsplit_once('.')?;
    let (layer, part) = path.rsplit_once('.')?;
    // A norm stands behind its convolution.
    let norm = match part {
        "convolution" => 0,
        "normalization" => 1,
        _ => return None,
    };
    let here = match layer {
        "conv_stem.first_conv" => format!("features.0.{norm}"),
        "conv_stem.conv_3x3" => format!("features.1.conv.0.{norm}"),
        "conv_stem.reduce_1x1" => format!("features.1.conv.{}", 1 + norm),
        "conv_1x1" => format!("features.18.{norm}"),
        _ => {
            let (unit, layer) = layer.strip_prefix("layer.")?.split_once('.')?;
            let unit = unit.parse::<usize>().ok()?.checked_add(2)?;
            match layer {
                "expand_1x1" => format!("features.{unit}.conv.0.{norm}"),
                "conv_3x3" => format!("features.{unit}.conv.1.{norm}"),
                "reduce_1x1" => format!("features.{unit}.conv.{}", 2 + norm),
                _ => return None,
            }
        }
    };
    Some((format!("{here}.{end}"), 0))
}

/// The architecture under its registered name, if it has one.
fn named(family: &str, input_size: usize, config: impl Into<ArchitectureConfig>) -> Architecture {
    let config = config.into();
    let registered = crate::ARCHITECTURES.iter().find(|entry| (entry.config)(config.classes()) == config);
    Architecture::new(registered.map_or(family, |entry| entry.name), input_size, config)
}

/// The fields of `preprocessor_config.json` that matter.
#[derive(Deserialize)]
struct Preprocessor {
    do_resize: Option<bool>,
    size: Option<SizeEntry>,
    resample: Option<u32>,
    crop_pct: Option<f64>,
    do_center_crop: Option<bool>,
    crop_size: Option<SizeEntry>,
    do_rescale: Option<bool>,
    rescale_factor: Option<f64>,
    do_normalize: Option<bool>,
    image_mean: Option<[f32; 3]>,
    image_std: Option<[f32; 3]>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a size is a number, `height` and `width`, or `shortest_edge`")]
enum SizeEntry {
    Side(usize),
    Both { height: usize, width: usize },
    Short { shortest_edge: usize },
}

impl Preprocessor {
    fn preprocess(&self) -> Result<Preprocess, HubError> {
        let cropped = match (self.crop_size, self.do_center_crop.unwrap_or(false)) {
            (Some(SizeEntry::Side(side) | SizeEntry::Short { shortest_edge: side }), true) => Some(Size::square(side)),
            (Some(SizeEntry::Both { height, width }), true) => Some(Size { width, height }),
            (None, true) => return Err(HubError::setting("crop_size", "absent", "a size")),
            (_, false) => None,
        };
        let (resize, crop) = match (self.size, self.do_resize.unwrap_or(true)) {
            (_, false) => (Resize::None, cropped),
            (None, true) => return Err(HubError::setting("size", "absent", "a size")),
            (Some(SizeEntry::Both { height, width }), true) => (Resize::Exact(Size { width, height }), cropped),
            (Some(SizeEntry::Side(side)), true) => (Resize::Exact(Size::square(side)), cropped),
            (Some(SizeEntry::Short { shortest_edge: edge }), true) => match self.crop_pct {
                Some(share) if edge < LARGEST_CROPPED => {
                    (Resize::ShortSide((edge as f64 / share) as usize), Some(Size::square(edge)))
                }
                Some(_) => (Resize::Exact(Size::square(edge)), None),
                None => (Resize::ShortSide(edge), cropped),
            },
        };
        let interpolation = match self.resample.unwrap_or(2) {
            0 => Interpolation::Nearest,
            1 => Interpolation::Lanczos,
            2 => Interpolation::Bilinear,
            3 => Interpolation::Bicubic,
            4 => Interpolation::Box,
            other => return Err(HubError::setting("resample", &other.to_string(), "0 to 4, as Pillow counts filters")),
        };
        let factor = self.rescale_factor.unwrap_or(PER_BYTE);
        if !self.do_rescale.unwrap_or(true) || (factor - PER_BYTE).abs() > 1e-9 {
            return Err(HubError::setting("rescale_factor", &factor.to_string(), "1 / 255"));
        }
        let (mean, std) = match self.do_normalize.unwrap_or(true) {
            false => ([0.0; 3], [1.0; 3]),
            true => match (self.image_mean, self.image_std) {
                (Some(mean), Some(std)) => (mean, std),
                _ => return Err(HubError::setting("image_mean", "absent", "three numbers")),
            },
        };
        let rule = Preprocess { resize, crop, interpolation, normalise: Normalise::MeanStd { mean, std } };
        rule.check().map_err(|source| HubError::Preprocess { source })?;
        Ok(rule)
    }
}
