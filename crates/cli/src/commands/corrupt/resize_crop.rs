//! What happens to the clean images before they are corrupted.

use anyhow::Result;
use flipcast_corrupt::CorruptionSet;
use flipcast_images::preprocess::{Preprocess, PreprocessError};
use std::fmt;
use std::str::FromStr;

/// Short side and centre crop, as torchvision does them, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeCrop {
    /// The images stay as they are.
    None,
    /// The short side after the resize, bilinear, and the side of the crop.
    Sides(usize, usize),
}

/// A text that is no such rule.
#[derive(Debug, thiserror::Error)]
#[error("`{found}` found, but `none` or two sides such as `256,224` expected, the crop no larger than the resize")]
pub struct ResizeCropError {
    found: String,
}

impl ResizeCrop {
    /// The rule the set is made with.
    pub fn of(set: CorruptionSet) -> Self {
        match set {
            CorruptionSet::ImageNetC | CorruptionSet::ImageNetCBar => Self::Sides(256, 224),
            CorruptionSet::TinyImageNetC
            | CorruptionSet::CifarC
            | CorruptionSet::CifarCBar
            | CorruptionSet::Calibration => Self::None,
        }
    }

    /// The preprocessing whose resize and crop this is.
    pub fn rule(self) -> Result<Option<Preprocess>, PreprocessError> {
        match self {
            Self::None => Ok(None),
            Self::Sides(resize, crop) => {
                let rule = Preprocess::torchvision(resize, crop);
                rule.check()?;
                Ok(Some(rule))
            }
        }
    }
}

impl FromStr for ResizeCrop {
    type Err = ResizeCropError;

    fn from_str(text: &str) -> Result<Self, ResizeCropError> {
        let bad = || ResizeCropError { found: text.to_owned() };
        if text == "none" {
            return Ok(Self::None);
        }
        let (resize, crop) = text.split_once(',').ok_or_else(bad)?;
        let side = |side: &str| side.trim().parse::<usize>().ok().filter(|&side| side > 0);
        match (side(resize), side(crop)) {
            (Some(resize), Some(crop)) if crop <= resize => Ok(Self::Sides(resize, crop)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for ResizeCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Sides(resize, crop) => write!(f, "{resize},{crop}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in ["none", "256,224", "64,64"] {
            assert_eq!(text.parse::<ResizeCrop>().expect("a rule").to_string(), text);
        }
        for text in ["", "256", "224,256", "0,0", "256,x", "256,224,1", "-1,2"] {
            assert!(text.parse::<ResizeCrop>().is_err(), "{text}");
        }
    }
}
