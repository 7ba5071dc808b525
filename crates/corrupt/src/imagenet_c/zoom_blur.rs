//! `zoom_blur`: the mean of the image and of zooms on its middle, single precision. Nothing random.
//!
//! The list of factors starts at 1, so the original counts twice; it is numpy's `arange`, which may overshoot.

use flipcast_images::Image;

use crate::blocks::gaussian_filter::Extent;
use crate::blocks::pixels::{finish_f32, to_unit_f32, with_size_of};
use crate::blocks::zoom::{arange, centre_zoom_rows};
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// First zoom factor.
    pub start: f64,
    /// Where the factors stop.
    pub stop: f64,
    /// From one factor to the next.
    pub step: f64,
}

impl Constants {
    /// From a row of the registry: `[start, stop, step]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { start: row[0], stop: row[1], step: row[2] }
    }
}

/// Averages the zooms.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    let extent = Extent { height: image.height(), width: image.width(), channels: 3 };
    let single = to_unit_f32(image);
    let wide: Vec<f64> = single.iter().map(|&v| f64::from(v)).collect();
    let factors = arange(constants.start, constants.stop, constants.step);
    let mut sums = vec![0.0_f32; single.len()];
    let stride = 3 * image.width();
    for &factor in &factors {
        centre_zoom_rows(&wide, extent, factor, |y, row| {
            for (sum, &value) in sums[y * stride..][..stride].iter_mut().zip(row) {
                *sum += value as f32;
            }
        });
    }
    let count = (factors.len() + 1) as f32;
    let rgb = single.iter().zip(&sums).map(|(x, sum)| finish_f32((x + sum) / count)).collect();
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
