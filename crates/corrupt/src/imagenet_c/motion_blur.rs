//! `motion_blur`: one-sided blur along a random direction, the same for all channels; it also shifts the picture.

use flipcast_images::Image;

use crate::blocks::directional_blur::{directional_blur, taps};
use crate::blocks::pixels::with_size_of;
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Half the number of taps.
    pub radius: f64,
    /// Standard deviation of the weights in pixels.
    pub sigma: f64,
}

impl Constants {
    /// From a row of the registry: `[radius, sigma]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { radius: row[0], sigma: row[1] }
    }
}

/// The direction of the motion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Degrees, -45 to 45.
    pub angle: f64,
}

/// Draws the direction.
pub fn draw(rng: &mut CounterRng) -> Field {
    Field { angle: rng.uniform_in(-45.0, 45.0) }
}

/// Blurs the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let taps = taps(constants.radius, constants.sigma, field.angle);
    with_size_of(image, directional_blur(image.rgb(), image.width(), 3, &taps))
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng);
    apply(job.image, &Constants::from_row(job.row), &field)
}
