//! `pinch_and_twirl`: pinches and turns the disk inside every cell of a grid.
//!
//! Cells are worked on one after the other, column of cells first, and read the already changed image. The grid has 3
//! cells each way, or 5 from 128 pixels on (3 at 32 and 5 at 224 as published); pixels beyond the cells stay.

use std::f64::consts::{FRAC_PI_2, PI};

use flipcast_images::Image;

use super::level::Level;
use crate::blocks::bilinear::Samples;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// Which way each cell turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// 1 or -1 per cell, column of cells by column.
    pub signs: Vec<f64>,
}

/// The cells: side in pixels, cells across, cells down.
fn grid(image: &Image) -> (usize, usize, usize) {
    let side = image.width().min(image.height());
    let per_side = if side >= 128 { 5 } else { 3 };
    let cell = side / per_side;
    if cell == 0 {
        return (0, 0, 0);
    }
    let count = |n: usize| if n == side { per_side } else { n / cell };
    (cell, count(image.width()), count(image.height()))
}

/// Draws the signs.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let (_, across, down) = grid(image);
    Field { signs: (0..across * down).map(|_| if rng.below(2) == 0 { 1.0 } else { -1.0 }).collect() }
}

/// Pinches and turns every cell.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let (cell, across, down) = grid(image);
    let mut work: Vec<f32> = image.rgb().iter().map(|&byte| f32::from(byte)).collect();
    let cells = (0..across).flat_map(|i| (0..down).map(move |j| (i * cell, j * cell)));
    for ((left, top), &sign) in cells.zip(&field.signs) {
        let twist = Twist {
            radius: cell as f64 / 2.0,
            amount: level.of(0.4) + 0.1,
            turn: sign * level.of(FRAC_PI_2),
            centre: [top as f64 + cell as f64 / 2.0, left as f64 + cell as f64 / 2.0],
        };
        let samples = Samples::new(&work, image.width());
        let mut changed = Vec::with_capacity(3 * cell * cell);
        for y in top..top + cell {
            for x in left..left + cell {
                let [from_y, from_x] = twist.origin(y as f64, x as f64);
                changed.extend(samples.at(from_y, from_x).map(|v| v as f32));
            }
        }
        for (y, row) in (top..).zip(changed.chunks_exact(3 * cell)) {
            work[3 * (y * image.width() + left)..][..3 * cell].copy_from_slice(row);
        }
    }
    with_size_of(image, work.iter().map(|&v| v as u8).collect())
}

/// What happens inside one cell.
struct Twist {
    radius: f64,
    amount: f64,
    turn: f64,
    /// Row and column.
    centre: [f64; 2],
}

impl Twist {
    /// Where the pixel at (y, x) takes its colour from.
    fn origin(&self, y: f64, x: f64) -> [f64; 2] {
        let (dy, dx) = (y - self.centre[0], x - self.centre[1]);
        let distance = dy.hypot(dx);
        if distance > self.radius || distance < 0.0005 {
            return [y, x];
        }
        let d = distance / self.radius;
        let stretch = (PI * 0.5 * d).sin().powf(-self.amount);
        let (sin, cos) = (self.turn * (1.0 - d) * (1.0 - d)).sin_cos();
        [self.centre[0] + stretch * (dy * cos - dx * sin), self.centre[1] + stretch * (dy * sin + dx * cos)]
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
