//! `snow`: noise zoomed into flakes, blurred along a steep direction, laid twice over a whitened image.
//!
//! `finish(base + flakes + flakes turned by 180 degrees)`, base `keep * x + (1 - keep) * max(x, 1.5 * grey + 0.5)` in
//! single precision.

use flipcast_images::Image;

use crate::blocks::directional_blur::{directional_blur, taps};
use crate::blocks::gaussian_filter::Extent;
use crate::blocks::pixels::{finish, unit_table, unit_table_f32, with_size_of};
use crate::blocks::zoom::centre_zoom;
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Mean of the noise.
    pub mean: f64,
    /// Standard deviation of the noise.
    pub std: f64,
    /// Enlargement of the noise.
    pub zoom: f64,
    /// Below this the noise is no flake.
    pub threshold: f64,
    /// Half the number of blur taps.
    pub radius: f64,
    /// Standard deviation of the blur in pixels.
    pub sigma: f64,
    /// Weight of the original colours.
    pub keep: f64,
}

impl Constants {
    /// From a row of the registry: `[mean, std, zoom, threshold, radius, sigma, keep]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { mean: row[0], std: row[1], zoom: row[2], threshold: row[3], radius: row[4], sigma: row[5], keep: row[6] }
    }
}

/// One normal value per pixel, and the direction of the snowfall.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Row by row.
    pub normal: Vec<f64>,
    /// Degrees, -135 to -45.
    pub angle: f64,
}

/// Draws the plane, then the direction.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let normal = (0..image.width() * image.height()).map(|_| rng.normal()).collect();
    Field { normal, angle: rng.uniform_in(-135.0, -45.0) }
}

/// Lets it snow.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let flakes = flakes(image, constants, field);
    let (single, unit) = (unit_table_f32(), unit_table());
    let (keep, rest) = (constants.keep as f32, (1.0 - constants.keep) as f32);
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for ((pixel, &flake), &turned) in image.rgb().chunks_exact(3).zip(&flakes).zip(flakes.iter().rev()) {
        let x = [pixel[0], pixel[1], pixel[2]].map(|byte| single[usize::from(byte)]);
        let grey = x[0] * 0.299 + x[1] * 0.587 + x[2] * 0.114;
        let lit = grey * 1.5 + 0.5;
        let (flake, turned) = (unit[usize::from(flake)], unit[usize::from(turned)]);
        rgb.extend(x.map(|v| finish(f64::from(keep * v + rest * v.max(lit)) + flake + turned)));
    }
    with_size_of(image, rgb)
}

/// The blurred flakes as bytes.
fn flakes(image: &Image, constants: &Constants, field: &Field) -> Vec<u8> {
    let extent = Extent { height: image.height(), width: image.width(), channels: 1 };
    let noise: Vec<f64> = field.normal.iter().map(|n| constants.mean + constants.std * n).collect();
    let sharp: Vec<u8> = centre_zoom(&noise, extent, constants.zoom)
        .into_iter()
        .map(|v| if v < constants.threshold { 0 } else { finish(v) })
        .collect();
    let taps = taps(constants.radius, constants.sigma, field.angle);
    directional_blur(&sharp, image.width(), 1, &taps)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, &Constants::from_row(job.row), &field)
}
