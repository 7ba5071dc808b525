//! `plasma_noise`: blends in a swirling pattern of sines.

use std::f64::consts::PI;

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Where the animation stands.
    pub time: f64,
    /// Layers of swirls.
    pub iterations: u32,
    /// How slowly the layers fade.
    pub sharpness: f64,
    /// Size of the largest swirls in pixels.
    pub scale: f64,
}

/// Draws time, iterations, sharpness and scale.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    Field {
        time: rng.uniform_in(0.0, 6.0 * PI),
        iterations: 4 + rng.below(3),
        sharpness: rng.uniform_in(0.5, 1.0),
        scale: rng.uniform_in(0.075, 0.2) * side(image),
    }
}

/// Blends in the pattern.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let amount = level.of(64.0);
    let keep = 1.0 - amount / 255.0;
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let noise = field.colour(x as f64, y as f64);
            rgb.extend(pixel.iter().zip(noise).map(|(&byte, noise)| (keep * f64::from(byte) + amount * noise) as u8));
        }
    }
    with_size_of(image, rgb)
}

impl Field {
    /// The pattern's colour at a pixel, -1 to 1.
    fn colour(&self, x: f64, y: f64) -> [f64; 3] {
        let (mut x, mut y, time) = (x / self.scale, y / self.scale, self.time);
        let (mut frequency, mut slow, mut damping) = (1.0, 1.0, 1.0);
        for _ in 0..self.iterations {
            let a = (y * frequency + time / slow).cos() / damping;
            let b = (x * frequency + time / slow).sin() / damping;
            x += a - 0.3 * b;
            y += b + 0.3 * a;
            frequency *= 1.93;
            slow *= 1.15;
            damping *= 2.25 - self.sharpness;
        }
        [(x - time).sin(), ((x + y + time.sin()) * 0.5).sin(), (y + time).sin()]
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
