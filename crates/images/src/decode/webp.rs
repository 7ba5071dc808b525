use std::io::Cursor;

use image_webp::{DecodingError, WebPDecoder};

use super::format::Decoded;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    check_complete(bytes)?;
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(|e| refuse(&e, bytes))?;
    let (width, height) = decoder.dimensions();
    let (width, height) = limits.check(Format::WebP, width.into(), height.into())?;
    decoder.set_memory_limit(width * height * 8 + 16 * 1024 * 1024);

    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut pixels = vec![0; width * height * channels];
    if decoder.is_animated() {
        decoder.read_frame(&mut pixels).map_err(|e| refuse(&e, bytes))?;
    } else {
        decoder.read_image(&mut pixels).map_err(|e| refuse(&e, bytes))?;
    }
    let rgb = if channels == 4 { pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect() } else { pixels };
    let exif = decoder.exif_metadata().ok().flatten();
    let orientation = exif.map_or(Orientation::Upright, |block| Orientation::from_exif(&block));
    let image = Image::new(width, height, rgb).expect("the buffer was sized from width and height");
    Ok(Decoded { image, orientation })
}

/// The container states its own length; a shorter file was cut off.
fn check_complete(bytes: &[u8]) -> Result<(), DecodeError> {
    let declared = bytes.get(4..8).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])) + 8);
    match declared {
        Some(declared) if declared <= bytes.len() as u64 => Ok(()),
        _ => Err(DecodeError::Truncated { format: Format::WebP, found: bytes.len() }),
    }
}

fn refuse(error: &DecodingError, bytes: &[u8]) -> DecodeError {
    let format = Format::WebP;
    match error {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            DecodeError::Truncated { format, found: bytes.len() }
        }
        other => DecodeError::Damaged { format, reason: other.to_string() },
    }
}
