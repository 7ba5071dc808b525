//! `gaussian_noise`: independent normal noise on every sample, `finish(x + std * N)`.

use flipcast_images::Image;

use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Standard deviation of the noise on the 0 to 1 scale.
    pub std: f64,
}

impl Constants {
    /// From a row of the registry: `[std]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { std: row[0] }
    }
}

/// One standard normal value per sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// In the order of the samples.
    pub normal: Vec<f64>,
}

/// Draws the noise of an image.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    Field { normal: (0..image.rgb().len()).map(|_| rng.normal()).collect() }
}

/// Adds the noise.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let unit = unit_table();
    let rgb = image
        .rgb()
        .iter()
        .zip(&field.normal)
        .map(|(&byte, normal)| finish(unit[usize::from(byte)] + constants.std * normal))
        .collect();
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, &Constants::from_row(job.row), &field)
}
