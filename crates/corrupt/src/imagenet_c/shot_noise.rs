//! `shot_noise`: photon counting, `finish(Poisson(rate * x) / rate)`. Black stays black.

use flipcast_images::Image;

use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::job::Job;
use crate::poisson::Poisson;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Photons that a white sample collects on average.
    pub rate: f64,
}

impl Constants {
    /// From a row of the registry: `[rate]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { rate: row[0] }
    }
}

/// One photon count per sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// In the order of the samples.
    pub counts: Vec<u32>,
}

/// Draws the counts of an image; each byte value has one distribution, made when first met.
pub fn draw(rng: &mut CounterRng, image: &Image, constants: &Constants) -> Field {
    let unit = unit_table();
    let mut distributions: Vec<Option<Poisson>> = vec![None; 256];
    let counts = image
        .rgb()
        .iter()
        .map(|&byte| {
            let byte = usize::from(byte);
            distributions[byte].get_or_insert_with(|| Poisson::new(constants.rate * unit[byte])).draw(rng)
        })
        .collect();
    Field { counts }
}

/// Turns the counts into samples.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let top = field.counts.iter().copied().max().unwrap_or(0);
    let bytes: Vec<u8> = (0..=top).map(|count| finish(f64::from(count) / constants.rate)).collect();
    let rgb = field.counts.iter().map(|&count| bytes[count as usize]).collect();
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let constants = Constants::from_row(job.row);
    let field = draw(job.rng, job.image, &constants);
    apply(job.image, &constants, &field)
}
