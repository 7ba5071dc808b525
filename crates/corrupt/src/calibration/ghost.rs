//! `ghost`: a shifted copy of the image laid over it. A double exposure, a reflection in a window.
//!
//! Row: `[weight, shift]`: the weight of the copy, and how far it lies away as a share of the shorter side; the direction is
//! random.

use std::f64::consts::TAU;

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::pixels::{round_to_byte, shorter_side, with_size_of};
use crate::job::Job;

/// Lays a copy over the image that lies `right` and `down` of it, in pixels.
fn apply(image: &Image, weight: f64, right: isize, down: isize) -> Image {
    let (width, height, weight) = (image.width(), image.height(), weight as f32);
    let columns: Vec<usize> = (0..width).map(|x| 3 * Border::Mirror101.map(x as isize - right, width)).collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (y, row) in image.rgb().chunks_exact(3 * width).enumerate() {
        let copy = &image.rgb()[3 * width * Border::Mirror101.map(y as isize - down, height)..];
        for (pixel, &column) in row.as_chunks::<3>().0.iter().zip(&columns) {
            for channel in 0..3 {
                let (own, other) = (f32::from(pixel[channel]), f32::from(copy[column + channel]));
                rgb.push(round_to_byte(own + weight * (other - own)));
            }
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let (sin, cos) = job.rng.uniform_in(0.0, TAU).sin_cos();
    let shift = job.row[1] * shorter_side(job.image);
    apply(job.image, job.row[0], (shift * cos).round() as isize, (shift * sin).round() as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_lies_where_it_was_put() {
        let image = Image::new(4, 1, [0, 0, 80, 0].into_iter().flat_map(|v| [v; 3]).collect()).expect("4 x 1");
        let first_channel =
            |right| -> Vec<u8> { apply(&image, 0.25, right, 0).rgb().iter().copied().step_by(3).collect() };
        assert_eq!(first_channel(1), [0, 0, 60, 20]);
        assert_eq!(first_channel(-1), [0, 20, 60, 20]);
        assert_eq!(apply(&image, 0.25, 0, 0), image);
    }
}
