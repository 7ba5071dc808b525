//! `circular_motion_blur`: the weighted mean of 21 cubic-spline rotations about the centre. Nothing random.

use flipcast_images::Image;

use super::level::Level;
use crate::blocks::cubic_spline::{prefilter, rotate};
use crate::blocks::pixels::{to_unit_f32, with_size_of};
use crate::blocks::summation::pairwise_sum;
use crate::job::Job;

/// Blurs the image; black comes in from outside.
pub fn apply(image: &Image, level: Level) -> Image {
    let (width, height) = (image.width(), image.height());
    let positions: Vec<f64> = (0..21).map(|i| 2.0 * f64::from(i) / 20.0 - 1.0).collect();
    let weights: Vec<f64> = positions.iter().map(|p| (-2.0 * p * p).exp()).collect();
    let total = pairwise_sum(&weights) as f32;
    let unit = to_unit_f32(image);
    let mut rgb = vec![0; unit.len()];
    for channel in 0..3 {
        let mut plane: Vec<f64> = unit.iter().skip(channel).step_by(3).map(|&v| f64::from(v)).collect();
        prefilter(&mut plane, width, height);
        let mut sums = vec![0.0_f32; plane.len()];
        for (position, &weight) in positions.iter().zip(&weights) {
            rotate(&plane, width, height, position * level.of(15.0), |i, value| {
                sums[i] += weight as f32 * value as f32;
            });
        }
        for (byte, sum) in rgb.iter_mut().skip(channel).step_by(3).zip(&sums) {
            *byte = (sum / total * 255.0) as u8;
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, Level::from_row(job.row))
}
