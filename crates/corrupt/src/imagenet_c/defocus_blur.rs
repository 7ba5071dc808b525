//! `defocus_blur`: correlation with an anti-aliased disk, mirrored without repeating the edge. Nothing random.
//!
//! The published code goes through a Fourier transform, where values that should be whole can fall just below and lose
//! one level; here they do not.

use flipcast_images::Image;

use crate::blocks::disk_kernel::DiskKernel;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Radius of the disk in pixels.
    pub radius: f64,
    /// Standard deviation of the disk's own smoothing.
    pub alias: f64,
}

impl Constants {
    /// From a row of the registry: `[radius, alias]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { radius: row[0], alias: row[1] }
    }
}

/// Blurs the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    with_size_of(image, DiskKernel::new(constants.radius, constants.alias).correlate(image))
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
