use crate::Family;
use crate::mobilenet_v2::STAGES;
use crate::rename_transformer::{is_window_table, rename_transformer};
use std::borrow::Cow;

/// Layers of a MobileNetV2 unit in timm and torchvision where the unit expands its input.
const EXPANDING_UNIT: [(&str, &str); 6] =
    [("conv_pw", "0.0"), ("bn1", "0.1"), ("conv_dw", "1.0"), ("bn2", "1.1"), ("conv_pwl", "2"), ("bn3", "3")];
/// The same for the first unit, which does not expand.
const FIRST_UNIT: [(&str, &str); 4] = [("conv_dw", "0.0"), ("bn1", "0.1"), ("conv_pw", "1"), ("bn2", "2")];
/// Layers of MobileNetV2 outside its units in timm and torchvision.
const OUTER_LAYERS: [(&str, &str); 5] = [
    ("conv_stem", "features.0.0"),
    ("bn1", "features.0.1"),
    ("conv_head", "features.18.0"),
    ("bn2", "features.18.1"),
    ("classifier", "classifier.1"),
];

/// The name this workspace uses for the tensor that files of `family` call `name`: torchvision's, where it has the
/// network. Names that are not understood stay as they are.
pub fn canonical_name(family: Family, name: &str) -> Cow<'_, str> {
    let renamed = match family {
        Family::ResNet => rename_resnet(name),
        Family::MobileNetV2 => rename_mobilenet_v2(name),
        Family::WideResNet | Family::EfficientNetLite => None,
        _ => rename_transformer(family, name),
    };
    renamed.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Whether published files hold `name` although the network never reads it.
pub(crate) fn is_ignored(family: Option<Family>, name: &str) -> bool {
    // Some wide ResNets were saved with a second copy of their first block.
    let second_copy = family == Some(Family::WideResNet) && name.starts_with("sub_block1.");
    let window_table = family.is_some_and(|family| is_window_table(family, name));
    second_copy || window_table || name.ends_with("num_batches_tracked")
}

/// CIFAR implementations call the head `linear` and the projection `shortcut`.
fn rename_resnet(name: &str) -> Option<String> {
    if let Some(suffix) = name.strip_prefix("linear.") {
        return Some(format!("fc.{suffix}"));
    }
    let (unit, suffix) = name.split_once(".shortcut.")?;
    Some(format!("{unit}.downsample.{suffix}"))
}

fn rename_mobilenet_v2(name: &str) -> Option<String> {
    let (layer, suffix) = name.rsplit_once('.')?;
    let Some(path) = layer.strip_prefix("blocks.") else {
        let layer = lookup(&OUTER_LAYERS, layer)?;
        return Some(format!("{layer}.{suffix}"));
    };
    let mut parts = path.splitn(3, '.');
    let stage: usize = parts.next()?.parse().ok()?;
    let unit: usize = parts.next()?.parse().ok()?;
    let &(_, _, units, _) = STAGES.get(stage)?;
    if unit >= units {
        return None;
    }
    let table: &[_] = if stage == 0 { &FIRST_UNIT } else { &EXPANDING_UNIT };
    let layer = lookup(table, parts.next()?)?;
    let before: usize = STAGES[..stage].iter().map(|stage| stage.2).sum();
    Some(format!("features.{}.conv.{layer}.{suffix}", 1 + before + unit))
}

pub(crate) fn lookup(table: &[(&str, &'static str)], layer: &str) -> Option<&'static str> {
    let row = table.iter().find(|(timm, _)| *timm == layer)?;
    Some(row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timm_units_are_counted_through() {
        for (timm, torchvision) in [
            ("conv_stem.weight", "features.0.0.weight"),
            ("blocks.0.0.conv_pw.weight", "features.1.conv.1.weight"),
            ("blocks.1.0.conv_pw.weight", "features.2.conv.0.0.weight"),
            ("blocks.2.1.bn3.running_var", "features.5.conv.3.running_var"),
            ("blocks.6.0.conv_pwl.weight", "features.17.conv.2.weight"),
            ("bn2.bias", "features.18.1.bias"),
            ("classifier.bias", "classifier.1.bias"),
        ] {
            assert_eq!(canonical_name(Family::MobileNetV2, timm), torchvision);
        }
    }

    #[test]
    fn canonical_and_foreign_names_stay() {
        for name in [
            "features.2.conv.0.0.weight",
            "classifier.1.weight",
            "blocks.9.0.conv_pw.weight",
            "blocks.1.7.conv_pw.weight",
            "blocks.1.0.se.weight",
            "blocks",
        ] {
            assert_eq!(canonical_name(Family::MobileNetV2, name), name);
        }
    }

    #[test]
    fn the_second_copy_of_a_block_is_ignored_only_in_wide_resnets() {
        let name = "sub_block1.layer.0.conv1.weight";
        assert!(is_ignored(Some(Family::WideResNet), name));
        assert!(!is_ignored(Some(Family::ResNet), name));
        assert!(is_ignored(None, "bn1.num_batches_tracked"));
    }

    #[test]
    fn cifar_spellings_are_understood() {
        assert_eq!(canonical_name(Family::ResNet, "layer2.0.shortcut.1.bias"), "layer2.0.downsample.1.bias");
        assert_eq!(canonical_name(Family::ResNet, "linear.bias"), "fc.bias");
    }
}
