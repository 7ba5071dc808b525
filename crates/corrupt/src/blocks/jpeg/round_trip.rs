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

/// Sends every block of `plane` through the DCT, the quantiser and back.
#[multiversion(targets("x86_64+avx2+fma"))]
fn compress(plane: &mut Plane, quantiser: &Quantiser<LANES>) {
    let across = plane.stride / 8;
    let rows_of_blocks = plane.samples.as_chunks_mut::<8>().0;
    let mut starts: Vec<usize> = Vec::with_capacity(rows_of_blocks.len() / 8 + LANES);
    for band in (0..rows_of_blocks.len()).step_by(8 * across) {
        starts.extend(band..band + across);
    }
    // The last group repeats its last block, which then gets the same samples more than once.
    while let (Some(&last), false) = (starts.last(), starts.len().is_multiple_of(LANES)) {
        starts.push(last);
    }
    for starts in starts.as_chunks().0 {
        let mut blocks = gather(rows_of_blocks, across, starts);
        dct::forward(&mut blocks);
        quantiser.quantise(&mut blocks);
        dct::inverse(&mut blocks);
        scatter(rows_of_blocks, across, starts, &blocks);
    }
}

/// The blocks that start at `starts`, one per lane, column by column.
#[inline(always)]
fn gather(rows: &[[u8; 8]], across: usize, starts: &[usize; LANES]) -> [[i32; LANES]; 64] {
    let mut words = [[0; 8]; LANES];
    for (word, &start) in words.iter_mut().zip(starts) {
        for (row, slot) in word.iter_mut().enumerate() {
            *slot = u64::from_le_bytes(rows[start + row * across]);
        }
    }
    transpose_bytes(&mut words);
    let mut bytes = [[0; LANES]; 64];
    for (lanes, word) in bytes.iter_mut().zip(words.as_flattened()) {
        *lanes = word.to_le_bytes();
    }
    let mut blocks = [[0; LANES]; 64];
    let levels = blocks.as_flattened_mut().iter_mut();
    for (level, &sample) in levels.zip(bytes.as_flattened()) {
        *level = i32::from(sample);
    }
    blocks
}

/// The reverse of [`gather`].
#[inline(always)]
fn scatter(
    rows: &mut [[u8; 8]],
    across: usize,
    starts: &[usize; LANES],
    blocks: &[[i32; LANES]; 64],
) {
    let mut bytes = [[0; LANES]; 64];
    let levels = blocks.as_flattened().iter();
    for (sample, &level) in bytes.as_flattened_mut().iter_mut().zip(levels) {
        *sample = level.clamp(0, 255) as u8;
    }
    let mut words = [[0; 8]; LANES];
    for (word, lanes) in words.as_flattened_mut().iter_mut().zip(&bytes) {
        *word = u64::from_le_bytes(*lanes);
    }
    transpose_bytes(&mut words);
    for (word, &start) in words.iter().zip(starts) {
        for (row, value) in word.iter().enumerate() {
            rows[start + row * across] = value.to_le_bytes();
        }
    }
}

/// For each of the eight positions inside: swaps byte `j` of word `i` with byte `i` of word `j`.
#[inline(always)]
fn transpose_bytes(words: &mut [[u64; 8]; LANES]) {
    swap_bytes::<4>(words, 0x0000_0000_ffff_ffff);
    swap_bytes::<2>(words, 0x0000_ffff_0000_ffff);
    swap_bytes::<1>(words, 0x00ff_00ff_00ff_00ff);
}

/// Swaps the bytes of words `DISTANCE` apart that lie `DISTANCE` off the diagonal; `low_bytes` marks the lower ones.
#[inline(always)]
fn swap_bytes<const DISTANCE: usize>(words: &mut [[u64; 8]; LANES], low_bytes: u64) {
    for i in (0..LANES).filter(|i| i & DISTANCE == 0) {
        let (low, high) = (words[i], words[i + DISTANCE]);
        let swapped: [u64; 8] =
            std::array::from_fn(|k| (low[k] >> (8 * DISTANCE) ^ high[k]) & low_bytes);
        words[i] = std::array::from_fn(|k| low[k] ^ swapped[k] << (8 * DISTANCE));
        words[i + DISTANCE] = std::array::from_fn(|k| high[k] ^ swapped[k]);
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
            image
                .rgb()
                .iter()
                .zip(after.rgb())
                .map(|(a, b)| u64::from(a.abs_diff(*b)))
                .sum()
        };
        assert!(distance(100) < distance(50) && distance(50) < distance(5));
    }

    #[test]
    fn sizes_that_are_no_multiple_of_a_block_work() {
        for (width, height) in [(1, 1), (3, 2), (9, 17), (33, 15)] {
            let image =
                Image::new(width, height, vec![200; 3 * width * height]).expect("sizes match");
            let after = round_trip(&image, 30);
            assert_eq!((after.width(), after.height()), (width, height));
        }
    }
}
