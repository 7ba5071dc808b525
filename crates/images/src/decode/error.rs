use flipcast_ground::Hint;

use super::Format;

/// Why some bytes did not become an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing to decode.
    #[error("the file is empty, but an image was expected")]
    Empty,
    /// No known signature at the start.
    #[error("the file starts with bytes {start}, but JPEG, PNG, WebP, BMP, GIF or TIFF was expected")]
    UnknownFormat {
        /// The first bytes in hexadecimal.
        start: String,
    },
    /// An image of a format that is recognised but not read.
    #[error("the file is {found}, which is not read, but JPEG, PNG, WebP, BMP, GIF or TIFF was expected")]
    NotRead {
        /// The format.
        found: &'static str,
    },
    /// The data stops before the picture is complete.
    #[error("the {format} data ends after {found} bytes, before the picture is complete")]
    Truncated {
        /// The format the signature announced.
        format: Format,
        /// Bytes present.
        found: usize,
    },
    /// More pixels than the limit allows.
    #[error("the {format} header declares {width} x {height} pixels, but the limit is {limit} pixels")]
    TooLarge {
        /// The format the signature announced.
        format: Format,
        /// Declared width.
        width: u64,
        /// Declared height.
        height: u64,
        /// Largest number of pixels allowed.
        limit: u64,
    },
    /// A width or height of zero.
    #[error("the {format} header declares {width} x {height} pixels, but both must be at least 1")]
    NoPixels {
        /// The format the signature announced.
        format: Format,
        /// Declared width.
        width: u64,
        /// Declared height.
        height: u64,
    },
    /// A valid file of a kind that is not read.
    #[error("the {format} file uses {feature}, which is not supported")]
    Unsupported {
        /// The format the signature announced.
        format: Format,
        /// What is not supported.
        feature: String,
    },
    /// The data contradicts the format.
    #[error("the {format} data is damaged: {reason}")]
    Damaged {
        /// The format the signature announced.
        format: Format,
        /// What the decoder found.
        reason: String,
    },
}

impl Hint for DecodeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Empty | Self::Truncated { .. } => Some("copy or download the file again".into()),
            Self::TooLarge { .. } => Some("raise the pixel limit if the file can be trusted".into()),
            Self::UnknownFormat { .. } | Self::Unsupported { .. } => Some("convert the file to PNG or JPEG".into()),
            Self::NotRead { found } => Some(format!(
                "convert {found} files to PNG or JPEG, for example with ImageMagick: `magick photo.heic photo.png`"
            )),
            Self::NoPixels { .. } | Self::Damaged { .. } => None,
        }
    }
}
