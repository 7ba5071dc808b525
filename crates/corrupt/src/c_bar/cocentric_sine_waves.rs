//! `cocentric_sine_waves`: adds a sawtooth of bent rings around a random centre.

use flipcast_images::Image;

use super::level::{Level, add, side};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The rings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Column and row of the centre.
    pub centre: [f64; 2],
    /// Bends per turn.
    pub frequency: f64,
    /// Size of the bends in pixels.
    pub amplitude: f64,
    /// Width of a ring in pixels.
    pub ring_width: f64,
}

/// Draws the centre, the frequency, the amplitude and the width.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let centre = [rng.uniform_in(0.0, image.width() as f64), rng.uniform_in(0.0, image.height() as f64)];
    let tenth = side(image) / 10.0;
    Field {
        centre,
        frequency: rng.uniform_in(0.0, 10.0),
        amplitude: rng.uniform_in(0.0, tenth),
        ring_width: rng.uniform_in(0.0, tenth),
    }
}

/// Adds the rings.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let strength = level.of(128.0);
    let rgb = add(image, |y, x| {
        let (dx, dy) = (x - field.centre[0], y - field.centre[1]);
        // Columns come first in the angle, as published.
        let bend = (dx.atan2(dy) * field.frequency).sin() * field.amplitude;
        let radius = (dx * dx + dy * dy).sqrt() + bend;
        let saw = radius.rem_euclid(field.ring_width) / field.ring_width - 0.5;
        [strength * saw; 3]
    });
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
