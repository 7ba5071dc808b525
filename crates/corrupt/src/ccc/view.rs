//! The random flip and crop before the corruptions.

use flipcast_images::Image;
use flipcast_images::preprocess::{Interpolation, Size};

use crate::blocks::pillow_resize::resize;
use crate::rng::CounterRng;

/// Pixels each way of a CCC image.
const SIDE: usize = 224;
/// How often a crop is tried before the largest fitting one is taken.
const TRIES: usize = 10;

/// Which part of an image is shown, and whether it is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Left and right exchanged.
    pub mirrored: bool,
    /// First column of the part, after mirroring.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl View {
    /// A mirroring with probability 1/2 and a crop of 8 to 100 per cent of the area with a ratio of 3/4 to 4/3.
    pub fn draw(rng: &mut CounterRng, image: &Image) -> Self {
        let mirrored = rng.below(2) == 1;
        let (full_width, full_height) = (image.width(), image.height());
        let area = (full_width * full_height) as f64;
        for _ in 0..TRIES {
            let target = area * rng.uniform_in(0.08, 1.0);
            let ratio = rng.uniform_in(0.75_f64.ln(), (4.0_f64 / 3.0).ln()).exp();
            let width = (target * ratio).sqrt().round_ties_even() as usize;
            let height = (target / ratio).sqrt().round_ties_even() as usize;
            if (1..=full_width).contains(&width) && (1..=full_height).contains(&height) {
                let top = rng.index(full_height - height + 1);
                let left = rng.index(full_width - width + 1);
                return Self { mirrored, left, top, width, height };
            }
        }
        let ratio = full_width as f64 / full_height as f64;
        let (mut width, mut height) = (full_width, full_height);
        if ratio < 0.75 {
            height = ((full_width as f64 / 0.75).round_ties_even() as usize).clamp(1, full_height);
        } else if ratio > 4.0 / 3.0 {
            width = ((full_height as f64 * 4.0 / 3.0).round_ties_even() as usize).clamp(1, full_width);
        }
        Self { mirrored, left: (full_width - width) / 2, top: (full_height - height) / 2, width, height }
    }

    /// The part of `image` at 224 x 224 pixels, bilinear.
    pub fn apply(&self, image: &Image) -> Image {
        let mut rgb = Vec::with_capacity(3 * self.width * self.height);
        for y in self.top..self.top + self.height {
            let row = &image.rgb()[3 * y * image.width()..][..3 * image.width()];
            for x in self.left..self.left + self.width {
                let from = if self.mirrored { image.width() - 1 - x } else { x };
                rgb.extend_from_slice(&row[3 * from..3 * from + 3]);
            }
        }
        let part = Image::new(self.width, self.height, rgb).expect("three bytes are copied per pixel");
        resize(&part, Size::square(SIDE), Interpolation::Bilinear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::StreamKey;

    #[test]
    fn every_view_lies_inside_the_image() {
        for (width, height) in [(1, 1), (500, 375), (30, 400), (400, 30)] {
            let image = Image::new(width, height, vec![7; 3 * width * height]).expect("sizes match");
            for image_index in 0..50 {
                let key = StreamKey { seed: 1, set: "ccc", corruption: "", severity_hundredths: 0, image_index };
                let view = View::draw(&mut CounterRng::new(&key), &image);
                assert!(view.left + view.width <= width && view.top + view.height <= height);
            }
        }
    }

    #[test]
    fn mirroring_exchanges_left_and_right() {
        let image = Image::new(2, 1, vec![1, 1, 1, 9, 9, 9]).expect("2 x 1");
        let view = View { mirrored: true, left: 0, top: 0, width: 2, height: 1 };
        let shown = view.apply(&image);
        assert_eq!((shown.rgb()[0], shown.rgb()[3 * 223]), (9, 1));
    }
}
