//! `downscale`: the image at a fraction of its resolution, enlarged again with soft edges. A thumbnail or a cheap camera.
//! Nothing random.
//!
//! Row: `[factor]`, by which each side shrinks.

use flipcast_images::Image;
use flipcast_images::preprocess::{Interpolation, Size};

use crate::blocks::pillow_resize::resize;
use crate::job::Job;

fn apply(image: &Image, factor: f64) -> Image {
    let side = |n: usize| ((n as f64 / factor).round() as usize).clamp(1, n);
    let coarse = Size { width: side(image.width()), height: side(image.height()) };
    let whole = Size { width: image.width(), height: image.height() };
    resize(&resize(image, coarse, Interpolation::Box), whole, Interpolation::Bilinear)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_as_large_as_the_image_leaves_its_mean() {
        let image = Image::new(4, 2, (0..8).flat_map(|i| [10 * i, 7, 200]).collect()).expect("4 x 2");
        assert_eq!(apply(&image, 4.0).rgb(), [35, 7, 200].repeat(8));
        assert_eq!(apply(&image, 1.0), image);
    }
}
