//! `inverse_sparkles`: white everywhere but near one star.

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::blocks::rays::Star;
use crate::job::Job;
use crate::rng::CounterRng;

/// The star.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Row and column of the centre.
    pub centre: [f64; 2],
    /// A normal value per ray.
    pub ray_normals: Vec<f64>,
}

/// Draws the centre, the number of rays and the rays.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let centre = [image.height(), image.width()].map(|n| rng.uniform_in(0.25, 0.75) * n as f64);
    let rays = 50 + rng.below(150);
    Field { centre, ray_normals: (0..rays).map(|_| rng.normal()).collect() }
}

/// Whitens all but the star.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let radius = 0.25 * side(image);
    let lengths = field.ray_normals.iter().map(|n| radius + 0.25 * radius * n).collect();
    let star = Star { centre: field.centre, lengths };
    let amount = 100.0 - level.of(65.0);
    let power = (100.0 - amount) / 50.0;
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let shine = star.falloff(y as f64, x as f64, power);
            rgb.extend(pixel.iter().map(|&byte| (255.0 + shine * (f64::from(byte) - 255.0)) as u8));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
