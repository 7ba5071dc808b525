//! `film_grain`: coarse noise of brightness, strongest in middle tones. Fast film, a pushed exposure.
//!
//! Row: `[std]` of the grains in grey levels.

use flipcast_images::Image;

use super::colour_matrix::LUMA;
use crate::blocks::pixels::{round_to_byte, shorter_side, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// Grains along the shorter side.
const GRAINS: f64 = 24.0;
/// The share of the noise that black and white get.
const AT_THE_ENDS: f32 = 0.25;

/// A normal value per grain, row by row.
struct Grains {
    values: Vec<f32>,
    across: usize,
    /// Pixels from grain to grain.
    pitch: f64,
}

fn draw(rng: &mut CounterRng, image: &Image) -> Grains {
    let pitch = (shorter_side(image) / GRAINS).max(1.0);
    // One beyond the last, between which and its neighbour the last pixels lie.
    let along = |n: usize| (n as f64 / pitch).ceil() as usize + 1;
    let (across, down) = (along(image.width()), along(image.height()));
    Grains { values: (0..across * down).map(|_| rng.normal() as f32).collect(), across, pitch }
}

fn apply(image: &Image, std: f64, grains: &Grains) -> Image {
    let between = |at: usize| {
        let at = at as f64 / grains.pitch;
        (at as usize, at.fract() as f32)
    };
    let columns: Vec<(usize, f32)> = (0..image.width()).map(between).collect();
    let std = std as f32;
    let mut line = vec![0.0; grains.across];
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, pixels) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        let (row, fraction) = between(y);
        let (upper, lower) = grains.values[row * grains.across..].split_at(grains.across);
        for (value, (upper, lower)) in line.iter_mut().zip(upper.iter().zip(lower)) {
            *value = upper + fraction * (lower - upper);
        }
        for (pixel, &(column, fraction)) in pixels.as_chunks::<3>().0.iter().zip(&columns) {
            let noise = line[column] + fraction * (line[column + 1] - line[column]);
            let [r, g, b] = pixel.map(f32::from);
            let tone = (LUMA[0] * r + LUMA[1] * g + LUMA[2] * b) * (2.0 / 255.0) - 1.0;
            let added = std * noise * (1.0 - (1.0 - AT_THE_ENDS) * tone * tone);
            rgb.extend([r, g, b].map(|sample| round_to_byte(sample + added)));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let grains = draw(job.rng, job.image);
    apply(job.image, job.row[0], &grains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grains_fade_into_each_other_and_spare_the_ends() {
        let grains = Grains { values: vec![0.0, 1.0, 0.0, 1.0], across: 2, pitch: 2.0 };
        let middle = Image::new(2, 1, vec![128; 6]).expect("2 x 1");
        assert_eq!(apply(&middle, 20.0, &grains).rgb(), [128, 128, 128, 138, 138, 138]);
        let black = Image::new(2, 1, vec![0; 6]).expect("2 x 1");
        // A quarter of 20 * 0.5, which is 2.5.
        assert_eq!(apply(&black, 20.0, &grains).rgb(), [0, 0, 0, 3, 3, 3]);
    }
}
