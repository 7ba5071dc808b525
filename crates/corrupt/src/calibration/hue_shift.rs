//! `hue_shift`: all colours turned about the grey axis. Wrong colour profiles, swapped channels, coloured glass.
//!
//! Row: `[degrees]`, the largest angle; the angle drawn is at least 0.8 times as large, in either direction.

use flipcast_images::Image;

use super::colour_matrix::mix_channels;
use super::signed::draw_signed;
use crate::job::Job;

fn apply(image: &Image, degrees: f64) -> Image {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (third, skew) = ((1.0 - cos) / 3.0, sin / 3.0_f64.sqrt());
    let [own, next, last] = [cos + third, third - skew, third + skew].map(|share| share as f32);
    mix_channels(image, [[own, next, last], [last, own, next], [next, last, own]])
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let degrees = draw_signed(job.rng, job.row[0]);
    apply(job.image, degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_stays_and_a_third_of_a_turn_swaps_the_channels() {
        let greys = Image::new(256, 1, (0..=255).flat_map(|v| [v; 3]).collect()).expect("256 x 1");
        for degrees in [-170.0, 12.5, 90.0, 180.0] {
            assert_eq!(apply(&greys, degrees), greys, "{degrees}");
        }
        let image = Image::new(1, 1, vec![10, 60, 250]).expect("1 x 1");
        assert_eq!(apply(&image, 120.0).rgb(), [250, 10, 60]);
        assert_eq!(apply(&image, 0.0), image);
    }
}
