//! `perlin_noise`: blends in haze made of gradient noise at five scales.
//!
//! The published code gets NaN from a table with a (0, 0) gradient; here such a gradient is drawn again.

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The tables of the noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// A permutation of 0 to 255.
    pub permutation: Vec<u8>,
    /// 256 unit vectors: row part, column part.
    pub gradients: Vec<[f64; 2]>,
}

/// Draws the gradients, then shuffles the permutation the published (slightly uneven) way.
pub fn draw(rng: &mut CounterRng) -> Field {
    let mut gradients = Vec::with_capacity(256);
    while gradients.len() < 256 {
        let [a, b]: [f64; 2] = std::array::from_fn(|_| (f64::from(rng.below(512)) - 256.0) / 256.0);
        let length = (a * a + b * b).sqrt();
        if length > 0.0 {
            gradients.push([a / length, b / length]);
        }
    }
    let mut permutation: Vec<u8> = (0..=255).collect();
    for i in (0..256).rev() {
        permutation.swap(i, rng.index(256));
    }
    Field { permutation, gradients }
}

/// Blends in the haze.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let share = level.of(0.5);
    let scale = 32.0 * side(image) / 224.0;
    let keep = (1.0 - share) as f32;
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let (down, across) = (y as f64 / scale, x as f64 / scale);
            let turbulence: f64 =
                [1.0, 2.0, 4.0, 8.0, 16.0].iter().map(|f| field.noise(f * down, f * across).abs() / f).sum();
            let haze = (0.5 * turbulence + 0.5).clamp(0.0, 1.0);
            rgb.extend(pixel.iter().map(|&byte| (f64::from(keep * f32::from(byte)) + 255.0 * share * haze) as u8));
        }
    }
    with_size_of(image, rgb)
}

impl Field {
    /// Gradient noise at a point, row first.
    fn noise(&self, down: f64, across: f64) -> f64 {
        // The published code shifts coordinates so that negative ones wrap; kept because it costs bits.
        let (down, across) = (down + 4096.0, across + 4096.0);
        let (row, column) = (down as usize % 256, across as usize % 256);
        let (fy, fx) = (down.fract(), across.fract());
        let permuted = |i: usize| usize::from(self.permutation[i % 256]);
        let (upper, lower) = (permuted(row), permuted(row + 1));
        let dot = |cell: usize, u: f64, v: f64| {
            let [a, b] = self.gradients[permuted(cell) % 256];
            u * a + v * b
        };
        let next = (column + 1) % 256;
        let (ease_y, ease_x) = (fy * fy * (3.0 - 2.0 * fy), fx * fx * (3.0 - 2.0 * fx));
        let (near, far) = (dot(upper + column, fy, fx), dot(lower + column, fy - 1.0, fx));
        let left = near + ease_y * (far - near);
        let (near, far) = (dot(upper + next, fy, fx - 1.0), dot(lower + next, fy - 1.0, fx - 1.0));
        let right = near + ease_y * (far - near);
        1.5 * (left + ease_x * (right - left))
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng);
    apply(job.image, Level::from_row(job.row), &field)
}
