//! `sharpen`: an unsharp mask, far too strong. Phone cameras, badly enlarged pictures. Nothing random.
//!
//! Row: `[amount]` by which the difference from the mean around a sample is amplified.

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::pixels::{round_to_byte, shorter_side, with_size_of};
use crate::job::Job;

/// How far the mean reaches, as a share of the shorter side; one pixel at least.
const REACH: f64 = 1.0 / 32.0;

fn apply(image: &Image, amount: f64, reach: usize) -> Image {
    let amount = amount as f32;
    let pairs = image.rgb().iter().zip(box_means(image, reach));
    let rgb = pairs.map(|(&byte, mean)| {
        let sample = f32::from(byte);
        round_to_byte(sample + amount * (sample - mean))
    });
    with_size_of(image, rgb.collect())
}

/// The mean of the square that reaches `reach` pixels each way, edge samples repeated.
fn box_means(image: &Image, reach: usize) -> Vec<f32> {
    let (width, height, stride) = (image.width(), image.height(), 3 * image.width());
    let row = |y: isize| &image.rgb()[stride * Border::Repeat.map(y, height)..][..stride];
    let reach = reach as isize;
    let mut columns = vec![0_u32; stride];
    for y in -reach..=reach {
        columns.iter_mut().zip(row(y)).for_each(|(sum, &byte)| *sum += u32::from(byte));
    }
    let at = |x: isize| 3 * Border::Repeat.map(x, width);
    let scale = 1.0 / ((2 * reach + 1) * (2 * reach + 1)) as f32;
    let mut means = Vec::with_capacity(image.rgb().len());
    for y in 0..height as isize {
        let mut sum = [0_u32; 3];
        for x in -reach..=reach {
            sum = std::array::from_fn(|k| sum[k] + columns[at(x) + k]);
        }
        for x in 0..width as isize {
            means.extend(sum.map(|sum| sum as f32 * scale));
            let (left, right) = (at(x - reach), at(x + reach + 1));
            sum = std::array::from_fn(|k| sum[k] + columns[right + k] - columns[left + k]);
        }
        let (leaving, coming) = (row(y - reach), row(y + reach + 1));
        for (sum, (&leaving, &coming)) in columns.iter_mut().zip(leaving.iter().zip(coming)) {
            *sum = *sum + u32::from(coming) - u32::from(leaving);
        }
    }
    means
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let reach = ((REACH * shorter_side(job.image)).round() as usize).max(1);
    apply(job.image, job.row[0], reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_square_around() {
        let image = Image::new(7, 5, (0..105).map(|i| (i * i % 251) as u8).collect()).expect("7 x 5");
        for reach in [1, 2, 9] {
            let means = box_means(&image, reach as usize);
            for (y, x, channel) in [(0, 0, 0), (2, 3, 1), (4, 6, 2), (1, 5, 0)] {
                let mut sum = 0;
                for (dy, dx) in (-reach..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (dy, dx))) {
                    let (row, column) = ((y + dy).clamp(0, 4), (x + dx).clamp(0, 6));
                    sum += u32::from(image.rgb()[(3 * (7 * row + column) + channel) as usize]);
                }
                let expected = sum as f32 / ((2 * reach + 1) * (2 * reach + 1)) as f32;
                assert!((means[(3 * (7 * y + x) + channel) as usize] - expected).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn flat_areas_stay() {
        let image = Image::new(4, 4, vec![90; 48]).expect("4 x 4");
        assert_eq!(apply(&image, 20.0, 1), image);
    }
}
