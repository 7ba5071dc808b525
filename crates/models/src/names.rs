//! What the families' rules for other names of tensors share.

/// Layers by another implementation's name and by the name here.
pub(crate) type Names = [(&'static str, &'static str)];

/// `name` with its layer, which is all but the last part, replaced by the table's.
pub(crate) fn replace_layer(table: &Names, name: &str) -> Option<String> {
    let (layer, suffix) = name.rsplit_once('.')?;
    let (_, here) = table.iter().find(|(there, _)| *there == layer)?;
    Some(format!("{here}.{suffix}"))
}

/// `path` as two numbers and what follows, where `between` stands between the numbers: `0.blocks.1.norm1`.
pub(crate) fn indices<'a>(path: &'a str, between: &str) -> Option<(usize, usize, &'a str)> {
    let (first, rest) = path.split_once('.')?;
    let rest = rest.strip_prefix(between)?;
    let (second, rest) = rest.split_once('.')?;
    Some((index(first)?, index(second)?, rest))
}

/// What lies between two stages: timm counts it to the second one, torchvision between them.
pub(crate) fn downsample(path: &str) -> Option<String> {
    let (stage, layer) = path.split_once(".downsample.")?;
    let stage = index(stage).filter(|&stage| stage > 0)?;
    Some(format!("features.{}.{layer}", 2 * stage))
}

fn index(text: &str) -> Option<usize> {
    // Far above any network, and far below what arithmetic on stages could overflow.
    text.parse().ok().filter(|&n: &usize| n < 10_000)
}

/// Whether `name` is a table that files carry although it follows from the window size.
pub(crate) fn is_window_table(name: &str) -> bool {
    name.ends_with(".relative_position_index") || name.ends_with(".attn_mask")
}

#[cfg(test)]
mod tests {
    use crate::Architecture;

    fn canonical_name(network: &str, name: &str) -> String {
        let family = Architecture::find(network).unwrap().config.family();
        family.canonical_name(name).into_owned()
    }

    #[test]
    fn foreign_names_become_torchvision_s() {
        let layer_2 = "encoder.layers.encoder_layer_2";
        for (network, foreign, expected) in [
            ("mobilenet_v2", "conv_stem.weight", "features.0.0.weight"),
            ("mobilenet_v2", "blocks.0.0.conv_pw.weight", "features.1.conv.1.weight"),
            ("mobilenet_v2", "blocks.1.0.conv_pw.weight", "features.2.conv.0.0.weight"),
            ("mobilenet_v2", "blocks.2.1.bn3.running_var", "features.5.conv.3.running_var"),
            ("mobilenet_v2", "blocks.6.0.conv_pwl.weight", "features.17.conv.2.weight"),
            ("mobilenet_v2", "bn2.bias", "features.18.1.bias"),
            ("mobilenet_v2", "classifier.bias", "classifier.1.bias"),
            ("resnet18", "layer2.0.shortcut.1.bias", "layer2.0.downsample.1.bias"),
            ("resnet18", "linear.bias", "fc.bias"),
            ("vit_b_16", "cls_token", "class_token"),
            ("vit_b_16", "blocks.2.attn.qkv.bias", &format!("{layer_2}.self_attention.in_proj.bias")),
            (
                "vit_b_16",
                &format!("{layer_2}.self_attention.in_proj_weight"),
                &format!("{layer_2}.self_attention.in_proj.weight"),
            ),
            ("vit_b_16", &format!("{layer_2}.mlp.linear_2.bias"), &format!("{layer_2}.mlp.3.bias")),
            ("vit_b_16", "blocks.2.ls1.gamma", &format!("{layer_2}.ls1")),
            (
                "swin_t",
                "layers.2.blocks.5.attn.relative_position_bias_table",
                "features.5.5.attn.relative_position_bias_table",
            ),
            ("swin_t", "layers.3.downsample.reduction.weight", "features.6.reduction.weight"),
            ("convnext_tiny", "stages.1.blocks.0.gamma", "features.3.0.layer_scale"),
            ("convnext_tiny", "stages.2.downsample.1.bias", "features.4.1.bias"),
            (
                "maxvit_t",
                "stages.1.blocks.0.attn_grid.attn.rel_pos.relative_position_bias_table",
                "blocks.1.layers.0.layers.grid_attention.attn_layer.1.relative_position_bias_table",
            ),
            ("efficientnet_b0", "blocks.0.0.se.conv_reduce.weight", "features.1.0.block.1.fc1.weight"),
            ("efficientnet_b0", "_bn1.running_mean", "features.8.1.running_mean"),
            ("efficientnet_b0", "_blocks.0._project_conv.weight", "features.1.0.block.2.0.weight"),
            ("efficientnet_b0", "_blocks.15._se_expand.bias", "features.7.0.block.2.fc2.bias"),
        ] {
            assert_eq!(canonical_name(network, foreign), expected);
        }
    }

    #[test]
    fn canonical_and_strange_names_stay() {
        for (network, name) in [
            ("mobilenet_v2", "features.2.conv.0.0.weight"),
            ("mobilenet_v2", "classifier.1.weight"),
            ("mobilenet_v2", "blocks.9.0.conv_pw.weight"),
            ("mobilenet_v2", "blocks.1.7.conv_pw.weight"),
            ("mobilenet_v2", "blocks.1.0.se.weight"),
            ("mobilenet_v2", "blocks"),
            ("vit_b_16", "encoder.layers.encoder_layer_0.mlp.0.weight"),
            ("vit_b_16", "blocks.0.attn.q_norm.weight"),
            ("vit_b_16", "blocks"),
            ("swin_t", "features.1.0.attn.qkv.weight"),
            ("swin_t", "layers.0.downsample.norm.weight"),
            ("swin_t", "layers.99999999999999999999.blocks.0.norm1.bias"),
            ("convnext_tiny", "stages.18446744073709551615.downsample.0.bias"),
            ("maxvit_t", "stages.0.blocks.0.attn.qkv.weight"),
            ("efficientnet_b0", "blocks.1.0.bn9.weight"),
            ("efficientnet_b0", "_blocks.16._bn1.weight"),
            ("efficientnet_b0", "_blocks.0._expand_conv.weight"),
        ] {
            assert_eq!(canonical_name(network, name), name);
        }
    }

    #[test]
    fn only_their_own_families_ignore_tables_of_windows_and_second_copies() {
        let ignores = |network, name| Architecture::find(network).unwrap().config.family().is_ignored(name);
        let table = "features.1.0.attn.relative_position_index";
        assert!(ignores("swin_t", table) && !ignores("vit_b_16", table));
        let copy = "sub_block1.layer.0.conv1.weight";
        assert!(ignores("wrn_40_2", copy) && !ignores("resnet18", copy));
        assert!(ignores("resnet18", "bn1.num_batches_tracked"));
    }
}
