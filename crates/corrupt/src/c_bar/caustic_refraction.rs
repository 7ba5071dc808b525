//! `caustic_refraction`: the image seen through rippling water, with its light on top.

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::bilinear::Samples;
use crate::blocks::border::Border;
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish, to_unit_f32, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// The water.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Where the animation stands.
    pub time: f64,
    /// Size of the pattern in pixels.
    pub size: f64,
}

/// Draws time and size.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    Field { time: rng.uniform_in(0.5, 2.0), size: rng.uniform_in(0.75, 1.25) * side(image) }
}

/// Bends and lights the image.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let (width, height) = (image.width(), image.height());
    let light = field.light(width, height);
    let at = |y: isize, x: isize| {
        let inside = (0..height as isize).contains(&y) && (0..width as isize).contains(&x);
        if inside { light[y as usize * width + x as usize] } else { 0.0 }
    };
    let (reach, gain) = (level.of(0.5 * side(image)), level.of(2.0));
    let unit = to_unit_f32(image);
    let samples = Samples::new(&unit, width);
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for y in 0..height as isize {
        for x in 0..width as isize {
            let (down, across) = (at(y + 1, x) - at(y - 1, x), at(y, x + 1) - at(y, x - 1));
            let [shift_y, shift_x] = refraction(down, across).map(|v| (v * reach * 1000.0).round_ties_even() / 1000.0);
            let colour = samples.at(y as f64 + shift_y, x as f64 + shift_x);
            rgb.extend(colour.map(|v| finish(v + (down - across) * gain)));
        }
    }
    with_size_of(image, rgb)
}

/// How far a ray is bent (rows, columns) by a surface with these slopes; nothing where it is nearly flat.
fn refraction(down: f64, across: f64) -> [f64; 2] {
    let norm = (down * down + across * across + 1.0).sqrt();
    let (row, column, up) = (down / norm, across / norm, 1.0 / norm);
    if up >= 1.0 - 1e-3 {
        return [0.0; 2];
    }
    let inside = (up.acos().sin() / 4.0).asin();
    let pull = inside.cos() - inside.sin() * up / (row * row + column * column).sqrt();
    [row * pull, column * pull]
}

impl Field {
    /// The light on the ground, smoothed.
    fn light(&self, width: usize, height: usize) -> Vec<f64> {
        #[expect(clippy::approx_constant, reason = "the published constant, a little short of a full turn")]
        const TURN: f64 = 6.283_185_307_18;
        let place = |i: usize| (i as f64 / self.size).rem_euclid(1.0) * TURN - 250.0;
        let columns: Vec<f64> = (0..width).map(place).collect();
        let mut light = Vec::with_capacity(width * height);
        for q0 in (0..height).map(place) {
            light.extend(columns.iter().map(|&q1| self.brightness(q0, q1)));
        }
        let extent = Extent { height, width, channels: 1 };
        GaussianKernel::new(1.0, 4.0).filter(&light, extent, Border::HalfMirror)
    }

    fn brightness(&self, q0: f64, q1: f64) -> f64 {
        let (mut i0, mut i1, mut total) = (q0, q1, 1.0);
        for k in 1..=5 {
            let t = self.time * (1.0 - 3.5 / f64::from(k));
            (i0, i1) = (q0 + (t - i0).cos() + (t + i1).sin(), q1 + (t - i1).sin() + (t + i0).cos());
            let a = q0 / ((i0 + t).sin() / 0.005);
            let b = q1 / ((i1 + t).cos() / 0.005);
            total += 1.0 / (a * a + b * b).sqrt();
        }
        (1.17 - (total / 5.0).powf(1.4)).abs().powi(8).clamp(0.0, 1.0)
    }
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
