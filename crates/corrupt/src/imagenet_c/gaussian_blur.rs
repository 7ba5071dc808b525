//! `gaussian_blur`: `finish(G(sigma)(x))`, edge pixels repeated. Nothing random.

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish, to_unit, with_size_of};
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Standard deviation of the filter in pixels.
    pub sigma: f64,
}

impl Constants {
    /// From a row of the registry: `[sigma]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { sigma: row[0] }
    }
}

/// Blurs the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    let extent = Extent { height: image.height(), width: image.width(), channels: 3 };
    let mut rgb = Vec::with_capacity(image.rgb().len());
    GaussianKernel::new(constants.sigma, 4.0).filter_rows(&to_unit(image), extent, Border::Repeat, |row| {
        rgb.extend(row.iter().map(|&v| finish(v)));
    });
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}
