use ::gif::{ColorOutput, DecodeOptions as GifOptions, DecodingError, MemoryLimit};

use super::format::Decoded;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut options = GifOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options
        .set_memory_limit(MemoryLimit::Bytes(limits.max_pixels.max(1).try_into().unwrap_or(std::num::NonZeroU64::MAX)));
    let mut decoder = options.read_info(bytes).map_err(|e| refuse(&e, bytes))?;
    let screen = (u64::from(decoder.width()), u64::from(decoder.height()));
    let global = decoder.global_palette().map(<[u8]>::to_vec);
    let frame = decoder
        .read_next_frame()
        .map_err(|e| refuse(&e, bytes))?
        .ok_or(DecodeError::Truncated { format: Format::Gif, found: bytes.len() })?;

    // Pillow grows the screen to hold the first frame.
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (frame_w, frame_h) = (usize::from(frame.width), usize::from(frame.height));
    let right = screen.0.max((left + frame_w) as u64);
    let bottom = screen.1.max((top + frame_h) as u64);
    let (width, height) = limits.check(Format::Gif, right, bottom)?;

    let palette = frame.palette.as_deref().or(global.as_deref());
    let colour = |index: u8| -> [u8; 3] {
        match palette {
            Some(p) => {
                let at = 3 * usize::from(index);
                p.get(at..at + 3).map_or([0; 3], |c| [c[0], c[1], c[2]])
            }
            // Without a palette the indices are grey levels.
            None => [index; 3],
        }
    };
    // What the frame leaves uncovered shows the transparent index, or index 0.
    let background = colour(frame.transparent.unwrap_or(0));
    let mut rgb = background.repeat(width * height);
    for (y, row) in frame.buffer.chunks_exact(frame_w.max(1)).enumerate() {
        for (x, &index) in row.iter().enumerate() {
            let at = 3 * ((top + y) * width + left + x);
            rgb[at..at + 3].copy_from_slice(&colour(index));
        }
    }
    let image = Image::new(width, height, rgb).expect("the buffer was sized from width and height");
    Ok(Decoded { image, orientation: Orientation::Upright })
}

fn refuse(error: &DecodingError, bytes: &[u8]) -> DecodeError {
    let format = Format::Gif;
    match error {
        DecodingError::UnexpectedEof => DecodeError::Truncated { format, found: bytes.len() },
        other => DecodeError::Damaged { format, reason: other.to_string() },
    }
}
