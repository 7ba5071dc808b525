//! `speckle_noise`: normal noise in proportion to the sample, `finish(x + x * (std * N))`.

use flipcast_images::Image;

use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::job::Job;

pub use super::gaussian_noise::{Constants, Field, draw};

/// Adds the noise.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let unit = unit_table();
    let rgb = image
        .rgb()
        .iter()
        .zip(&field.normal)
        .map(|(&byte, normal)| {
            let x = unit[usize::from(byte)];
            finish(x + x * (constants.std * normal))
        })
        .collect();
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, &Constants::from_row(job.row), &field)
}
