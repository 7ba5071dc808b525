//! `sparkles`: five white stars, one after the other.

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::blocks::rays::Star;
use crate::job::Job;
use crate::rng::CounterRng;

/// The stars.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Row and column of each centre.
    pub centres: Vec<[f64; 2]>,
    /// A normal value per ray of each star.
    pub ray_normals: Vec<Vec<f64>>,
}

/// Draws five centres, then the number of rays and the rays of each.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let centres = (0..5)
        .map(|_| [rng.uniform_in(0.0, image.height() as f64), rng.uniform_in(0.0, image.width() as f64)])
        .collect();
    let ray_normals = (0..5)
        .map(|_| {
            let rays = 50 + rng.below(150);
            (0..rays).map(|_| rng.normal()).collect()
        })
        .collect();
    Field { centres, ray_normals }
}

/// Lights the stars. Values pass through single precision between two stars, as published.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let radius = level.of(0.1) * side(image);
    let stars: Vec<Star> = field
        .centres
        .iter()
        .zip(&field.ray_normals)
        .map(|(&centre, normals)| {
            let lengths = normals.iter().map(|n| (radius + 0.25 * radius * n).max(1.0)).collect();
            Star { centre, lengths }
        })
        .collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let mut colour: [f64; 3] = std::array::from_fn(|channel| f64::from(pixel[channel]));
            for star in &stars {
                let shine = star.falloff(y as f64, x as f64, 1.0);
                colour = colour.map(|v| f64::from(v as f32)).map(|v| v + shine * (255.0 - v));
            }
            rgb.extend(colour.map(|v| v as u8));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
