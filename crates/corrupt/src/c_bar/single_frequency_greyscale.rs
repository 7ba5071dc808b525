//! `single_frequency_greyscale`: adds one plane wave to all channels.

use std::f64::consts::{PI, TAU};

use flipcast_images::Image;

use super::level::{Level, add};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Radians per column and per row.
    pub frequency: [f64; 2],
    /// Radians.
    pub phase: f64,
}

/// Draws a frequency, a smaller one, which of them runs across, and the phase.
pub fn draw(rng: &mut CounterRng) -> Field {
    let larger = rng.uniform_in(-PI, PI);
    let smaller = rng.uniform_in(-larger.abs(), larger.abs());
    let frequency = if rng.below(2) == 0 { [larger, smaller] } else { [smaller, larger] };
    Field { frequency, phase: rng.uniform_in(0.0, TAU) }
}

/// Adds the wave.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let strength = level.of(196.0);
    let [across, down] = field.frequency;
    with_size_of(image, add(image, |y, x| [strength * (x * across + y * down + field.phase).sin(); 3]))
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng);
    apply(job.image, Level::from_row(job.row), &field)
}
