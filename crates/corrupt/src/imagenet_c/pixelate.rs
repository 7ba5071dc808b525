//! `pixelate`: Pillow's box resize to a share of the size, truncated, and back. Nothing random.

use flipcast_images::Image;
use flipcast_images::preprocess::{Interpolation, Size};

use crate::blocks::pillow_resize::resize;
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
    let coarse = Size { width: side(image.width()), height: side(image.height()) };
    let whole = Size { width: image.width(), height: image.height() };
    resize(&resize(image, coarse, Interpolation::Box), whole, Interpolation::Box)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
