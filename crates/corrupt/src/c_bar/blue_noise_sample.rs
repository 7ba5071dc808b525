//! `blue_noise_sample`: blackens the pixels where noise with a rising spectrum is low.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::level::Level;
use crate::blocks::fourier_noise::fourier_noise;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The phases of half the spectrum.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Rows of `width.div_ceil(2)` angles.
    pub phases: Vec<f64>,
}

/// Draws the phases.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let count = image.height() * image.width().div_ceil(2);
    Field { phases: (0..count).map(|_| rng.uniform_in(0.0, TAU)).collect() }
}

/// Blackens pixels.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let threshold = level.of(3.0) - 2.5;
    let noise = fourier_noise(&field.phases, image.width(), image.height(), |r| r);
    let mut rgb = image.rgb().to_vec();
    for (pixel, &noise) in rgb.chunks_exact_mut(3).zip(&noise) {
        // Undefined noise (a flat plane) is not kept either, as in the published comparison.
        let kept = noise > threshold;
        if !kept {
            pixel.fill(0);
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
