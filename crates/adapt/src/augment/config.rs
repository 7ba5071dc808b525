use crate::AdaptError;
use serde::{Deserialize, Serialize};

/// How the values of a batch relate to pixels from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PixelSpace {
    /// Values are `(pixel - mean) / std`, per channel. The numbers belong to the weights, not to the images.
    Normalised {
        /// Mean of each channel.
        mean: [f32; 3],
        /// Standard deviation of each channel.
        std: [f32; 3],
    },
    /// Values are taken for pixels. Right for networks that normalise on their own; for others it is a quirk of published
    /// code, which sets every pixel darker than the mean to black.
    AsIs,
}

impl PixelSpace {
    /// The normalisation of torchvision's ImageNet weights.
    pub fn imagenet() -> Self {
        Self::Normalised { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
    }

    /// Mean and standard deviation of each channel.
    pub(super) fn mean_std(self) -> ([f32; 3], [f32; 3]) {
        match self {
            Self::Normalised { mean, std } => (mean, std),
            Self::AsIs => ([0.0; 3], [1.0; 3]),
        }
    }
}

/// What lies beyond the border of an image that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// The nearest pixel of the border.
    Edge,
    /// The image, mirrored at its outermost pixels.
    Reflect,
}

/// How images are changed.
///
/// *Idea.* A prediction that survives changes which leave the class alone can be trusted more.
/// *Formula.* In this order: clip to 0..1; brightness, contrast, saturation, hue and gamma in random order; rotation, shift and scale
/// about the centre, bilinear; blur with five taps; mirror; noise; clip to 0..1. Every factor is uniform in its range.
/// *Reference.* Cohen and Giryes, "KATANA", 2021, as CoTTA and ROID use it.
/// *Departures from the reference.* Colours are changed in pixel space, whatever the network's normalisation
/// ([`PixelSpace::AsIs`] is the published behaviour). Images need not be square.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// How the batch's values relate to pixels.
    pub pixels: PixelSpace,
    /// Factor of all values.
    pub brightness: [f64; 2],
    /// Factor of the distance from the image's mean grey.
    pub contrast: [f64; 2],
    /// Factor of the distance from the pixel's own grey.
    pub saturation: [f64; 2],
    /// Turns added to the hue.
    pub hue: [f64; 2],
    /// Exponent of all values.
    pub gamma: [f64; 2],
    /// Rotation in degrees.
    pub degrees: [f64; 2],
    /// Largest shift, as a share of the image with a border of half its size on every side.
    pub shift: f64,
    /// Factor of the size.
    pub scale: [f64; 2],
    /// What lies beyond the border.
    pub padding: Padding,
    /// Standard deviation of the blur in pixels, if there is any.
    pub blur: Option<[f64; 2]>,
    /// Chance of a mirror image.
    pub mirror: f64,
    /// Standard deviation of the noise; 0 is none.
    pub noise: f64,
}

impl AugmentConfig {
    /// As CoTTA: with blur and noise.
    pub fn cotta(pixels: PixelSpace) -> Self {
        Self {
            pixels,
            brightness: [0.6, 1.4],
            contrast: [0.7, 1.3],
            saturation: [0.5, 1.5],
            hue: [-0.06, 0.06],
            gamma: [0.7, 1.3],
            degrees: [-15.0, 15.0],
            shift: 1.0 / 16.0,
            scale: [0.9, 1.1],
            padding: Padding::Edge,
            blur: Some([0.001, 0.5]),
            mirror: 0.5,
            noise: 0.005,
        }
    }

    /// As ROID: no blur, no noise, and a mirrored border.
    pub fn roid(pixels: PixelSpace) -> Self {
        Self { padding: Padding::Reflect, blur: None, noise: 0.0, ..Self::cotta(pixels) }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let (mean, std) = self.pixels.mean_std();
        for value in mean {
            let found = f64::from(value);
            AdaptError::unless(found.is_finite(), "mean of a channel", found, "a number")?;
        }
        for value in std {
            let found = f64::from(value);
            let ok = found > 0.0 && found.is_finite();
            let setting = "standard deviation of a channel";
            AdaptError::unless(ok, setting, found, "a number of more than 0")?;
        }
        let least = [
            ("brightness", self.brightness, 0.0),
            ("contrast", self.contrast, 0.0),
            ("saturation", self.saturation, 0.0),
            ("hue", self.hue, -0.5),
            ("gamma", self.gamma, 0.0),
            ("degrees", self.degrees, -180.0),
            ("scale", self.scale, 0.01),
            ("blur", self.blur.unwrap_or([1.0, 1.0]), 1e-6),
        ];
        for (setting, [low, high], least) in least {
            AdaptError::unless(low >= least, setting, low, "a range within its bounds")?;
            let ok = high >= low && high.is_finite();
            AdaptError::unless(ok, setting, high, "a range that ends where it starts or later")?;
        }
        let shares = [("shift", self.shift), ("chance of a mirror", self.mirror)];
        for (setting, found) in shares {
            let ok = (0.0..=1.0).contains(&found);
            AdaptError::unless(ok, setting, found, "a number from 0 to 1")?;
        }
        let ok = self.noise >= 0.0 && self.noise.is_finite();
        AdaptError::unless(ok, "noise", self.noise, "a number of at least 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_range_are_refused() {
        let good = AugmentConfig::cotta(PixelSpace::imagenet());
        assert!(good.check().is_ok());
        assert!(AugmentConfig::roid(PixelSpace::AsIs).check().is_ok());
        let flat = PixelSpace::Normalised { mean: [0.0; 3], std: [1.0, 0.0, 1.0] };
        let bad = [
            AugmentConfig { pixels: flat, ..good },
            AugmentConfig { gamma: [-1.0, 1.0], ..good },
            AugmentConfig { scale: [0.0, 1.0], ..good },
            AugmentConfig { hue: [0.1, -0.1], ..good },
            AugmentConfig { mirror: f64::NAN, ..good },
            AugmentConfig { noise: f64::INFINITY, ..good },
        ];
        for config in bad {
            assert!(config.check().is_err(), "{config:?}");
        }
    }
}
