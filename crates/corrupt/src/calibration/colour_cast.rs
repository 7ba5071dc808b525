//! `colour_cast`: each channel times a gain of its own. A wrong white balance, coloured light.
//!
//! Row: `[strength]`: the gains are `1 + strength * cos(angle + channel * 120 degrees)` with a random angle; their mean is 1.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::colour_matrix::mix_channels;
use crate::job::Job;

fn apply(image: &Image, strength: f64, angle: f64) -> Image {
    let gain = |channel: f64| (1.0 + strength * (angle + channel * TAU / 3.0).cos()) as f32;
    let [red, green, blue] = [0.0, 1.0, 2.0].map(gain);
    mix_channels(image, [[red, 0.0, 0.0], [0.0, green, 0.0], [0.0, 0.0, blue]])
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let angle = job.rng.uniform_in(0.0, TAU);
    apply(job.image, job.row[0], angle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_light_brightens_red_and_dims_the_others_alike() {
        let image = Image::new(2, 1, vec![100, 100, 100, 200, 40, 0]).expect("2 x 1");
        assert_eq!(apply(&image, 0.5, 0.0).rgb(), [150, 75, 75, 255, 30, 0]);
        assert_eq!(apply(&image, 0.0, 1.0), image);
    }
}
