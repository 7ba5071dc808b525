//! `solarize`: samples above a threshold mirrored down from it. Film exposed twice, a wrong tone curve. Nothing random.
//!
//! Row: `[threshold]`, a grey level.

use flipcast_images::Image;

use crate::blocks::pixels::{map_bytes, round_to_byte};
use crate::job::Job;

fn apply(image: &Image, threshold: f64) -> Image {
    map_bytes(image, |byte| {
        let level = f64::from(byte);
        round_to_byte(level.min(2.0 * threshold - level) as f32)
    })
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bright_samples_are_mirrored() {
        let image = Image::new(1, 1, vec![199, 200, 255]).expect("1 x 1");
        assert_eq!(apply(&image, 200.0).rgb(), [199, 200, 145]);
        assert_eq!(apply(&image, 100.0).rgb(), [1, 0, 0]);
    }
}
