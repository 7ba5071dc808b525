//! Rotation, shift, scale, blur and mirroring of one image, three channels interleaved.

use super::{AugmentConfig, Padding};
use crate::random::Draws;

/// Taps of the blur on each side of the centre.
const BLUR_REACH: usize = 2;

/// Height and width of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub height: usize,
    pub width: usize,
}

/// A drawn change of geometry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    radians: f64,
    /// Pixels to the right and down.
    shift: [f64; 2],
    scale: f64,
    padding: Padding,
    blur: Option<f64>,
    mirror: bool,
}

impl Motion {
    /// A random motion of images of this size.
    pub fn draw(config: &AugmentConfig, size: Size, draws: &mut Draws) -> Self {
        let radians = draws.uniform_in(config.degrees).to_radians();
        let mut shift = |side: usize| {
            // The published code shifts after it has added a border of half the size.
            let most = config.shift * (side + 2 * (side / 2)) as f64;
            draws.uniform_in([-most, most]).round()
        };
        let shift = [shift(size.width), shift(size.height)];
        Self {
            radians,
            shift,
            scale: draws.uniform_in(config.scale),
            padding: config.padding,
            blur: config.blur.map(|range| draws.uniform_in(range)),
            mirror: draws.uniform() < config.mirror,
        }
    }

    /// Writes the moved `image` to `moved`; `scratch` is memory to work in.
    pub fn apply(&self, image: &[f32], size: Size, moved: &mut Vec<f32>, scratch: &mut Vec<f32>) {
        match self.blur {
            Some(sigma) => {
                // The blur reads beyond the border of what is kept.
                let margin = Size { height: size.height + 2 * BLUR_REACH, width: size.width + 2 * BLUR_REACH };
                let mut across = Vec::with_capacity(3 * margin.height * size.width);
                self.sample(image, size, BLUR_REACH, scratch);
                let taps = blur_taps(sigma);
                for row in scratch.chunks_exact(3 * margin.width) {
                    across.extend((0..3 * size.width).map(|i| dot(&taps, row, i, 3)));
                }
                moved.clear();
                let stride = 3 * size.width;
                moved.extend((0..size.height * stride).map(|i| dot(&taps, &across, i, stride)));
            }
            None => self.sample(image, size, 0, moved),
        }
        if self.mirror {
            for row in moved.chunks_exact_mut(3 * size.width) {
                row.as_chunks_mut::<3>().0.reverse();
            }
        }
    }

    /// Samples the moved image with `margin` more pixels on every side.
    fn sample(&self, image: &[f32], size: Size, margin: usize, sampled: &mut Vec<f32>) {
        let (sin, cos) = self.radians.sin_cos();
        let (sin, cos) = (sin / self.scale, cos / self.scale);
        let centre = [size.width, size.height].map(|side| (side as f64 - 1.0) / 2.0);
        let pixels = image.as_chunks::<3>().0;
        sampled.clear();
        for row in 0..size.height + 2 * margin {
            let y = row as f64 - margin as f64 - centre[1] - self.shift[1];
            for column in 0..size.width + 2 * margin {
                let x = column as f64 - margin as f64 - centre[0] - self.shift[0];
                let from_x = cos * x + sin * y + centre[0];
                let from_y = cos * y - sin * x + centre[1];
                sampled.extend(self.bilinear(pixels, size, from_x, from_y));
            }
        }
    }

    fn bilinear(&self, pixels: &[[f32; 3]], size: Size, x: f64, y: f64) -> [f32; 3] {
        let (left, top) = (x.floor(), y.floor());
        let (right_share, low_share) = ((x - left) as f32, (y - top) as f32);
        let columns = [left, left + 1.0].map(|at| self.padding.index(at as i64, size.width));
        let rows = [top, top + 1.0].map(|at| self.padding.index(at as i64, size.height));
        let at = |row: usize, column: usize| &pixels[rows[row] * size.width + columns[column]];
        let mut value = [0.0; 3];
        for (channel, value) in value.iter_mut().enumerate() {
            let mix = |row| {
                let (a, b) = (at(row, 0)[channel], at(row, 1)[channel]);
                a + right_share * (b - a)
            };
            let (upper, lower) = (mix(0), mix(1));
            *value = upper + low_share * (lower - upper);
        }
        value
    }
}

impl Padding {
    /// The pixel that stands at `at` of a side of `len` pixels.
    fn index(self, at: i64, len: usize) -> usize {
        let last = len as i64 - 1;
        let inside = match self {
            Self::Edge => at.clamp(0, last),
            Self::Reflect if last == 0 => 0,
            Self::Reflect => {
                let folded = at.rem_euclid(2 * last);
                folded.min(2 * last - folded)
            }
        };
        inside as usize
    }
}

/// A normalised Gaussian.
fn blur_taps(sigma: f64) -> [f32; 2 * BLUR_REACH + 1] {
    let height = |tap: usize| {
        let away = (tap as f64 - BLUR_REACH as f64) / sigma;
        (-0.5 * away * away).exp()
    };
    let total: f64 = (0..2 * BLUR_REACH + 1).map(height).sum();
    std::array::from_fn(|tap| (height(tap) / total) as f32)
}

/// The taps' sum over `values` from `start` on, `stride` apart.
fn dot(taps: &[f32], values: &[f32], start: usize, stride: usize) -> f32 {
    let terms = taps.iter().enumerate();
    terms.map(|(tap, weight)| weight * values[start + tap * stride]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { height: 4, width: 5 };

    fn still() -> Motion {
        Motion { radians: 0.0, shift: [0.0; 2], scale: 1.0, padding: Padding::Edge, blur: None, mirror: false }
    }

    fn image(size: Size) -> Vec<f32> {
        let values = 3 * size.height * size.width;
        (0..values).map(|i| ((i * 37) % 64) as f32 / 64.0).collect()
    }

    fn run(motion: Motion, size: Size) -> Vec<f32> {
        let (mut moved, mut scratch) = (Vec::new(), Vec::new());
        motion.apply(&image(size), size, &mut moved, &mut scratch);
        moved
    }

    #[test]
    fn standing_still_changes_nothing() {
        assert_eq!(run(still(), SIZE), image(SIZE));
        let sharp = Motion { blur: Some(0.001), ..still() };
        assert_eq!(run(sharp, SIZE), image(SIZE));
    }

    #[test]
    fn a_shift_moves_right_and_down_and_fills_as_asked() {
        let before = image(SIZE);
        let pixel = |values: &[f32], y: usize, x: usize| values[(y * 5 + x) * 3];
        for (padding, column) in [(Padding::Edge, 0), (Padding::Reflect, 1)] {
            let moved = run(Motion { shift: [1.0, 2.0], padding, ..still() }, SIZE);
            assert_eq!(pixel(&moved, 3, 4), pixel(&before, 1, 3));
            assert_eq!(pixel(&moved, 2, 0), pixel(&before, 0, column), "{padding:?}");
        }
    }

    #[test]
    fn a_quarter_turn_of_a_square_moves_pixels_exactly_enough() {
        let size = Size { height: 5, width: 5 };
        let before = image(size);
        let moved = run(Motion { radians: std::f64::consts::FRAC_PI_2, ..still() }, size);
        for y in 0..5 {
            for x in 0..5 {
                let (found, expected) = (moved[(y * 5 + x) * 3], before[((4 - x) * 5 + y) * 3]);
                assert!((found - expected).abs() < 1e-5, "{y} {x}");
            }
        }
    }

    #[test]
    fn a_mirror_reverses_rows_of_whole_pixels() {
        let moved = run(Motion { mirror: true, ..still() }, SIZE);
        assert_eq!(moved[..3], image(SIZE)[12..15]);
    }

    #[test]
    fn a_blur_keeps_flat_images_and_lowers_contrast() {
        let motion = Motion { blur: Some(0.5), ..still() };
        let (mut moved, mut scratch) = (Vec::new(), Vec::new());
        motion.apply(&[0.25; 60], SIZE, &mut moved, &mut scratch);
        assert!(moved.iter().all(|v| (v - 0.25).abs() < 1e-6));
        let spread = |values: &[f32]| values.iter().map(|v| (v - 0.5).powi(2)).sum::<f32>();
        assert!(spread(&run(motion, SIZE)) < 0.8 * spread(&image(SIZE)));
    }

    #[test]
    fn reflections_do_not_repeat_the_border() {
        let seen: Vec<usize> = (-3..7).map(|at| Padding::Reflect.index(at, 4)).collect();
        assert_eq!(seen, [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]);
        assert_eq!(Padding::Reflect.index(-3, 1), 0);
    }
}
