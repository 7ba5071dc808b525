//! JPEG without a file: exactly the pixels that encoding and decoding would give.

use flipcast_images::Image;
use multiversion::multiversion;

use super::colour::{Plane, merge, split};
use super::dct;
use super::quantiser::{ANNEX_K_CHROMA, ANNEX_K_LUMA, Quantiser};

/// `image` after JPEG compression at `quality` (1 to 100) with halved chroma, decoded again.
///
/// Entropy coding never changes a coefficient, so it is left out. Every step is the integer arithmetic of the reference
/// library, hence equal bytes.
pub fn round_trip(image: &Image, quality: u8) -> Image {
    let mut planes = split(image);
    let luma = Quantiser::new(&ANNEX_K_LUMA, quality);
    let chroma = Quantiser::new(&ANNEX_K_CHROMA, quality);
    for (plane, quantiser) in planes.iter_mut().zip([&luma, &chroma, &chroma]) {
        compress(plane, quantiser);
    }
    merge(&planes)
}

/// Blocks that go through the arithmetic side by side.
const LANES: usize = 8;

/// The left and the right four bytes of equal rows of neighbouring blocks.
type Halves = [[u32; LANES]; 2];

/// What is worked on, so placed that no vector crosses a cache line.
#[repr(align(64))]
struct Aligned<T>(T);

/// Sends every block of `plane` through the DCT, the quantiser and back.
#[multiversion(targets("x86_64+avx2+fma"))]
fn compress(plane: &mut Plane, quantiser: &Quantiser<LANES>) {
    let mut rows = plane.block_rows();
    let Aligned(halves) = &mut Aligned([[[0; LANES]; 2]; 8]);
    let Aligned(blocks) = &mut Aligned([[0; LANES]; 64]);
    for group in 0..rows[0].len() {
        for (halves, row) in halves.iter_mut().zip(&rows) {
            part(halves, &row[group]);
        }
        spread(blocks, halves);
        dct::forward(blocks);
        quantiser.quantise(blocks);
        dct::inverse(blocks);
        pack(halves, blocks);
        for (halves, row) in halves.iter().zip(&mut rows) {
            join(&mut row[group], halves);
        }
    }
}

/// Takes the words of a row apart.
#[inline(always)]
fn part(halves: &mut Halves, row: &[u8; 8 * LANES]) {
    for (lane, &word) in row.as_chunks().0.iter().enumerate() {
        let word = u64::from_le_bytes(word);
        halves[0][lane] = word as u32;
        halves[1][lane] = (word >> 32) as u32;
    }
}

/// The reverse of [`part`].
#[inline(always)]
fn join(row: &mut [u8; 8 * LANES], halves: &Halves) {
    for (lane, word) in row.as_chunks_mut().0.iter_mut().enumerate() {
        let joined = u64::from(halves[0][lane]) | u64::from(halves[1][lane]) << 32;
        *word = joined.to_le_bytes();
    }
}

/// Puts every byte in a place of its own, column by column.
#[inline(always)]
fn spread(blocks: &mut [[i32; LANES]; 64], rows: &[Halves; 8]) {
    for (row, halves) in rows.iter().enumerate() {
        for column in 0..8 {
            for lane in 0..LANES {
                let sample = halves[column / 4][lane] >> (8 * (column % 4)) & 255;
                blocks[8 * column + row][lane] = sample as i32;
            }
        }
    }
}

/// The reverse of [`spread`], with samples clipped to bytes.
///
/// Written so that compilers see one vector per row and half; with iterators they gather single values.
#[inline(always)]
fn pack(rows: &mut [Halves; 8], blocks: &[[i32; LANES]; 64]) {
    for row in 0..8 {
        for half in 0..2 {
            for lane in 0..LANES {
                let byte = |column: usize| blocks[8 * (4 * half + column) + row][lane].clamp(0, 255) as u32;
                rows[row][half][lane] = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_quality_stays_close_and_the_worst_does_not() {
        let rgb: Vec<u8> = (0..3 * 40 * 24).map(|i| (i * 7 % 256) as u8).collect();
        let image = Image::new(40, 24, rgb).expect("40 x 24");
        let distance = |quality| -> u64 {
            let after = round_trip(&image, quality);
            image.rgb().iter().zip(after.rgb()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum()
        };
        assert!(distance(100) < distance(50) && distance(50) < distance(5));
    }

    #[test]
    fn bytes_survive_being_spread_over_blocks() {
        let rows: [[u8; 64]; 8] = std::array::from_fn(|row| std::array::from_fn(|i| (row * 91 + i * 37) as u8));
        let (mut halves, mut blocks) = ([[[0; LANES]; 2]; 8], [[0; LANES]; 64]);
        for (halves, row) in halves.iter_mut().zip(&rows) {
            part(halves, row);
        }
        spread(&mut blocks, &halves);
        assert_eq!(blocks[8 * 3 + 6][5], i32::from(rows[6][8 * 5 + 3]));
        // Samples beyond a byte are clipped on the way back.
        let wide = blocks.map(|lanes| lanes.map(|v| 3 * v - 200));
        let clipped = rows.map(|row| row.map(|v| (3 * i32::from(v) - 200).clamp(0, 255) as u8));
        for (source, expected) in [(blocks, rows), (wide, clipped)] {
            pack(&mut halves, &source);
            for (halves, expected) in halves.iter().zip(&expected) {
                let mut row = [0; 64];
                join(&mut row, halves);
                assert_eq!(row, *expected);
            }
        }
    }

    #[test]
    fn sizes_that_are_no_multiple_of_a_block_work() {
        for (width, height) in [(1, 1), (3, 2), (9, 17), (33, 15)] {
            let image = Image::new(width, height, vec![200; 3 * width * height]).expect("sizes match");
            let after = round_trip(&image, 30);
            assert_eq!((after.width(), after.height()), (width, height));
        }
    }
}
