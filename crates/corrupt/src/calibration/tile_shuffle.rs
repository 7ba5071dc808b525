//! `tile_shuffle`: small tiles that change places with their neighbours. Transmission errors, views through a lattice.
//!
//! Row: `[share]` of the tiles that change places with one of the nine around them, themselves included.

use flipcast_images::Image;

use crate::blocks::pixels::{shorter_side, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// Tiles along the shorter side.
const TILES: f64 = 16.0;

/// Equal tiles from the upper left corner; what is left over at the right and below stays in its place.
struct Grid {
    side: usize,
    across: usize,
    down: usize,
}

impl Grid {
    fn new(image: &Image) -> Self {
        let side = ((shorter_side(image) / TILES).round() as usize).max(1);
        Self { side, across: image.width() / side, down: image.height() / side }
    }
}

/// For each place the tile that comes there.
fn draw(rng: &mut CounterRng, grid: &Grid, share: f64) -> Vec<usize> {
    let mut tiles: Vec<usize> = (0..grid.across * grid.down).collect();
    for row in 0..grid.down {
        for column in 0..grid.across {
            if rng.uniform() < share {
                let mut near = |at: usize, n: usize| (at + rng.index(3)).saturating_sub(1).min(n - 1);
                let other = near(row, grid.down) * grid.across + near(column, grid.across);
                tiles.swap(row * grid.across + column, other);
            }
        }
    }
    tiles
}

fn apply(image: &Image, grid: &Grid, tiles: &[usize]) -> Image {
    let (stride, length) = (3 * image.width(), 3 * grid.side);
    let start = |tile: usize| (tile / grid.across) * grid.side * stride + (tile % grid.across) * length;
    let mut rgb = image.rgb().to_vec();
    for (place, &tile) in tiles.iter().enumerate().filter(|(place, tile)| place != *tile) {
        for row in 0..grid.side {
            let (to, from) = (start(place) + row * stride, start(tile) + row * stride);
            rgb[to..to + length].copy_from_slice(&image.rgb()[from..from + length]);
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let grid = Grid::new(job.image);
    let tiles = draw(job.rng, &grid, job.row[0]);
    apply(job.image, &grid, &tiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_moved_whole_and_the_rest_stays() {
        let image = Image::new(5, 2, (0..30).collect()).expect("5 x 2");
        let grid = Grid { side: 2, across: 2, down: 1 };
        let after = apply(&image, &grid, &[1, 0]);
        let pixels: Vec<u8> = after.rgb().iter().step_by(3).map(|sample| sample / 3).collect();
        assert_eq!(pixels, [2, 3, 0, 1, 4, 7, 8, 5, 6, 9]);
    }

    #[test]
    fn every_pixel_is_found_again() {
        let image = Image::new(50, 37, (0..3 * 50 * 37).map(|i| (i % 251) as u8).collect()).expect("50 x 37");
        let spec = "calibration/tile_shuffle:5".parse::<crate::CorruptionRequest>().expect("listed");
        let spec = spec.resolve(50, 37).expect("listed");
        let sorted = |image: &Image| {
            let mut pixels = image.rgb().as_chunks::<3>().0.to_vec();
            pixels.sort_unstable();
            pixels
        };
        let after = crate::corrupt(&image, &spec, 3, 4).expect("small");
        assert_ne!(after, image);
        assert_eq!(sorted(&after), sorted(&image));
    }
}
