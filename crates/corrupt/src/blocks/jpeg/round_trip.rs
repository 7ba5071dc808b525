//! JPEG without a file: exactly the pixels that encoding and decoding would give.

use flipcast_images::Image;

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

/// Sends every block of `plane` through the DCT, the quantiser and back.
fn compress(plane: &mut Plane, quantiser: &Quantiser) {
    let stride = plane.stride;
    for band in plane.samples.chunks_exact_mut(8 * stride) {
        for left in (0..stride).step_by(8) {
            let mut block = [0; 64];
            for (row, line) in block
                .as_chunks_mut::<8>()
                .0
                .iter_mut()
                .zip(band.chunks_exact(stride))
            {
                if let Some(samples) = line[left..].first_chunk::<8>() {
                    *row = samples.map(|sample| i32::from(sample) - 128);
                }
            }
            dct::forward(&mut block);
            quantiser.quantise(&mut block);
            if block[1..].iter().all(|&level| level == 0) {
                // What the inverse gives for a mean alone.
                block = [(block[0] + 4) >> 3; 64];
            } else {
                dct::inverse(&mut block);
            }
            for (row, line) in block
                .as_chunks::<8>()
                .0
                .iter()
                .zip(band.chunks_exact_mut(stride))
            {
                if let Some(samples) = line[left..].first_chunk_mut::<8>() {
                    *samples = row.map(|value| (value + 128).clamp(0, 255) as u8);
                }
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
