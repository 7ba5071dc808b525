//! `colour_depth`: few levels per channel. A palette, a posterised print. Nothing random.
//!
//! Row: `[levels]`, at least 2.

use flipcast_images::Image;

use crate::blocks::pixels::{map_bytes, round_to_byte};
use crate::job::Job;

fn apply(image: &Image, levels: f64) -> Image {
    let step = 255.0 / (levels - 1.0);
    map_bytes(image, |byte| round_to_byte(((f64::from(byte) / step).round() * step) as f32))
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_are_black_and_white() {
        let image = Image::new(2, 1, vec![0, 100, 127, 128, 200, 255]).expect("2 x 1");
        assert_eq!(apply(&image, 2.0).rgb(), [0, 0, 0, 255, 255, 255]);
        assert_eq!(apply(&image, 6.0).rgb(), [0, 102, 102, 153, 204, 255]);
        assert_eq!(apply(&image, 256.0), image);
    }
}
