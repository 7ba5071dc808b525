//! `fog`: a plasma map over all channels, `finish((x + thickness * plasma) * m / (m + thickness))`, m the image's maximum.
//!
//! The map is a square whose side is the next power of two; its top left part is used. A black image stays black.

use flipcast_images::Image;

use crate::blocks::pixels::{finish, unit_table, with_size_of};
use crate::blocks::plasma::plasma_map;
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Weight of the map.
    pub thickness: f64,
    /// How fast the map's detail fades.
    pub decay: f64,
}

impl Constants {
    /// From a row of the registry: `[thickness, decay]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { thickness: row[0], decay: row[1] }
    }
}

/// The uniform draws behind the map, in the order [`plasma_map`] takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// At least `side * side - 1` values of 0..1, see [`map_side`].
    pub uniform: Vec<f64>,
}

/// The side of the map for an image: the next power of two, at least 2.
pub fn map_side(image: &Image) -> usize {
    image.width().max(image.height()).next_power_of_two().max(2)
}

/// Draws the map's values.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    let side = map_side(image);
    Field { uniform: (1..side * side).map(|_| rng.uniform()).collect() }
}

/// Lays the fog over the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let side = map_side(image);
    let mut draws = field.uniform.iter().copied();
    let map = plasma_map(side, constants.decay, || draws.next().unwrap_or(0.5));
    let unit = unit_table();
    let brightest = unit[usize::from(image.rgb().iter().copied().max().unwrap_or(0))];
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (row, heights) in image.rgb().chunks_exact(3 * image.width()).zip(map.chunks_exact(side)) {
        for (pixel, height) in row.chunks_exact(3).zip(heights) {
            let fog = constants.thickness * height;
            let scale = brightest + constants.thickness;
            rgb.extend(pixel.iter().map(|&byte| finish((unit[usize::from(byte)] + fog) * brightest / scale)));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, &Constants::from_row(job.row), &field)
}
