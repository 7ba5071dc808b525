use super::format::Decoded;
use super::{DecodeError, Format, Limits, Orientation};
use crate::Image;

/// Length of the file header that precedes the information header.
const FILE_HEADER: usize = 14;
/// Compression codes.
const PLAIN: u32 = 0;
const RLE8: u32 = 1;
const RLE4: u32 = 2;
const BITFIELDS: u32 = 3;
const ALPHA_BITFIELDS: u32 = 6;

/// What the headers say about the pixels.
struct Header {
    width: usize,
    height: usize,
    top_down: bool,
    bits: usize,
    compression: u32,
    /// Colours of an indexed file.
    palette: Vec<[u8; 3]>,
    /// Red, green and blue bits of a 16 or 32 bit pixel.
    masks: [u32; 3],
    /// Where the pixels start.
    offset: usize,
}

pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let header = read_header(bytes, limits)?;
    let (width, height) = (header.width, header.height);
    let data = bytes.get(header.offset..).unwrap_or_default();
    let unrolled;
    let (rows, bits, stride) = match header.compression {
        RLE8 | RLE4 => {
            unrolled = unroll(data, &header).ok_or_else(|| truncated(bytes))?;
            (unrolled.as_slice(), 8, width)
        }
        // Rows are padded to four bytes; the padding of the last one may be missing.
        _ => (data, header.bits, (width * header.bits).div_ceil(32) * 4),
    };
    let used = (width * bits).div_ceil(8);
    let mut rgb = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        let stored = if header.top_down { y } else { height - 1 - y };
        let row = rows.get(stored * stride..stored * stride + used).ok_or_else(|| truncated(bytes))?;
        push_row(&mut rgb, row, bits, &header);
    }
    let image = Image::new(width, height, rgb).expect("every row pushed `width` pixels");
    Ok(Decoded { image, orientation: Orientation::Upright })
}

fn read_header(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    let u16_at = |at: usize| -> Result<u32, DecodeError> {
        let pair = bytes.get(at..at + 2).ok_or_else(|| truncated(bytes))?;
        Ok(u32::from(u16::from_le_bytes([pair[0], pair[1]])))
    };
    let u32_at = |at: usize| -> Result<u32, DecodeError> { Ok(u16_at(at)? | u16_at(at + 2)? << 16) };
    let info_len = u32_at(FILE_HEADER)?;
    let core = info_len == 12;
    if !core && !matches!(info_len, 40 | 52 | 56 | 64 | 108 | 124) {
        return Err(unsupported(format!("an information header of {info_len} bytes")));
    }
    let (width, height, bits) =
        if core { (u16_at(18)?, u16_at(20)?, u16_at(24)?) } else { (u32_at(18)?, u32_at(22)?, u16_at(28)?) };
    let top_down = !core && (height as i32) < 0;
    let height = if top_down { (height as i32).unsigned_abs() } else { height };
    let (width, height) = limits.check(Format::Bmp, width.into(), height.into())?;

    let compression = if core { PLAIN } else { u32_at(30)? };
    let fields = matches!(compression, BITFIELDS | ALPHA_BITFIELDS);
    match (compression, bits) {
        (PLAIN, 1 | 4 | 8 | 16 | 24 | 32) | (RLE8, 8) | (RLE4, 4) => {}
        (BITFIELDS | ALPHA_BITFIELDS, 16 | 32) => {}
        _ => {
            return Err(unsupported(format!("compression {compression} with {bits} bits a pixel")));
        }
    }
    let masks = match (fields, bits) {
        (true, _) => [u32_at(54)?, u32_at(58)?, u32_at(62)?],
        (false, 16) => [0x7C00, 0x03E0, 0x001F],
        _ => [0x00FF_0000, 0x0000_FF00, 0x0000_00FF],
    };
    // With the 40-byte header the masks follow it; longer headers contain them.
    let after = FILE_HEADER + info_len as usize + if fields && info_len == 40 { 12 } else { 0 };
    let palette = if bits <= 8 {
        let stored = if core { 0 } else { u32_at(46)? };
        let count = if stored == 0 { 1 << bits } else { stored.min(1 << bits) };
        let entry = if core { 3 } else { 4 };
        let colours = bytes.get(after..after + count as usize * entry).ok_or_else(|| truncated(bytes))?;
        colours.chunks_exact(entry).map(|c| [c[2], c[1], c[0]]).collect()
    } else {
        Vec::new()
    };
    Ok(Header {
        width,
        height,
        top_down,
        bits: bits as usize,
        compression,
        palette,
        masks,
        offset: u32_at(10)? as usize,
    })
}

fn push_row(rgb: &mut Vec<u8>, row: &[u8], bits: usize, header: &Header) {
    let width = header.width;
    match bits {
        1 | 4 | 8 => {
            for x in 0..width {
                let low = 8 - bits - (x * bits) % 8;
                let index = (row[x * bits / 8] >> low) & (0xFF >> (8 - bits));
                let colour = header.palette.get(usize::from(index)).copied();
                rgb.extend(colour.unwrap_or_default());
            }
        }
        24 => rgb.extend(row.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]])),
        _ => {
            for pixel in row.chunks_exact(bits / 8) {
                let value = pixel.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b));
                rgb.extend(header.masks.map(|mask| scaled(value, mask)));
            }
        }
    }
}

/// The bits of `value` under `mask`, stretched to a byte.
fn scaled(value: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let shift = mask.trailing_zeros();
    let (level, most) = (u64::from((value & mask) >> shift), u64::from(mask >> shift));
    (level * 255 / most) as u8
}

/// One byte a pixel from run-length coded data; `None` when the data ends early.
fn unroll(data: &[u8], header: &Header) -> Option<Vec<u8>> {
    let (width, height) = (header.width, header.height);
    let nibbles = header.compression == RLE4;
    let mut out = vec![0; width * height];
    let (mut x, mut y) = (0usize, 0usize);
    let mut put = |x: usize, y: usize, index: u8| {
        if x < width && y < height {
            out[y * width + x] = index;
        }
    };
    let pick = |byte: u8, i: usize| match (nibbles, i % 2) {
        (false, _) => byte,
        (true, 0) => byte >> 4,
        (true, _) => byte & 0x0F,
    };
    let mut at = 0;
    while y < height {
        let &[count, value] = data.get(at..at + 2)? else {
            return None;
        };
        at += 2;
        match (count, value) {
            (0, 0) => (x, y) = (0, y + 1),
            (0, 1) => break,
            (0, 2) => {
                let step = data.get(at..at + 2)?;
                at += 2;
                (x, y) = (x + usize::from(step[0]), y + usize::from(step[1]));
            }
            (0, literal) => {
                let literal = usize::from(literal);
                let len = if nibbles { literal.div_ceil(2) } else { literal };
                let run = data.get(at..at + len)?;
                for i in 0..literal {
                    put(x + i, y, pick(run[if nibbles { i / 2 } else { i }], i));
                }
                x += literal;
                at += len.next_multiple_of(2);
            }
            (count, value) => {
                for i in 0..usize::from(count) {
                    put(x + i, y, pick(value, i));
                }
                x += usize::from(count);
            }
        }
    }
    Some(out)
}

fn truncated(bytes: &[u8]) -> DecodeError {
    DecodeError::Truncated { format: Format::Bmp, found: bytes.len() }
}

fn unsupported(feature: String) -> DecodeError {
    DecodeError::Unsupported { format: Format::Bmp, feature }
}
