//! `brightness`: adds to the value of every pixel in HSV and clips. Nothing random.

use flipcast_images::Image;

use crate::blocks::hsv;
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
    hsv::map_pixels(image, |[hue, saturation, value]| [hue, saturation, (value + constants.added).clamp(0.0, 1.0)])
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
