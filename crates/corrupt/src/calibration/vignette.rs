//! `vignette`: darkness around a bright spot near the centre. A lens too small for its sensor, a torch, a tunnel.
//!
//! Row: `[radius]` at which half of the light is left, as a share of half the shorter side.

use flipcast_images::Image;

use crate::blocks::pixels::{round_to_byte, shorter_side, with_size_of};
use crate::job::Job;

/// How far the spot may lie from the centre each way, as a share of half the shorter side.
const DECENTRING: f64 = 0.3;

/// Darkens the image around `(x, y)`: the light is `1 / (1 + (distance / radius)^4)`.
fn apply(image: &Image, radius: f64, x: f64, y: f64) -> Image {
    let squared = |at: usize, centre: f64| (((at as f64 - centre) / radius).powi(2)) as f32;
    let columns: Vec<f32> = (0..image.width()).map(|column| squared(column, x)).collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (row, pixels) in image.rgb().chunks_exact(3 * image.width()).enumerate() {
        let down = squared(row, y);
        for (pixel, across) in pixels.as_chunks::<3>().0.iter().zip(&columns) {
            let distance = across + down;
            let light = 1.0 / (1.0 + distance * distance);
            rgb.extend(pixel.map(|byte| round_to_byte(f32::from(byte) * light)));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let half = 0.5 * shorter_side(job.image);
    let mut centre = |n: usize| (n - 1) as f64 / 2.0 + half * job.rng.uniform_in(-DECENTRING, DECENTRING);
    let (x, y) = (centre(job.image.width()), centre(job.image.height()));
    apply(job.image, job.row[0] * half, x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spot_stays_and_half_the_light_is_left_at_the_radius() {
        let image = Image::new(5, 1, vec![200; 15]).expect("5 x 1");
        let after = apply(&image, 2.0, 2.0, 0.0);
        let first_channel: Vec<u8> = after.rgb().iter().copied().step_by(3).collect();
        // One pixel away: 200 / (1 + 1/16) = 188.2.
        assert_eq!(first_channel, [100, 188, 200, 188, 100]);
    }
}
