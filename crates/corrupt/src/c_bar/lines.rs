//! `lines`: anti-aliased grey lines in similar directions.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Radians.
    pub angle: f64,
    /// Share of a turn by which directions differ.
    pub angle_variation: f64,
    /// Three uniform values per line: row, column, direction.
    pub uniform: Vec<[f64; 3]>,
}

/// Draws the direction, its variation and as many lines as the side has pixels.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let (angle, angle_variation) = (rng.uniform_in(0.0, TAU), rng.uniform_in(0.1, 1.0));
    let lines = side(image) as usize;
    let uniform = (0..lines).map(|_| std::array::from_fn(|_| rng.uniform())).collect();
    Field { angle, angle_variation, uniform }
}

/// Draws the first lines of the field, as many as the severity says.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let (width, height) = (image.width(), image.height());
    let length = width.max(height) as f64;
    let mut rgb = image.rgb().to_vec();
    let count = (level.of(1.0) * side(image)) as usize;
    for [down, across, turn] in field.uniform.iter().take(count) {
        let angle = field.angle + TAU * field.angle_variation * (turn - 0.5);
        let (row, column) = (height as f64 * down, width as f64 * across);
        let (dy, dx) = (angle.cos() * length, angle.sin() * length);
        let start = [(row - dy) as i64, (column - dx) as i64];
        let end = [(row + dy) as i64, (column + dx) as i64];
        // A line reads the picture as it was before that line; of two visits to a pixel the later counts.
        let mut changed = Vec::new();
        draw_line(start, end, |y, x, coverage| {
            let inside = (0..height as i64).contains(&y) && (0..width as i64).contains(&x);
            if inside {
                let place = 3 * (y as usize * width + x as usize);
                let blend = |byte: u8| ((1.0 - coverage) * f64::from(byte) + coverage * 128.0) as u8;
                changed.push((place, [0, 1, 2].map(|channel| blend(rgb[place + channel]))));
            }
        });
        for (place, colour) in changed {
            rgb[place..place + 3].copy_from_slice(&colour);
        }
    }
    with_size_of(image, rgb)
}

/// An anti-aliased line of one pixel's width: `plot` gets row, column and coverage.
///
/// Bresenham's line; the error of each step is the distance to the true line, and every step also covers the
/// neighbours on both sides.
fn draw_line([mut y, mut x]: [i64; 2], [end_y, end_x]: [i64; 2], mut plot: impl FnMut(i64, i64, f64)) {
    let (dy, dx) = ((y - end_y).abs(), (x - end_x).abs());
    let (sign_y, sign_x) = (if y < end_y { 1 } else { -1 }, if x < end_x { 1 } else { -1 });
    let mut error = dx - dy;
    let length = if dx + dy == 0 { 1.0 } else { ((dx * dx + dy * dy) as f64).sqrt() };
    loop {
        plot(y, x, 1.0 - (error - dx + dy).abs() as f64 / length);
        let (before, last_x) = (error, x);
        if 2 * before >= -dx {
            if x == end_x {
                break;
            }
            if ((before + dy) as f64) < length {
                plot(y + sign_y, x, 1.0 - (before + dy).abs() as f64 / length);
            }
            error -= dy;
            x += sign_x;
        }
        if 2 * before <= dy {
            if y == end_y {
                break;
            }
            if ((dx - before) as f64) < length {
                plot(y, last_x + sign_x, 1.0 - (dx - before).abs() as f64 / length);
            }
            error += dx;
            y += sign_y;
        }
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
