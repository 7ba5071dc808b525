//! `glass_blur`: blur, move pixels about locally, blur again.
//!
//! Pixels are visited from the bottom right; each takes the colour of a random pixel nearby, and later visits see the
//! earlier ones. The published code means to swap but copies: one pixel is duplicated, the other lost. Offsets run from
//! `-reach` to `reach - 1`, and a frame of pixels is never visited.

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish, to_unit, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Standard deviation of both blurs in pixels.
    pub sigma: f64,
    /// How far a pixel may look.
    pub reach: usize,
    /// How often the picture is gone through.
    pub passes: usize,
}

impl Constants {
    /// From a row of the registry: `[sigma, reach, passes]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { sigma: row[0], reach: row[1] as usize, passes: row[2] as usize }
    }

    /// How many pixels of an axis of `n` are visited: those from `n - reach` down to `reach + 1`.
    fn visited(&self, n: usize) -> usize {
        n.saturating_sub(2 * self.reach)
    }
}

/// Where each visited pixel looks, pass by pass in visiting order: columns right, rows down.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// `(dx, dy)` per visit.
    pub moves: Vec<(i8, i8)>,
}

/// Draws the moves of an image.
pub fn draw(rng: &mut CounterRng, image: &Image, constants: &Constants) -> Field {
    let visits = constants.passes * constants.visited(image.width()) * constants.visited(image.height());
    let span = 2 * constants.reach as u32;
    let mut offset = || (rng.below(span) as i32 - constants.reach as i32) as i8;
    Field { moves: (0..visits).map(|_| (offset(), offset())).collect() }
}

/// Blurs, copies pixels about, and blurs again.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let kernel = GaussianKernel::new(constants.sigma, 4.0);
    let mut work = blur(image, &kernel);
    let (width, height) = (image.width(), image.height());
    let stride = 3 * width as isize;
    let mut moves = field.moves.iter();
    for _ in 0..constants.passes {
        for row in (0..constants.visited(height)).map(|i| height - constants.reach - i) {
            for column in (0..constants.visited(width)).map(|i| width - constants.reach - i) {
                let Some(&(dx, dy)) = moves.next() else { break };
                let here = 3 * (row * width + column);
                let from = (here as isize + isize::from(dy) * stride + 3 * isize::from(dx)) as usize;
                work.copy_within(from..from + 3, here);
            }
        }
    }
    let work = with_size_of(image, work);
    with_size_of(image, blur(&work, &kernel))
}

fn blur(image: &Image, kernel: &GaussianKernel) -> Vec<u8> {
    let extent = Extent { height: image.height(), width: image.width(), channels: 3 };
    let mut rgb = Vec::with_capacity(image.rgb().len());
    kernel.filter_rows(&to_unit(image), extent, Border::Repeat, |row| rgb.extend(row.iter().map(|&v| finish(v))));
    rgb
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let constants = Constants::from_row(job.row);
    let field = draw(job.rng, job.image, &constants);
    apply(job.image, &constants, &field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_is_copied_and_not_swapped() {
        let rgb: Vec<u8> = (0..9).flat_map(|v| [v * 20; 3]).collect();
        let image = Image::new(3, 3, rgb).expect("3 x 3");
        let constants = Constants { sigma: 0.05, reach: 1, passes: 1 };
        let after = apply(&image, &constants, &Field { moves: vec![(-1, -1)] });
        // The one visited pixel is (2, 2); it takes the colour of (1, 1), which keeps its own.
        assert_eq!(after.rgb()[3 * 8], 80);
        assert_eq!(after.rgb()[3 * 4], 80);
    }

    #[test]
    fn an_image_without_inner_pixels_is_only_blurred() {
        let image = Image::new(2, 1, vec![9; 6]).expect("2 x 1");
        let constants = Constants { sigma: 0.7, reach: 4, passes: 2 };
        assert_eq!(apply(&image, &constants, &Field { moves: Vec::new() }), image);
    }
}
