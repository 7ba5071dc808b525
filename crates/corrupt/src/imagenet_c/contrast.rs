//! `contrast`: pulls every sample towards its channel's mean, `finish((x - mean) * factor + mean)`. Nothing random.

use flipcast_images::Image;

use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// What remains of the distance to the mean.
    pub factor: f64,
}

impl Constants {
    /// From a row of the registry: `[factor]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { factor: row[0] }
    }
}

/// Lowers the contrast of the image: one table of 256 bytes per channel.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    let pixels = (image.width() * image.height()) as f64;
    let mut sums = [0_u64; 3];
    for pixel in image.rgb().chunks_exact(3) {
        for (sum, &byte) in sums.iter_mut().zip(pixel) {
            *sum += u64::from(byte);
        }
    }
    let unit = unit_table();
    let tables = sums.map(|sum| {
        let mean = sum as f64 / 255.0 / pixels;
        unit.map(|x| finish((x - mean) * constants.factor + mean))
    });
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for pixel in image.rgb().chunks_exact(3) {
        let mapped: [u8; 3] = std::array::from_fn(|channel| tables[channel][usize::from(pixel[channel])]);
        rgb.extend_from_slice(&mapped);
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
