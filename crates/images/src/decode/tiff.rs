use std::io::Cursor;

use ::tiff::decoder::{Decoder, DecodingResult, Limits as TiffLimits};
use ::tiff::{ColorType, TiffError};

use super::format::Decoded;
use super::jpeg::cmyk_to_rgb;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

/// Bytes for values of tags and packed strips.
const MAX_METADATA: usize = 64 << 20;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(|e| refuse(e, bytes))?;
    let (width, height) = decoder.dimensions().map_err(|e| refuse(e, bytes))?;
    let (width, height) = limits.check(Format::Tiff, width.into(), height.into())?;
    let mut own_limits = TiffLimits::default();
    // Four channels of 16 bits are the most that is converted.
    own_limits.decoding_buffer_size = width * height * 8;
    own_limits.intermediate_buffer_size = width * height * 8 + MAX_METADATA;
    own_limits.ifd_value_size = MAX_METADATA;
    let mut decoder = decoder.with_limits(own_limits);
    let colour = decoder.colortype().map_err(|e| refuse(e, bytes))?;
    let pixels = decoder.read_image().map_err(|e| refuse(e, bytes))?;
    let rgb = match pixels {
        DecodingResult::U8(values) => from_bytes(values, colour, width),
        DecodingResult::U16(values) => from_words(&values, colour),
        _ => None,
    };
    let unsupported = || DecodeError::Unsupported { format: Format::Tiff, feature: format!("{colour:?} pixels") };
    let image = rgb.and_then(|rgb| Image::new(width, height, rgb)).ok_or_else(unsupported)?;
    // Unlike with other formats, Pillow turns a TIFF as its orientation says.
    let image = Orientation::from_exif(bytes).apply(image);
    Ok(Decoded { image, orientation: Orientation::Upright })
}

fn from_bytes(values: Vec<u8>, colour: ColorType, width: usize) -> Option<Vec<u8>> {
    Some(match colour {
        ColorType::Gray(8) => values.into_iter().flat_map(|v| [v; 3]).collect(),
        ColorType::GrayA(8) => values.chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        ColorType::RGB(8) => values,
        ColorType::RGBA(8) => values.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        // JPEG stores ink inverted, TIFF does not.
        ColorType::CMYK(8) => cmyk_to_rgb(&values.into_iter().map(|v| 255 - v).collect::<Vec<u8>>()),
        // One bit a pixel, rows filled up to whole bytes.
        ColorType::Gray(1) => {
            let rows = values.chunks_exact(width.div_ceil(8));
            let bit = |row: &[u8], x: usize| row[x / 8] >> (7 - x % 8) & 1;
            rows.flat_map(|row| (0..width).flat_map(move |x| [255 * bit(row, x); 3])).collect()
        }
        _ => return None,
    })
}

/// Colours keep their upper eight bits, grey is clipped, as Pillow does it.
fn from_words(values: &[u16], colour: ColorType) -> Option<Vec<u8>> {
    let upper = |v: u16| (v >> 8) as u8;
    Some(match colour {
        ColorType::Gray(16) => values.iter().flat_map(|&v| [v.min(255) as u8; 3]).collect(),
        ColorType::RGB(16) => values.iter().map(|&v| upper(v)).collect(),
        ColorType::RGBA(16) => values.chunks_exact(4).flat_map(|p| [upper(p[0]), upper(p[1]), upper(p[2])]).collect(),
        _ => return None,
    })
}

fn refuse(error: TiffError, bytes: &[u8]) -> DecodeError {
    let format = Format::Tiff;
    match error {
        TiffError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            DecodeError::Truncated { format, found: bytes.len() }
        }
        TiffError::UnsupportedError(e) => DecodeError::Unsupported { format, feature: e.to_string() },
        TiffError::LimitsExceeded => DecodeError::Unsupported { format, feature: "strips or tags of that size".into() },
        other => DecodeError::Damaged { format, reason: other.to_string() },
    }
}
