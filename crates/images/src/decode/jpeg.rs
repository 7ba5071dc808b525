use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;

use super::format::Decoded;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

/// Largest width or height the format can express.
const MAX_SIDE: usize = 65_535;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    check_complete(bytes)?;
    let options = DecoderOptions::default().set_max_width(MAX_SIDE).set_max_height(MAX_SIDE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| refuse(&e, bytes))?;
    let (width, height) = decoder.dimensions().unwrap_or((0, 0));
    let (width, height) = limits.check(Format::Jpeg, width as u64, height as u64)?;

    let stored = decoder.input_colorspace().unwrap_or(ColorSpace::YCbCr);
    let wanted = match stored {
        ColorSpace::CMYK | ColorSpace::YCCK => stored,
        _ => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(wanted));
    let pixels = decoder.decode().map_err(|e| refuse(&e, bytes))?;
    let rgb = match stored {
        ColorSpace::CMYK => cmyk_to_rgb(&pixels),
        ColorSpace::YCCK => cmyk_to_rgb(&ycck_to_cmyk(&pixels)),
        _ => pixels,
    };
    let orientation = decoder.exif().map_or(Orientation::Upright, |block| Orientation::from_exif(block));
    let image = Image::new(width, height, rgb).ok_or_else(|| DecodeError::Unsupported {
        format: Format::Jpeg,
        feature: format!("colour space {stored:?}"),
    })?;
    Ok(Decoded { image, orientation })
}

fn refuse(error: &DecodeErrors, bytes: &[u8]) -> DecodeError {
    let format = Format::Jpeg;
    match error {
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => {
            DecodeError::Truncated { format, found: bytes.len() }
        }
        DecodeErrors::Unsupported(scheme) => DecodeError::Unsupported { format, feature: format!("{scheme:?}") },
        DecodeErrors::ZeroError => DecodeError::NoPixels { format, width: 0, height: 0 },
        other => DecodeError::Damaged { format, reason: other.to_string() },
    }
}

/// Walks the marker segments to the end-of-image marker, which a cut-off file lacks. The decoder itself would fill
/// the missing part with grey; Pillow refuses such a file, and so does this.
fn check_complete(bytes: &[u8]) -> Result<(), DecodeError> {
    let truncated = || DecodeError::Truncated { format: Format::Jpeg, found: bytes.len() };
    let mut at = 2;
    loop {
        // To the next marker. In entropy-coded data FF is followed by 00 or a restart marker.
        let rest = bytes.get(at..).ok_or_else(truncated)?;
        at += rest.iter().position(|&b| b == 0xFF).ok_or_else(truncated)? + 1;
        match bytes.get(at) {
            None => return Err(truncated()),
            Some(0x00 | 0x01 | 0xD0..=0xD8) => at += 1,
            Some(0xFF) => {}
            Some(0xD9) => return Ok(()),
            Some(_) => {
                let length = bytes.get(at + 1..at + 3).ok_or_else(truncated)?;
                at += 1 + usize::from(u16::from_be_bytes([length[0], length[1]])).max(2);
            }
        }
    }
}

/// Pillow's conversion. Whatever the markers say, it takes the stored values as inverted, as Adobe writes them; with
/// ink `c`, `k` and `rest = 255 - k` each channel is then `rest - round(c * rest / 255)`.
pub(super) fn cmyk_to_rgb(stored: &[u8]) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(stored.len() / 4 * 3);
    for pixel in stored.chunks_exact(4) {
        let rest = i32::from(pixel[3]);
        for &channel in &pixel[..3] {
            let product = (255 - i32::from(channel)) * rest + 128;
            let share = ((product >> 8) + product) >> 8;
            rgb.push((rest - share).clamp(0, 255) as u8);
        }
    }
    rgb
}

/// Undoes the luma-chroma step of a YCCK file as libjpeg does; its C, M and Y are 255 minus R, G and B.
fn ycck_to_cmyk(ycck: &[u8]) -> Vec<u8> {
    let mut cmyk = Vec::with_capacity(ycck.len());
    for pixel in ycck.chunks_exact(4) {
        let y = i32::from(pixel[0]);
        let (cb, cr) = (i32::from(pixel[1]) - 128, i32::from(pixel[2]) - 128);
        let rgb = [
            y + ((91_881 * cr + 32_768) >> 16),
            y + ((-22_554 * cb - 46_802 * cr + 32_768) >> 16),
            y + ((116_130 * cb + 32_768) >> 16),
        ];
        cmyk.extend(rgb.map(|v| 255 - v.clamp(0, 255) as u8));
        cmyk.push(pixel[3]);
    }
    cmyk
}
