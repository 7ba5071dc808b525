use super::{DecodeError, Format};

/// What a decoder may be asked to produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of pixels. The default, 178,956,970, is where Pillow refuses a file as a decompression bomb.
    pub max_pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_pixels: 178_956_970 }
    }
}

impl Limits {
    /// The size as `usize`, or why it is refused. Called before any pixel buffer is allocated.
    pub(super) fn check(&self, format: Format, width: u64, height: u64) -> Result<(usize, usize), DecodeError> {
        if width == 0 || height == 0 {
            return Err(DecodeError::NoPixels { format, width, height });
        }
        let fits = width.checked_mul(height).is_some_and(|pixels| pixels <= self.max_pixels);
        // Four bytes a pixel is the most any decoder here asks for.
        let bytes = usize::try_from(width)
            .ok()
            .zip(usize::try_from(height).ok())
            .filter(|(w, h)| w.checked_mul(*h).and_then(|n| n.checked_mul(8)).is_some());
        match bytes {
            Some(size) if fits => Ok(size),
            _ => Err(DecodeError::TooLarge { format, width, height, limit: self.max_pixels }),
        }
    }
}

/// Whether the EXIF orientation is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rotation {
    /// The stored pixels as they are, as torchvision's loaders give them.
    #[default]
    Ignore,
    /// Turned and mirrored as the EXIF orientation says.
    Apply,
}

/// How to decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Size limits.
    pub limits: Limits,
    /// EXIF handling.
    pub rotation: Rotation,
}
