//! `zoom_out`: the image shrunk and put somewhere in the frame, which its mirror images fill. An object further away.
//!
//! Row: `[scale]`, the share of each side that remains.

use flipcast_images::Image;
use flipcast_images::preprocess::{Interpolation, Size};

use crate::blocks::border::Border;
use crate::blocks::pillow_resize::resize;
use crate::blocks::pixels::with_size_of;
use crate::job::Job;

/// The side that remains of `n` pixels.
fn shrunk(n: usize, scale: f64) -> usize {
    ((n as f64 * scale).round() as usize).clamp(1, n)
}

/// Puts `small` at column `left` and row `top` of a frame of the size of `image`.
fn place(image: &Image, small: &Image, left: usize, top: usize) -> Image {
    let columns: Vec<usize> =
        (0..image.width()).map(|x| 3 * Border::HalfMirror.map(x as isize - left as isize, small.width())).collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for y in 0..image.height() {
        let row = Border::HalfMirror.map(y as isize - top as isize, small.height());
        let row = &small.rgb()[3 * small.width() * row..];
        for &column in &columns {
            rgb.extend_from_slice(&row[column..column + 3]);
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let (width, height) = (job.image.width(), job.image.height());
    let size = Size { width: shrunk(width, job.row[0]), height: shrunk(height, job.row[0]) };
    let left = job.rng.index(width - size.width + 1);
    let top = job.rng.index(height - size.height + 1);
    place(job.image, &resize(job.image, size, Interpolation::Bilinear), left, top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_filled_by_mirror_images() {
        let frame = Image::new(6, 1, vec![0; 18]).expect("6 x 1");
        let small = Image::new(2, 1, vec![10, 10, 10, 20, 20, 20]).expect("2 x 1");
        let placed = place(&frame, &small, 2, 0);
        let first_channel: Vec<u8> = placed.rgb().iter().copied().step_by(3).collect();
        assert_eq!(first_channel, [20, 10, 10, 20, 20, 10]);
    }
}
