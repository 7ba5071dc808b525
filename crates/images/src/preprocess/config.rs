use serde::{Deserialize, Serialize};

use super::{Normalise, PreprocessError};

/// Largest side an output may have.
const MAX_SIDE: usize = 8192;

/// A width and a height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
}

impl Size {
    /// `side` pixels each way.
    pub fn square(side: usize) -> Self {
        Self { width: side, height: side }
    }
}

/// How an image is brought to size before the crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Resize {
    /// Not at all: the images already have the network's size.
    None,
    /// The shorter side becomes this long; the longer one keeps the ratio, rounded down.
    ShortSide(usize),
    /// Both sides are set; the ratio may change.
    Exact(Size),
    /// Both sides are set, bilinearly on float pixels without antialiasing: half-pixel centres, edges clamped, as
    /// PyTorch's `interpolate(mode="bilinear", align_corners=False)`.
    ExactFloat(Size),
}

/// The filter an 8-bit resize uses; all but `Nearest` widen it when shrinking, as Pillow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The pixel under the centre.
    Nearest,
    /// Mean of the covered pixels.
    Box,
    /// Triangle.
    Bilinear,
    /// Cubic with a = -0.5.
    Bicubic,
    /// Windowed sinc of three lobes.
    Lanczos,
}

impl Interpolation {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("nearest", Self::Nearest),
        ("box", Self::Box),
        ("bilinear", Self::Bilinear),
        ("bicubic", Self::Bicubic),
        ("lanczos", Self::Lanczos),
    ];

    /// The one with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// From bytes to network input. One constructor per published setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocess {
    /// How the image is brought to size.
    pub resize: Resize,
    /// The centre part that is kept; smaller images are padded with black.
    pub crop: Option<Size>,
    /// The filter of the resize.
    pub interpolation: Interpolation,
    /// From bytes to floats.
    pub normalise: Normalise,
}

impl Preprocess {
    /// How images are brought to size, in a few words.
    pub fn sizing(&self) -> String {
        let resize = match self.resize {
            Resize::None => "as it is".to_owned(),
            Resize::ShortSide(side) => format!("short side to {side}"),
            Resize::Exact(size) | Resize::ExactFloat(size) => format!("to {} x {}", size.height, size.width),
        };
        let crop = self.crop.map_or_else(String::new, |size| format!(", crop {} x {}", size.height, size.width));
        let filter = format!("{:?}", self.interpolation).to_lowercase();
        match self.resize {
            Resize::None => format!("{resize}{crop}"),
            _ => format!("{resize} ({filter}){crop}"),
        }
    }

    /// Whether images are brought to size as `other` does it. Where nothing is resized, the filter does not matter.
    pub fn sizes_as(&self, other: &Self) -> bool {
        let same_filter = self.resize == Resize::None || self.interpolation == other.interpolation;
        (self.resize, self.crop) == (other.resize, other.crop) && same_filter
    }

    /// torchvision's evaluation rule: short side to `resize`, bilinear, centre crop of `crop`, ImageNet statistics.
    pub fn torchvision(resize: usize, crop: usize) -> Self {
        Self {
            resize: Resize::ShortSide(resize),
            crop: Some(Size::square(crop)),
            interpolation: Interpolation::Bilinear,
            normalise: Normalise::imagenet(),
        }
    }

    /// torchvision's first ImageNet weights: 256, then 224.
    pub fn torchvision_v1() -> Self {
        Self::torchvision(256, 224)
    }

    /// torchvision's second ImageNet weights: 232, then 224.
    pub fn torchvision_v2() -> Self {
        Self::torchvision(232, 224)
    }

    /// timm's evaluation rule: short side to `floor(input / crop_pct)`, centre crop of `input`.
    pub fn timm(
        input: usize,
        crop_pct: f64,
        interpolation: Interpolation,
        normalise: Normalise,
    ) -> Result<Self, PreprocessError> {
        if !(crop_pct > 0.0 && crop_pct <= 1.0) {
            return Err(PreprocessError::BadCropFraction { found: crop_pct });
        }
        let rule = Self {
            resize: Resize::ShortSide((input as f64 / crop_pct).floor() as usize),
            crop: Some(Size::square(input)),
            interpolation,
            normalise,
        };
        rule.check()?;
        Ok(rule)
    }

    /// The Tiny-ImageNet networks that enlarge 64 x 64 to 128 x 128 on float pixels.
    pub fn tiny_imagenet_128() -> Self {
        Self {
            resize: Resize::ExactFloat(Size::square(128)),
            crop: None,
            interpolation: Interpolation::Bilinear,
            normalise: Normalise::imagenet(),
        }
    }

    /// Pixels as they are, only normalised: CIFAR, ImageNet-C, anything already at the network's size.
    pub fn normalise_only(normalise: Normalise) -> Self {
        Self { resize: Resize::None, crop: None, interpolation: Interpolation::Bilinear, normalise }
    }

    /// The same weights' rule for images that were resized and cropped when the dataset was made. A float resize stays,
    /// because it enlarges every image the network sees, stored corruptions included.
    pub fn for_ready_images(&self) -> Self {
        let resize = match self.resize {
            Resize::ExactFloat(size) => Resize::ExactFloat(size),
            _ => Resize::None,
        };
        Self { resize, ..self.clone() }
    }

    /// Refuses settings that cannot work, before any image is read.
    pub fn check(&self) -> Result<(), PreprocessError> {
        let side = |field, found| match found {
            1..=MAX_SIDE => Ok(()),
            _ => Err(PreprocessError::SideOutOfRange { field, found, most: MAX_SIDE }),
        };
        match self.resize {
            Resize::None => {}
            Resize::ShortSide(short) => side("resize", short)?,
            Resize::Exact(size) | Resize::ExactFloat(size) => {
                side("resize", size.width)?;
                side("resize", size.height)?;
            }
        }
        if let Some(size) = self.crop {
            side("crop", size.width)?;
            side("crop", size.height)?;
        }
        if matches!(self.resize, Resize::ShortSide(_)) && self.crop.is_none() {
            return Err(PreprocessError::ShapeLeftOpen);
        }
        if matches!(self.resize, Resize::ExactFloat(_)) {
            if self.crop.is_some() {
                return Err(PreprocessError::FloatRule { found: "a crop" });
            }
            if self.interpolation != Interpolation::Bilinear {
                return Err(PreprocessError::FloatRule { found: "another interpolation" });
            }
        }
        self.normalise.check()
    }

    /// The output size when it does not depend on the image.
    pub fn fixed_size(&self) -> Option<Size> {
        self.crop.or(match self.resize {
            Resize::Exact(size) | Resize::ExactFloat(size) => Some(size),
            Resize::None | Resize::ShortSide(_) => None,
        })
    }

    /// The output size for an image of `width` x `height`.
    pub fn output_size(&self, width: usize, height: usize) -> Size {
        self.fixed_size().unwrap_or_else(|| self.resized(width, height))
    }

    /// The size after the resize and before the crop.
    pub(super) fn resized(&self, width: usize, height: usize) -> Size {
        match self.resize {
            Resize::None => Size { width, height },
            Resize::Exact(size) | Resize::ExactFloat(size) => size,
            Resize::ShortSide(short) if width <= height => {
                Size { width: short, height: long_side(short, height, width) }
            }
            Resize::ShortSide(short) => Size { width: long_side(short, width, height), height: short },
        }
    }
}

/// `short * long / other`, rounded down; 128 bits because an image may be a single row of many pixels. An image without
/// pixels is refused later.
fn long_side(short: usize, long: usize, other: usize) -> usize {
    (short as u128 * long as u128 / other.max(1) as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timm_crop_fraction_sets_the_short_side() {
        let rule = Preprocess::timm(224, 0.9, Interpolation::Bicubic, Normalise::half()).unwrap();
        assert_eq!(rule.resize, Resize::ShortSide(248));
        assert_eq!(rule.crop, Some(Size::square(224)));
        let refused = Preprocess::timm(224, 0.0, Interpolation::Bicubic, Normalise::half());
        assert_eq!(refused, Err(PreprocessError::BadCropFraction { found: 0.0 }));
    }

    #[test]
    fn the_long_side_is_rounded_down() {
        let rule = Preprocess::torchvision_v1();
        assert_eq!(rule.resized(451, 300), Size { width: 384, height: 256 });
        assert_eq!(rule.resized(300, 451), Size { width: 256, height: 384 });
        assert_eq!(rule.resized(256, 256), Size::square(256));
    }

    #[test]
    fn contradictory_settings_are_refused() {
        let mut open = Preprocess::torchvision_v1();
        open.crop = None;
        assert_eq!(open.check(), Err(PreprocessError::ShapeLeftOpen));
        let mut zero = Preprocess::torchvision_v1();
        zero.crop = Some(Size::square(0));
        assert!(matches!(zero.check(), Err(PreprocessError::SideOutOfRange { field: "crop", found: 0, .. })));
        let mut float = Preprocess::tiny_imagenet_128();
        float.interpolation = Interpolation::Bicubic;
        assert!(matches!(float.check(), Err(PreprocessError::FloatRule { .. })));
    }

    #[test]
    fn every_published_rule_passes_its_own_check_and_survives_json() {
        let rules = [
            Preprocess::torchvision_v1(),
            Preprocess::torchvision_v2(),
            Preprocess::tiny_imagenet_128(),
            Preprocess::normalise_only(Normalise::cifar10()),
            Preprocess::normalise_only(Normalise::cifar100()),
            Preprocess::normalise_only(Normalise::centred_bytes()),
        ];
        for rule in rules {
            rule.check().unwrap();
            let text = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<Preprocess>(&text).unwrap(), rule);
        }
        let text = r#"{"resize":"none","crop":null,"interpolation":"box","normalise":"none","gamma":1}"#;
        assert!(serde_json::from_str::<Preprocess>(text).is_err());
    }
}
