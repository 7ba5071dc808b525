//! The severity number of the C-bar sets.

use flipcast_images::Image;

pub(crate) use crate::blocks::pixels::shorter_side as side;

/// A severity number, 0 to 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level(pub f64);

impl Level {
    /// From a row of the registry: `[number]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self(row[0])
    }

    /// The strength whose value at 10 is `top`.
    pub fn of(self, top: f64) -> f64 {
        self.0 * top / 10.0
    }
}

/// Adds something to every byte of `image`, clips and truncates; `added` gets row and column.
pub(crate) fn add(image: &Image, mut added: impl FnMut(f64, f64) -> [f64; 3]) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let added = added(y as f64, x as f64);
            // The conversion to a byte clips and truncates.
            rgb.extend(pixel.iter().zip(added).map(|(&byte, added)| (f64::from(byte) + added) as u8));
        }
    }
    rgb
}
