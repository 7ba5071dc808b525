//! JPEG files as the published sets store them: baseline, interleaved, halved chroma, Huffman tables of their own.

use flipcast_images::Image;

use super::colour::{Plane, split};
use super::dct;
use super::huffman::{Frequencies, HuffmanTable};
use super::quantiser::{ANNEX_K_CHROMA, ANNEX_K_LUMA, Quantiser};

/// An image that cannot be stored as a JPEG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeJpegError {
    /// A side is empty or longer than the format allows.
    #[error("image of {width} x {height} pixels found, but sides of 1 to 65535 expected")]
    BadSize {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
    },
}

/// Position in a row-by-row block of the coefficients in the order of the file.
pub(super) const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// `image` as a JPEG file of `quality`. The reference library decodes it to exactly the pixels of
/// [`round_trip`](super::round_trip).
pub fn encode(image: &Image, quality: u8) -> Result<Vec<u8>, EncodeJpegError> {
    let (width, height) = (image.width(), image.height());
    let short = |side: usize| u16::try_from(side).ok().filter(|&side| side > 0);
    let (Some(short_width), Some(short_height)) = (short(width), short(height)) else {
        return Err(EncodeJpegError::BadSize { width, height });
    };
    let quantisers = [Quantiser::new(&ANNEX_K_LUMA, quality), Quantiser::new(&ANNEX_K_CHROMA, quality)];
    let blocks = coded_blocks(&split(image), &quantisers);
    let tables = optimal_tables(&blocks);
    let mut file = vec![0xff, 0xd8];
    segment(&mut file, 0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    for (slot, quantiser) in (0..).zip(&quantisers) {
        let mut body = vec![slot];
        body.extend(ZIGZAG.iter().map(|&i| quantiser.steps()[i] as u8));
        segment(&mut file, 0xdb, &body);
    }
    let mut frame = vec![8];
    frame.extend(short_height.to_be_bytes());
    frame.extend(short_width.to_be_bytes());
    frame.extend([3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
    segment(&mut file, 0xc0, &frame);
    for (slot, table) in [0x00, 0x10, 0x01, 0x11].into_iter().zip(&tables) {
        let mut body = vec![slot];
        body.extend(table.lengths);
        body.extend(&table.symbols);
        segment(&mut file, 0xc4, &body);
    }
    segment(&mut file, 0xda, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
    let mut bits = BitWriter { file, held: 0, count: 0 };
    for block in &blocks {
        let slot = 2 * usize::from(block.chroma);
        block.symbols(|symbol, extra, length, kind| {
            let (code, code_length) = tables[slot + kind].code(symbol);
            bits.put(u32::from(code), code_length);
            bits.put(extra, length);
        });
    }
    let mut file = bits.finish();
    file.extend([0xff, 0xd9]);
    Ok(file)
}

fn segment(file: &mut Vec<u8>, marker: u8, body: &[u8]) {
    let length = u16::try_from(body.len() + 2).expect("segments made here are short");
    file.extend([0xff, marker]);
    file.extend(length.to_be_bytes());
    file.extend(body);
}

/// A quantised block in file order; the first value is the difference to the block before.
struct CodedBlock {
    levels: [i32; 64],
    chroma: bool,
}

const FIRST: usize = 0;
const REST: usize = 1;

impl CodedBlock {
    /// Hands every symbol, its extra bits, their number and its table (first or rest) to `emit`.
    fn symbols(&self, mut emit: impl FnMut(u8, u32, u8, usize)) {
        let (extra, length) = magnitude(self.levels[0]);
        emit(length, extra, length, FIRST);
        let mut zeros = 0;
        for &level in &self.levels[1..] {
            if level == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 {
                emit(0xf0, 0, 0, REST);
                zeros -= 16;
            }
            let (extra, length) = magnitude(level);
            emit(zeros << 4 | length, extra, length, REST);
            zeros = 0;
        }
        if zeros > 0 {
            emit(0, 0, 0, REST);
        }
    }
}

/// The extra bits of a value and their number; negative values count down from all ones.
fn magnitude(value: i32) -> (u32, u8) {
    let length = (32 - value.unsigned_abs().leading_zeros()) as u8;
    let bits = if value < 0 { value - 1 } else { value };
    (bits as u32 & ((1 << length) - 1), length)
}

/// The blocks in the order of the file: four of luma, one of each chroma plane, square by square.
///
/// A square that reaches beyond a plane is filled with blocks that repeat the mean of the block before.
fn coded_blocks(planes: &[Plane; 3], quantisers: &[Quantiser<1>; 2]) -> Vec<CodedBlock> {
    let [luma, blue, red] = planes;
    let (across, down) = (luma.width.div_ceil(16), luma.height.div_ceil(16));
    let mut previous = [0; 3];
    let mut blocks = Vec::with_capacity(6 * across * down);
    for square in 0..across * down {
        let (row, column) = (square / across, square % across);
        let places = [0, 1, 2, 3].map(|i| (luma, 0, 2 * row + i / 2, 2 * column + i % 2));
        for (plane, component, block_row, block_column) in
            places.into_iter().chain([(blue, 1, row, column), (red, 2, row, column)])
        {
            let chroma = component > 0;
            let mut levels = [0; 64];
            let inside = block_row < plane.height.div_ceil(8) && block_column < plane.width.div_ceil(8);
            if inside {
                levels = quantised(plane, block_row, block_column, &quantisers[usize::from(chroma)]);
                let mean = levels[0];
                levels[0] -= previous[component];
                previous[component] = mean;
            }
            blocks.push(CodedBlock { levels, chroma });
        }
    }
    blocks
}

fn quantised(plane: &Plane, block_row: usize, block_column: usize, quantiser: &Quantiser<1>) -> [i32; 64] {
    let mut block = [[0]; 64];
    for row in 0..8 {
        let line = &plane.row(8 * block_row + row)[8 * block_column..];
        for (column, &sample) in line.iter().take(8).enumerate() {
            block[8 * column + row] = [i32::from(sample)];
        }
    }
    dct::forward(&mut block);
    quantiser.quantise(&mut block);
    ZIGZAG.map(|i| block[8 * (i % 8) + i / 8][0] / quantiser.steps()[i])
}

/// Tables for luma (first, rest) and chroma (first, rest).
fn optimal_tables(blocks: &[CodedBlock]) -> [HuffmanTable; 4] {
    let mut frequencies: [Frequencies; 4] = std::array::from_fn(|_| Frequencies::new());
    for block in blocks {
        let slot = 2 * usize::from(block.chroma);
        block.symbols(|symbol, _, _, kind| frequencies[slot + kind].count(symbol));
    }
    frequencies.map(|counted| HuffmanTable::optimal(&counted))
}

/// Bits from the highest on; a byte of all ones is followed by a zero byte.
struct BitWriter {
    file: Vec<u8>,
    held: u64,
    count: u8,
}

impl BitWriter {
    #[inline]
    fn put(&mut self, bits: u32, length: u8) {
        self.held = self.held << length | u64::from(bits);
        self.count += length;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.file.push(byte);
            if byte == 0xff {
                self.file.push(0);
            }
        }
    }

    /// Fills the last byte with ones.
    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            let missing = 8 - self.count;
            self.put((1 << missing) - 1, missing);
        }
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_follow_the_standard() {
        assert_eq!(magnitude(0), (0, 0));
        assert_eq!(magnitude(1), (1, 1));
        assert_eq!(magnitude(-1), (0, 1));
        assert_eq!(magnitude(5), (5, 3));
        assert_eq!(magnitude(-5), (2, 3));
    }

    #[test]
    fn sides_beyond_the_format_are_refused() {
        let long = Image::new(65_536, 1, vec![0; 3 * 65_536]).expect("sizes match");
        assert_eq!(encode(&long, 85), Err(EncodeJpegError::BadSize { width: 65_536, height: 1 }));
        let empty = Image::new(0, 0, Vec::new()).expect("no pixels");
        assert!(encode(&empty, 85).is_err());
    }
}
