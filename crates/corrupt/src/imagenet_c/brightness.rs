//! `brightness`: adds to the value of every pixel in HSV and clips. Nothing random.

use flipcast_images::Image;

use crate::blocks::hsv;
use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Added to the value.
    pub added: f64,
}

impl Constants {
    /// From a row of the registry: `[added]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { added: row[0] }
    }
}

/// Brightens the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    let unit = unit_table();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for pixel in image.rgb().chunks_exact(3) {
        let x = [pixel[0], pixel[1], pixel[2]].map(|byte| unit[usize::from(byte)]);
        let [hue, saturation, value] = hsv::from_rgb(x);
        rgb.extend(hsv::to_rgb([hue, saturation, (value + constants.added).clamp(0.0, 1.0)]).map(finish));
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
