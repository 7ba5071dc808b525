//! `ripple`: shifts rows and columns by sines; black comes in from outside.

use std::f64::consts::TAU;

use flipcast_images::Image;

use super::level::{Level, side};
use crate::blocks::bilinear::Samples;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The waves along the rows' and the columns' axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// In pixels.
    pub wavelengths: [f64; 2],
    /// In radians.
    pub phases: [f64; 2],
}

/// Draws both wavelengths, then both phases.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let wavelengths = std::array::from_fn(|_| rng.uniform_in(0.1, 0.3) * side(image));
    Field { wavelengths, phases: std::array::from_fn(|_| rng.uniform_in(0.0, TAU)) }
}

/// Ripples the image.
pub fn apply(image: &Image, level: Level, field: &Field) -> Image {
    let amplitude = level.of(0.025) * side(image);
    let moved = |n: usize, axis: usize| -> Vec<f64> {
        let (wavelength, phase) = (field.wavelengths[axis], field.phases[axis]);
        (0..n).map(|i| i as f64).map(|i| i + amplitude * (TAU * i / wavelength + phase).sin()).collect()
    };
    let (rows, columns) = (moved(image.height(), 0), moved(image.width(), 1));
    let bytes: Vec<f32> = image.rgb().iter().map(|&byte| f32::from(byte)).collect();
    let samples = Samples::new(&bytes, image.width());
    let mut rgb = Vec::with_capacity(bytes.len());
    for &y in &rows {
        for &x in &columns {
            rgb.extend(samples.at(y, x).map(|v| v as u8));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, Level::from_row(job.row), &field)
}
