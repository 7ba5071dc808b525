use crate::Family;
use crate::rename::lookup;

/// Layers of a vision transformer outside its blocks in timm and here; two of them are single parameters.
const VIT_OUTER: [(&str, &str); 4] = [
    ("patch_embed.proj", "conv_proj"),
    ("norm", "encoder.ln"),
    ("head", "heads.head"),
    ("head_dist", "heads.head_dist"),
];
const VIT_BLOCK: [(&str, &str); 6] = [
    ("norm1", "ln_1"),
    ("attn.qkv", "self_attention.in_proj"),
    ("attn.proj", "self_attention.out_proj"),
    ("norm2", "ln_2"),
    ("mlp.fc1", "mlp.0"),
    ("mlp.fc2", "mlp.3"),
];
/// Layers that torchvision's published vision transformers still have under older names, and its packed projection.
const VIT_OLDER: [(&str, &str); 2] = [("mlp.linear_1", "mlp.0"), ("mlp.linear_2", "mlp.3")];

const SWIN_OUTER: [(&str, &str); 3] =
    [("patch_embed.proj", "features.0.0"), ("patch_embed.norm", "features.0.2"), ("head.fc", "head")];
const SWIN_MLP: [(&str, &str); 2] = [("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.3")];

const CONVNEXT_OUTER: [(&str, &str); 4] = [
    ("stem.0", "features.0.0"),
    ("stem.1", "features.0.1"),
    ("head.norm", "classifier.0"),
    ("head.fc", "classifier.2"),
];
const CONVNEXT_BLOCK: [(&str, &str); 4] =
    [("conv_dw", "block.0"), ("norm", "block.2"), ("mlp.fc1", "block.3"), ("mlp.fc2", "block.5")];

const MAXVIT_OUTER: [(&str, &str); 6] = [
    ("stem.conv1", "stem.0.0"),
    ("stem.norm1", "stem.0.1"),
    ("stem.conv2", "stem.1.0"),
    ("head.norm", "classifier.2"),
    ("head.pre_logits.fc", "classifier.3"),
    ("head.fc", "classifier.5"),
];
const MAXVIT_CONV: [(&str, &str); 9] = [
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
const MAXVIT_ATTENTION: [(&str, &str); 7] = [
    ("norm1", "attn_layer.0"),
    ("attn.qkv", "attn_layer.1.to_qkv"),
    ("attn.proj", "attn_layer.1.merge"),
    ("attn.rel_pos", "attn_layer.1"),
    ("norm2", "mlp_layer.0"),
    ("mlp.fc1", "mlp_layer.1"),
    ("mlp.fc2", "mlp_layer.3"),
];

/// Layers of EfficientNet outside its units; every published size has seven stages.
const EFFICIENTNET_OUTER: [(&str, &str); 5] = [
    ("conv_stem", "features.0.0"),
    ("bn1", "features.0.1"),
    ("conv_head", "features.8.0"),
    ("bn2", "features.8.1"),
    ("classifier", "classifier.1"),
];
const EFFICIENTNET_UNIT: [(&str, &str); 8] = [
    ("conv_pw", "0.0"),
    ("bn1", "0.1"),
    ("conv_dw", "1.0"),
    ("bn2", "1.1"),
    ("se.conv_reduce", "2.fc1"),
    ("se.conv_expand", "2.fc2"),
    ("conv_pwl", "3.0"),
    ("bn3", "3.1"),
];
/// The same for the first stage, which does not expand.
const EFFICIENTNET_FIRST_UNIT: [(&str, &str); 6] = [
    ("conv_dw", "0.0"),
    ("bn1", "0.1"),
    ("se.conv_reduce", "1.fc1"),
    ("se.conv_expand", "1.fc2"),
    ("conv_pw", "2.0"),
    ("bn2", "2.1"),
];

/// The name here of the tensor timm, or a file of torchvision's, calls `name`.
pub(crate) fn rename_transformer(family: Family, name: &str) -> Option<String> {
    match family {
        Family::Vit => rename_vit(name),
        Family::Swin => rename_swin(name),
        Family::ConvNext => rename_convnext(name),
        Family::MaxVit => rename_maxvit(name),
        Family::EfficientNet => rename_efficientnet(name),
        _ => None,
    }
}

/// Whether `name` is a table that files carry although it follows from the window size.
pub(crate) fn is_window_table(family: Family, name: &str) -> bool {
    let has_windows = matches!(family, Family::Swin | Family::MaxVit);
    has_windows && (name.ends_with(".relative_position_index") || name.ends_with(".attn_mask"))
}

/// `path` as two numbers and what follows, where `between` stands between the numbers: `0.blocks.1.norm1`.
fn indices<'a>(path: &'a str, between: &str) -> Option<(usize, usize, &'a str)> {
    let (first, rest) = path.split_once('.')?;
    let rest = rest.strip_prefix(between)?;
    let (second, rest) = rest.split_once('.')?;
    // Far above any network, and far below what arithmetic on stages could overflow.
    let number = |text: &str| text.parse().ok().filter(|&n: &usize| n < 10_000);
    Some((number(first)?, number(second)?, rest))
}

fn outer(table: &[(&str, &'static str)], name: &str) -> Option<String> {
    let (layer, suffix) = name.rsplit_once('.')?;
    Some(format!("{}.{suffix}", lookup(table, layer)?))
}

fn rename_vit(name: &str) -> Option<String> {
    match name {
        "cls_token" => return Some("class_token".into()),
        "pos_embed" => return Some("encoder.pos_embedding".into()),
        _ => {}
    }
    if let Some(module) = name.strip_suffix(".in_proj_weight") {
        return Some(format!("{module}.in_proj.weight"));
    }
    if let Some(module) = name.strip_suffix(".in_proj_bias") {
        return Some(format!("{module}.in_proj.bias"));
    }
    if let Some(path) = name.strip_prefix("encoder.layers.") {
        let (block, path) = path.split_once('.')?;
        return Some(format!("encoder.layers.{block}.{}", outer(&VIT_OLDER, path)?));
    }
    let Some(path) = name.strip_prefix("blocks.") else {
        return outer(&VIT_OUTER, name);
    };
    let (block, path) = path.split_once('.')?;
    let path = match path.strip_suffix(".gamma") {
        Some(scale) => scale.to_owned(),
        None => outer(&VIT_BLOCK, path)?,
    };
    Some(format!("encoder.layers.encoder_layer_{block}.{path}"))
}

fn rename_swin(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("layers.") else {
        return outer(&SWIN_OUTER, name);
    };
    if let Some((stage, block, path)) = indices(path, "blocks.") {
        let path = outer(&SWIN_MLP, path).unwrap_or_else(|| path.to_owned());
        return Some(format!("features.{}.{block}.{path}", 2 * stage + 1));
    }
    downsample(path)
}

fn rename_convnext(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("stages.") else {
        return outer(&CONVNEXT_OUTER, name);
    };
    let Some((stage, block, path)) = indices(path, "blocks.") else {
        return downsample(path);
    };
    let path = match path {
        "gamma" => "layer_scale".to_owned(),
        _ => outer(&CONVNEXT_BLOCK, path)?,
    };
    Some(format!("features.{}.{block}.{path}", 2 * stage + 1))
}

/// What lies between two stages: timm counts it to the second one, torchvision between them.
fn downsample(path: &str) -> Option<String> {
    let (stage, layer) = path.split_once(".downsample.")?;
    let stage: usize = stage.parse().ok().filter(|stage| (1..10_000).contains(stage))?;
    Some(format!("features.{}.{layer}", 2 * stage))
}

fn rename_maxvit(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("stages.") else {
        return outer(&MAXVIT_OUTER, name);
    };
    let (stage, block, path) = indices(path, "blocks.")?;
    let (part, path) = path.split_once('.')?;
    let (part, table): (_, &[_]) = match part {
        "conv" => ("MBconv", &MAXVIT_CONV),
        "attn_block" => ("window_attention", &MAXVIT_ATTENTION),
        "attn_grid" => ("grid_attention", &MAXVIT_ATTENTION),
        _ => return None,
    };
    let path = outer(table, path)?;
    Some(format!("blocks.{stage}.layers.{block}.layers.{part}.{path}"))
}

fn rename_efficientnet(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("blocks.") else {
        return outer(&EFFICIENTNET_OUTER, name);
    };
    let (stage, unit, path) = indices(path, "")?;
    let table: &[_] = match stage {
        0 => &EFFICIENTNET_FIRST_UNIT,
        _ => &EFFICIENTNET_UNIT,
    };
    let path = outer(table, path)?;
    Some(format!("features.{}.{unit}.block.{path}", stage + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_become_torchvision_s() {
        for (family, foreign, expected) in [
            (Family::Vit, "cls_token", "class_token"),
            (Family::Vit, "blocks.11.attn.qkv.bias", "encoder.layers.encoder_layer_11.self_attention.in_proj.bias"),
            (
                Family::Vit,
                "encoder.layers.encoder_layer_2.self_attention.in_proj_weight",
                "encoder.layers.encoder_layer_2.self_attention.in_proj.weight",
            ),
            (
                Family::Vit,
                "encoder.layers.encoder_layer_2.mlp.linear_2.bias",
                "encoder.layers.encoder_layer_2.mlp.3.bias",
            ),
            (Family::Vit, "blocks.3.ls1.gamma", "encoder.layers.encoder_layer_3.ls1"),
            (
                Family::Swin,
                "layers.2.blocks.5.attn.relative_position_bias_table",
                "features.5.5.attn.relative_position_bias_table",
            ),
            (Family::Swin, "layers.3.downsample.reduction.weight", "features.6.reduction.weight"),
            (Family::ConvNext, "stages.1.blocks.0.gamma", "features.3.0.layer_scale"),
            (Family::ConvNext, "stages.2.downsample.1.bias", "features.4.1.bias"),
            (
                Family::MaxVit,
                "stages.1.blocks.0.attn_grid.attn.rel_pos.relative_position_bias_table",
                "blocks.1.layers.0.layers.grid_attention.attn_layer.1.relative_position_bias_table",
            ),
            (Family::EfficientNet, "blocks.0.0.se.conv_reduce.weight", "features.1.0.block.1.fc1.weight"),
        ] {
            assert_eq!(rename_transformer(family, foreign).unwrap(), expected);
        }
    }

    #[test]
    fn canonical_and_strange_names_stay() {
        for (family, name) in [
            (Family::Vit, "encoder.layers.encoder_layer_0.mlp.0.weight"),
            (Family::Vit, "blocks.0.attn.q_norm.weight"),
            (Family::Vit, "blocks"),
            (Family::Swin, "features.1.0.attn.qkv.weight"),
            (Family::Swin, "layers.0.downsample.norm.weight"),
            (Family::Swin, "layers.99999999999999999999.blocks.0.norm1.bias"),
            (Family::ConvNext, "stages.18446744073709551615.downsample.0.bias"),
            (Family::MaxVit, "stages.0.blocks.0.attn.qkv.weight"),
            (Family::EfficientNet, "blocks.1.0.bn9.weight"),
        ] {
            assert_eq!(rename_transformer(family, name), None, "{name}");
        }
    }

    #[test]
    fn tables_of_windows_are_known_only_where_there_are_windows() {
        let name = "features.1.0.attn.relative_position_index";
        assert!(is_window_table(Family::Swin, name));
        assert!(!is_window_table(Family::Vit, name));
    }
}
