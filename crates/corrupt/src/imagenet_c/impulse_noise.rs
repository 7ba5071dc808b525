//! `impulse_noise`: salt and pepper on single channel samples.
//!
//! A sample is hit when its first draw is at most the fraction; a hit turns white when its second draw is at most 1/2,
//! black otherwise.

use flipcast_images::Image;

use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Share of the samples that are hit.
    pub fraction: f64,
}

impl Constants {
    /// From a row of the registry: `[fraction]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { fraction: row[0] }
    }

    /// The draw `(u + 1/2) / 2^32` is at most the fraction just when `u` is at most this; `None` if nothing is hit.
    pub(crate) fn limit(&self) -> Option<u64> {
        let limit = (self.fraction * (1_u64 << 32) as f64 - 0.5).floor();
        (limit >= 0.0).then_some(limit as u64)
    }
}

/// Two uniform values per sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Decides whether a sample is hit, in the order of the samples.
    pub hit: Vec<f64>,
    /// Decides between white and black.
    pub salt: Vec<f64>,
}

/// Draws both planes of an image, 32 bits per value.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    const SCALE: f64 = 1.0 / (1_u64 << 32) as f64;
    let count = image.rgb().len();
    let (mut hit, mut salt) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let bits = rng.bits();
        hit.push(((bits >> 32) as f64 + 0.5) * SCALE);
        salt.push((f64::from(bits as u32) + 0.5) * SCALE);
    }
    Field { hit, salt }
}

/// Replaces the samples that are hit.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let rgb = image
        .rgb()
        .iter()
        .zip(field.hit.iter().zip(&field.salt))
        .map(|(&byte, (&hit, &salt))| {
            let impulse = if salt <= 0.5 { 255 } else { 0 };
            if hit <= constants.fraction { impulse } else { byte }
        })
        .collect();
    with_size_of(image, rgb)
}

/// [`draw`] and [`apply`] in one pass: the same draws, compared as whole numbers, so that no plane is stored.
pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let constants = Constants::from_row(job.row);
    let mut rgb = job.image.rgb().to_vec();
    if let Some(limit) = constants.limit() {
        for byte in &mut rgb {
            let bits = job.rng.bits();
            // The second draw is at most 1/2 when its highest bit is not set.
            let impulse = if bits & (1 << 31) == 0 { 255 } else { 0 };
            *byte = if bits >> 32 <= limit { impulse } else { *byte };
        }
    }
    with_size_of(job.image, rgb)
}
