//! `checkerboard_cutout`: greys out random cells of a turned checkerboard.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The board.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Radians.
    pub angle: f64,
    /// Side of a cell in pixels.
    pub scale: f64,
    /// Cells each way.
    pub cells: usize,
    /// A uniform value per cell, row by row.
    pub uniform: Vec<f64>,
}

/// Draws the angle, the scale and the cells.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let angle = rng.uniform_in(0.0, TAU);
    let scale = (rng.uniform_in(0.1, 0.25) * side(image)).max(1.0);
    let longer = image.width().max(image.height()) as f64;
    let cells = (4.0 * longer / scale) as usize;
    Field { angle, scale, cells, uniform: (0..cells * cells).map(|_| rng.uniform()).collect() }
}

/// Greys out the open cells.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let open = level.of(1.0);
    let (sin, cos) = field.angle.sin_cos();
    let cells = field.cells as i64;
    let mut rgb = image.rgb().to_vec();
    for (i, pixel) in rgb.chunks_exact_mut(3).enumerate() {
        let (y, x) = ((i / image.width()) as f64, (i % image.width()) as f64);
        let (u, v) = ((cos * y + sin * x) / field.scale, (-sin * y + cos * x) / field.scale);
        if u.rem_euclid(2.0) as u8 != v.rem_euclid(2.0) as u8 {
            continue;
        }
        // Coordinates are cut towards zero; negative cells count from the end of the board.
        let (row, column) = ((u as i64).rem_euclid(cells), (v as i64).rem_euclid(cells));
        if field.uniform[(row * cells + column) as usize] < open {
            pixel.fill(128);
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
