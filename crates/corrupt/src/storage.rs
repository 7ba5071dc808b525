//! What storing an image does to its pixels.

use flipcast_images::Image;

use crate::blocks::jpeg::round_trip;

/// The JPEG quality of the published image files.
pub const STORED_QUALITY: u8 = 85;

/// The step after a corruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Pixels stay as they are, as in the array files of CIFAR-10-C.
    #[default]
    None,
    /// JPEG of quality 85 with halved chroma, as in the files of ImageNet-C and ImageNet-C-bar.
    Jpeg85,
}

impl Storage {
    /// `image` as it reads back from storage.
    pub fn store(self, image: Image) -> Image {
        match self {
            Self::None => image,
            Self::Jpeg85 => round_trip(&image, STORED_QUALITY),
        }
    }
}
