//! `brownish_noise`: adds noise whose spectrum falls with the square of the frequency, one plane per channel.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::level::Level;
use crate::blocks::fourier_noise::fourier_noise;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The phases of half the spectrum of each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Rows of `width.div_ceil(2)` angles.
    pub phases: [Vec<f64>; 3],
}

/// Draws the phases, channel by channel.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let count = image.height() * image.width().div_ceil(2);
    Field { phases: std::array::from_fn(|_| (0..count).map(|_| rng.uniform_in(0.0, TAU)).collect()) }
}

/// Adds the noise.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let strength = level.of(64.0);
    let mut rgb = image.rgb().to_vec();
    for (channel, phases) in field.phases.iter().enumerate() {
        let noise = fourier_noise(phases, image.width(), image.height(), |r| 1.0 / (r * r + 1.0));
        for (byte, noise) in rgb.iter_mut().skip(channel).step_by(3).zip(&noise) {
            *byte = (f64::from(*byte) + strength * noise) as u8;
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
