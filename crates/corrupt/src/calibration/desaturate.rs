//! `desaturate`: colours mixed with the grey of the same luma. Old prints, infrared and night cameras. Nothing random.
//!
//! Row: `[share]` of grey, 1 for none of the colour.

use flipcast_images::Image;

use super::colour_matrix::{LUMA, mix_channels};
use crate::job::Job;

fn apply(image: &Image, share: f64) -> Image {
    let (grey, kept) = (share as f32, 1.0 - share as f32);
    let matrix =
        std::array::from_fn(|to| std::array::from_fn(|from| grey * LUMA[from] + if from == to { kept } else { 0.0 }));
    mix_channels(image, matrix)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_the_luma_remains() {
        let image = Image::new(2, 1, vec![200, 100, 50, 77, 77, 77]).expect("2 x 1");
        // 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2.
        assert_eq!(apply(&image, 1.0).rgb(), [124, 124, 124, 77, 77, 77]);
        assert_eq!(apply(&image, 0.0), image);
    }
}
