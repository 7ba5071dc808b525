use crate::registry::ARCHITECTURES;
use crate::{ArchitectureConfig, ClassToken, TokenPool, VitConfig};
use flipcast_graph::GraphError;

/// Sizes by their names in timm and torchvision: channels of a token, blocks, heads.
const SIZES: [(&str, &str, [usize; 3]); 5] = [
    ("tiny", "ti", [192, 12, 3]),
    ("small", "s", [384, 12, 6]),
    ("base", "b", [768, 12, 12]),
    ("large", "l", [1024, 24, 16]),
    ("huge", "h", [1280, 32, 16]),
];
/// The images of networks whose names give no size.
const USUAL_IMAGE: usize = 224;

impl VitConfig {
    /// The network a name spells out: `vit_base_patch16_384` with any size, patch and image, the same with `deit` and
    /// `deit3`, `deit_base_distilled_patch16_224`, `..._gap_...` for a mean over patches without a class token, and torchvision's `vit_b_16`. `None` for
    /// other names; an error when the settings make no network.
    pub(crate) fn from_name(name: &str, classes: usize) -> Option<Result<Self, GraphError>> {
        let (family, rest) = name.split_once('_')?;
        let config = match rest.split_once("_patch") {
            Some((size, rest)) => Self::from_timm(family, size, rest, classes)?,
            None if family == "vit" => {
                let (size, patch) = rest.split_once('_')?;
                let (_, _, settings) = SIZES.iter().find(|row| row.1 == size)?;
                Self::new(USUAL_IMAGE, number(patch)?, *settings, classes)
            }
            None => return None,
        };
        Some(config.check().map(|()| config))
    }

    /// The registered name, or a description for settings without one.
    pub(crate) fn name(&self) -> String {
        let own = ArchitectureConfig::from(self.clone());
        let entry = ARCHITECTURES.iter().find(|entry| (entry.config)(self.classes) == own);
        if let Some(entry) = entry {
            return entry.name.to_owned();
        }
        let [height, width] = self.image_size;
        format!("vit_d{}_l{}_h{}_patch{}_{height}x{width}", self.hidden_dim, self.layers, self.heads, self.patch_size)
    }

    fn from_timm(family: &str, size: &str, rest: &str, classes: usize) -> Option<Self> {
        let (size, is_distilled) = match size.strip_suffix("_distilled") {
            Some(size) => (size, true),
            None => (size, false),
        };
        let (_, _, settings) = SIZES.iter().find(|row| row.0 == size)?;
        let (patch, image) = rest.split_once('_')?;
        let (image, is_gap) = match image.strip_prefix("gap_") {
            Some(image) => (image, true),
            None => (image, false),
        };
        let plain = Self::new(number(image)?, number(patch)?, *settings, classes);
        match (family, is_gap) {
            ("deit", false) if is_distilled => Some(Self { class_token: ClassToken::Distilled, ..plain }),
            _ if is_distilled => None,
            ("vit" | "deit", false) => Some(plain),
            ("vit", true) => Some(Self { class_token: ClassToken::Absent, pool: TokenPool::NormThenMean, ..plain }),
            ("deit3", false) => Some(Self { class_token: ClassToken::WithoutPosition, layer_scale: true, ..plain }),
            _ => None,
        }
    }
}

/// A number of digits only; `parse` would take a sign as well.
fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_give_one_network() {
        let timm = VitConfig::from_name("vit_base_patch16_224", 10).unwrap();
        let torchvision = VitConfig::from_name("vit_b_16", 10).unwrap();
        assert_eq!(timm, torchvision);
        let deit = VitConfig::from_name("deit_base_patch16_224", 10).unwrap();
        assert_eq!(timm, deit);
    }

    #[test]
    fn patch_and_image_may_be_any() {
        let config = VitConfig::from_name("vit_small_patch12_96", 10).unwrap();
        let config = config.unwrap();
        assert_eq!((config.patch_size, config.image_size), (12, [96, 96]));
        let error = VitConfig::from_name("vit_small_patch12_100", 10).unwrap();
        assert!(matches!(error, Err(GraphError::BadSetting { .. })));
    }

    #[test]
    fn variants_of_timm_are_told_apart() {
        let gap = VitConfig::from_name("vit_base_patch16_gap_224", 10).unwrap();
        assert_eq!(gap.unwrap().class_token, ClassToken::Absent);
        let third = VitConfig::from_name("deit3_small_patch16_224", 10).unwrap();
        assert!(third.unwrap().layer_scale);
        let name = "deit_tiny_distilled_patch16_224";
        let distilled = VitConfig::from_name(name, 10).unwrap().unwrap();
        assert_eq!(distilled.class_token, ClassToken::Distilled);
    }

    #[test]
    fn registered_settings_know_their_name() {
        assert_eq!(VitConfig::new(64, 8, [256, 8, 4], 7).name(), "vit_tiny_p8");
        let unnamed = VitConfig::new(48, 8, [128, 2, 2], 7).name();
        assert_eq!(unnamed, "vit_d128_l2_h2_patch8_48x48");
    }

    #[test]
    fn other_names_are_left_to_others() {
        for name in [
            "vit",
            "vit_b",
            "vit_b_16_linear",
            "vit_base_patch16_clip_224",
            "vit_base_patch+16_224",
            "swin_tiny_patch4_window7_224",
            "deit3_small_patch16_gap_224",
            "vit_base_distilled_patch16_224",
        ] {
            assert!(VitConfig::from_name(name, 10).is_none(), "{name}");
        }
    }
}
