use std::path::Path;

use super::DataError;
use crate::Image;

/// Most bytes one stored picture may have.
const MAX_PICTURE_BYTES: u64 = 256 << 20;

/// How one picture of an array is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PictureShape {
    pub width: usize,
    pub height: usize,
    pub order: Order,
}

/// The order of the bytes of one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One byte a pixel.
    Grey,
    /// Red, green and blue of each pixel together.
    Interleaved,
    /// All of red, then green, then blue.
    Planes,
}

impl PictureShape {
    /// Checks that a picture has pixels and is not absurdly large.
    pub fn check(self, path: &Path) -> Result<Self, DataError> {
        let declared =
            (self.width as u64).checked_mul(self.height as u64).and_then(|n| n.checked_mul(3)).unwrap_or(u64::MAX);
        if declared == 0 {
            let found = format!("{} x {}", self.width, self.height);
            return Err(DataError::format(path, "the picture size", found, "at least 1 x 1"));
        }
        if declared > MAX_PICTURE_BYTES {
            return Err(DataError::TooLarge {
                path: path.into(),
                what: "one picture".into(),
                declared,
                limit: MAX_PICTURE_BYTES,
            });
        }
        Ok(self)
    }

    /// Stored bytes per picture.
    pub fn len(self) -> usize {
        let pixels = self.width * self.height;
        match self.order {
            Order::Grey => pixels,
            Order::Interleaved | Order::Planes => 3 * pixels,
        }
    }

    /// The picture in `bytes`, which must be `len` long.
    pub fn picture(self, bytes: &[u8]) -> Image {
        let pixels = self.width * self.height;
        let rgb = match self.order {
            Order::Grey => bytes.iter().flat_map(|&v| [v; 3]).collect(),
            Order::Interleaved => bytes.to_vec(),
            Order::Planes => (0..pixels).flat_map(|p| [bytes[p], bytes[pixels + p], bytes[2 * pixels + p]]).collect(),
        };
        Image::new(self.width, self.height, rgb).expect("the bytes were `len` long")
    }
}
