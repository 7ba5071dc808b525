//! Encoded bytes to [`Image`](crate::Image), as Pillow's `convert('RGB')` would give them.
//!
//! The content decides the format, never the file name. Grey is replicated, alpha is dropped without compositing,
//! 16-bit grey is clipped at 255, CMYK is multiplied out, and EXIF rotation is applied only on request.
//! The size in the header is checked against [`Limits`] before any pixel buffer is allocated.

mod bmp;
mod error;
mod exif;
mod format;
mod gif;
mod jpeg;
mod limits;
mod png;
mod tiff;
mod webp;

pub use error::DecodeError;
pub use exif::Orientation;
pub use format::{Format, decode, decode_with};
pub use limits::{DecodeOptions, Limits, Rotation};
