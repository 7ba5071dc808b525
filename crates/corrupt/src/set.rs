//! The corruption sets and the image sizes they were made for.

use std::fmt;
use std::str::FromStr;

use crate::error::CorruptError;
use crate::storage::Storage;

/// Images whose shorter side is at most this long count as CIFAR-sized (32 published).
pub const CIFAR_SIDE_LIMIT: usize = 48;
/// Images whose shorter side is at most this long, but no shorter, count as Tiny-ImageNet-sized (64 published).
pub const TINY_SIDE_LIMIT: usize = 128;

/// A set: a list of corruptions with their constants. Published sets are for one image size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CorruptionSet {
    /// ImageNet-C, 224 pixels: 15 corruptions and 4 extra ones.
    ImageNetC,
    /// Tiny-ImageNet-C, 64 pixels: the same 19.
    TinyImageNetC,
    /// CIFAR-10-C and CIFAR-100-C, 32 pixels: the same 19.
    CifarC,
    /// ImageNet-C-bar, 224 pixels: 10 corruptions.
    ImageNetCBar,
    /// CIFAR-10-C-bar, 32 pixels: 10 corruptions.
    CifarCBar,
    /// flipcast's own kinds to calibrate with, for any size: [`calibration`](crate::calibration).
    Calibration,
}

impl CorruptionSet {
    /// Every set.
    pub const ALL: [Self; 6] =
        [Self::ImageNetC, Self::TinyImageNetC, Self::CifarC, Self::ImageNetCBar, Self::CifarCBar, Self::Calibration];

    /// The name used on the command line, in records and in random streams.
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageNetC => "imagenet-c",
            Self::TinyImageNetC => "tiny-imagenet-c",
            Self::CifarC => "cifar-c",
            Self::ImageNetCBar => "imagenet-c-bar",
            Self::CifarCBar => "cifar-c-bar",
            Self::Calibration => "calibration",
        }
    }

    /// What the published images went through after the corruption: the ImageNet sets are JPEG files, the CIFAR sets
    /// are arrays of bytes, and flipcast's own set is not stored.
    pub fn storage(self) -> Storage {
        match self {
            Self::ImageNetC | Self::TinyImageNetC | Self::ImageNetCBar => Storage::Jpeg85,
            Self::CifarC | Self::CifarCBar | Self::Calibration => Storage::None,
        }
    }

    /// The sets that suit an image of this size, best first.
    ///
    /// The shorter side decides: up to 48 pixels CIFAR's constants come first, up to 128 Tiny-ImageNet's, then
    /// ImageNet's. Sets for other sizes follow, so that a name found in only one of them can still be used; flipcast's own
    /// set, which suits every size and shares no name with the others, is the last.
    pub fn by_size(width: usize, height: usize) -> [Self; 6] {
        let side = width.min(height);
        let [first, second, third, fourth, fifth] = if side <= CIFAR_SIDE_LIMIT {
            [Self::CifarC, Self::CifarCBar, Self::ImageNetCBar, Self::TinyImageNetC, Self::ImageNetC]
        } else if side <= TINY_SIDE_LIMIT {
            [Self::TinyImageNetC, Self::CifarCBar, Self::ImageNetCBar, Self::CifarC, Self::ImageNetC]
        } else {
            [Self::ImageNetC, Self::ImageNetCBar, Self::CifarCBar, Self::TinyImageNetC, Self::CifarC]
        };
        [first, second, third, fourth, fifth, Self::Calibration]
    }
}

impl fmt::Display for CorruptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CorruptionSet {
    type Err = CorruptError;

    fn from_str(text: &str) -> Result<Self, CorruptError> {
        Self::ALL.into_iter().find(|set| set.name() == text).ok_or_else(|| CorruptError::UnknownSet {
            name: text.to_owned(),
            known: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for set in CorruptionSet::ALL {
            assert_eq!(set.name().parse(), Ok(set));
        }
        assert!(matches!("imagenet".parse::<CorruptionSet>(), Err(CorruptError::UnknownSet { .. })));
    }

    #[test]
    fn the_shorter_side_decides() {
        assert_eq!(CorruptionSet::by_size(32, 500)[0], CorruptionSet::CifarC);
        assert_eq!(CorruptionSet::by_size(64, 64)[0], CorruptionSet::TinyImageNetC);
        assert_eq!(CorruptionSet::by_size(224, 224)[0], CorruptionSet::ImageNetC);
    }
}
