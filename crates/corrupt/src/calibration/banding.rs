//! `banding`: brighter and darker stripes along rows and columns. Sensor readout, flickering light, an analogue cable.
//!
//! Row: `[std]` of the stripes along rows, in grey levels; those along columns are half as strong. Neighbouring stripes are
//! alike.

use flipcast_images::Image;

use crate::blocks::pixels::{round_to_byte, shorter_side, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

/// Stripes along the shorter side.
const STRIPES: f64 = 32.0;
/// Correlation of neighbouring stripes.
const CORRELATION: f64 = 0.5;

/// What is added to each of `n` lines, in units of the standard deviation.
fn draw(rng: &mut CounterRng, n: usize, thickness: f64) -> Vec<f32> {
    let stripes = (n as f64 / thickness).ceil() as usize;
    let mut stripe = rng.normal();
    let mut levels = vec![stripe as f32];
    // A unit variance is kept from stripe to stripe.
    let fresh = (1.0 - CORRELATION * CORRELATION).sqrt();
    for _ in 1..stripes {
        stripe = CORRELATION * stripe + fresh * rng.normal();
        levels.push(stripe as f32);
    }
    (0..n).map(|line| levels[((line as f64 / thickness) as usize).min(levels.len() - 1)]).collect()
}

fn apply(image: &Image, std: f64, rows: &[f32], columns: &[f32]) -> Image {
    let (along_rows, along_columns) = (std as f32, 0.5 * std as f32);
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for (pixels, row) in image.rgb().chunks_exact(3 * image.width()).zip(rows) {
        for (pixel, column) in pixels.as_chunks::<3>().0.iter().zip(columns) {
            let added = along_rows * row + along_columns * column;
            rgb.extend(pixel.map(|byte| round_to_byte(f32::from(byte) + added)));
        }
    }
    with_size_of(image, rgb)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let thickness = (shorter_side(job.image) / STRIPES).max(1.0);
    let rows = draw(job.rng, job.image.height(), thickness);
    let columns = draw(job.rng, job.image.width(), thickness);
    apply(job.image, job.row[0], &rows, &columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_twice_as_much_as_columns() {
        let image = Image::new(2, 2, vec![100; 12]).expect("2 x 2");
        let after = apply(&image, 10.0, &[1.0, -1.0], &[0.0, 2.0]);
        let first_channel: Vec<u8> = after.rgb().iter().copied().step_by(3).collect();
        assert_eq!(first_channel, [110, 120, 90, 100]);
    }
}
