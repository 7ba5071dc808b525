use std::io::Cursor;

use ::png::{BitDepth, ColorType, Decoder, DecodingError, Limits as PngLimits, Transformations};

use super::format::Decoded;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    // Row buffers and metadata only; the picture's own buffer is allocated below, after the size check.
    let metadata = PngLimits { bytes: 64 * 1024 * 1024 };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), metadata);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let header = decoder.read_header_info().map_err(|e| refuse(&e, bytes))?.size();
    let (width, height) = limits.check(Format::Png, header.0.into(), header.1.into())?;
    let mut reader = decoder.read_info().map_err(|e| refuse(&e, bytes))?;

    let too_large = || DecodeError::TooLarge {
        format: Format::Png,
        width: width as u64,
        height: height as u64,
        limit: limits.max_pixels,
    };
    let mut pixels = vec![0; reader.output_buffer_size().ok_or_else(too_large)?];
    let info = reader.next_frame(&mut pixels).map_err(|e| refuse(&e, bytes))?;
    // The pixels are complete; a file cut off after them is refused all the same, other faults are not looked at.
    if let Err(error) = reader.finish() {
        let refused = refuse(&error, bytes);
        if matches!(refused, DecodeError::Truncated { .. }) {
            return Err(refused);
        }
    }
    let rgb = to_rgb(pixels, info.color_type, info.bit_depth);
    let exif = reader.info().exif_metadata.as_deref();
    let orientation = exif.map_or(Orientation::Upright, Orientation::from_exif);
    let image = Image::new(width, height, rgb).ok_or_else(|| DecodeError::Unsupported {
        format: Format::Png,
        feature: format!("{:?} at {:?}", info.color_type, info.bit_depth),
    })?;
    Ok(Decoded { image, orientation })
}

/// Drops alpha, replicates grey, and brings 16 bits to 8 as Pillow does: colours keep their high byte,
/// plain grey is clipped at 255.
fn to_rgb(pixels: Vec<u8>, colour: ColorType, depth: BitDepth) -> Vec<u8> {
    let grey = |v: u8| [v; 3];
    match (colour, depth) {
        (ColorType::Rgb, BitDepth::Eight) => pixels,
        (ColorType::Grayscale, BitDepth::Eight) => pixels.into_iter().flat_map(grey).collect(),
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => pixels.chunks_exact(2).flat_map(|p| grey(p[0])).collect(),
        (ColorType::Rgba, BitDepth::Eight) => pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        (ColorType::Grayscale, BitDepth::Sixteen) => {
            pixels.chunks_exact(2).flat_map(|p| grey(if p[0] == 0 { p[1] } else { 255 })).collect()
        }
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen) => pixels.chunks_exact(4).flat_map(|p| grey(p[0])).collect(),
        (ColorType::Rgb, BitDepth::Sixteen) => pixels.chunks_exact(6).flat_map(|p| [p[0], p[2], p[4]]).collect(),
        (ColorType::Rgba, BitDepth::Sixteen) => pixels.chunks_exact(8).flat_map(|p| [p[0], p[2], p[4]]).collect(),
        // The expansion leaves no other pair; an empty buffer makes the caller report one.
        _ => Vec::new(),
    }
}

fn refuse(error: &DecodingError, bytes: &[u8]) -> DecodeError {
    let format = Format::Png;
    match error {
        DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            DecodeError::Truncated { format, found: bytes.len() }
        }
        DecodingError::LimitsExceeded => {
            DecodeError::Unsupported { format, feature: "rows or metadata over 64 MiB".into() }
        }
        other => DecodeError::Damaged { format, reason: other.to_string() },
    }
}
