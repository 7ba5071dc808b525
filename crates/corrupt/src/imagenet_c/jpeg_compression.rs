//! `jpeg_compression`: JPEG at a low quality with halved chroma, decoded again. Nothing random.

use flipcast_images::Image;

use crate::blocks::jpeg::round_trip;
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// JPEG quality, 1 to 100.
    pub quality: u8,
}

impl Constants {
    /// From a row of the registry: `[quality]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { quality: row[0] as u8 }
    }
}

/// Compresses the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    round_trip(image, constants.quality)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
