//! What storing an image does to its pixels.

use std::fmt;
use std::str::FromStr;

use flipcast_images::Image;
use serde::{Deserialize, Serialize};

use crate::blocks::jpeg::round_trip;
use crate::error::CorruptError;

/// The JPEG quality of the published image files.
pub const STORED_QUALITY: u8 = 85;

/// The step after a corruption. [`CorruptionSet::storage`](crate::CorruptionSet::storage) tells what each published set does.
///
/// ```
/// use flipcast_corrupt::{CorruptionSet, Storage};
///
/// assert_eq!(CorruptionSet::ImageNetC.storage(), Storage::Jpeg85);
/// assert_eq!(CorruptionSet::CifarC.storage(), Storage::None);
/// assert_eq!("jpeg85".parse(), Ok(Storage::Jpeg85));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// Pixels stay as they are, as in the array files of CIFAR-10-C.
    #[default]
    None,
    /// JPEG of quality 85 with halved chroma, as in the files of ImageNet-C and ImageNet-C-bar.
    Jpeg85,
}

impl Storage {
    /// The name used in data specs, plans and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Jpeg85 => "jpeg85",
        }
    }

    /// Whether pixels stay as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// `image` as it reads back from storage.
    pub fn store(self, image: Image) -> Image {
        match self {
            Self::None => image,
            Self::Jpeg85 => round_trip(&image, STORED_QUALITY),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Storage {
    type Err = CorruptError;

    fn from_str(text: &str) -> Result<Self, CorruptError> {
        [Self::None, Self::Jpeg85]
            .into_iter()
            .find(|storage| storage.name() == text)
            .ok_or_else(|| CorruptError::UnknownStorage { found: text.to_owned() })
    }
}
