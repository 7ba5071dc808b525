//! `pixelate`: Pillow's box resize to a share of the size, truncated, and back. Nothing random.

use flipcast_images::Image;

use crate::blocks::pillow_resize::{Filter, resize};
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Share of each side that remains.
    pub scale: f64,
}

impl Constants {
    /// From a row of the registry: `[scale]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { scale: row[0] }
    }
}

/// Coarsens the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    let side = |n: usize| ((n as f64 * constants.scale) as usize).clamp(1, n);
    let small = resize(image, side(image.width()), side(image.height()), Filter::Box);
    resize(&small, image.width(), image.height(), Filter::Box)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
