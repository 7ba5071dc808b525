//! `median_blur`: every sample replaced by a median around it, which wipes out texture and keeps edges. Heavy denoising, oil
//! paint. Nothing random.
//!
//! Row: `[reach]`, how far samples influence each other, as a share of the shorter side.
//!
//! A reach of `n` pixels is made of medians of 3 x 3 samples, a few pixels apart at first, closer and closer then; the
//! distances add up to `n`. Between two whole numbers the results are mixed, so that small images have five severities too.

use flipcast_images::Image;

use crate::blocks::border::Border;
use crate::blocks::pixels::{shorter_side, with_size_of};
use crate::job::Job;

fn apply(image: &Image, reach: f64) -> Image {
    let (whole, share) = (reach.floor(), reach.fract() as f32);
    let near = medians(image.rgb(), image.width(), whole as usize);
    if share == 0.0 {
        return with_size_of(image, near);
    }
    let far = medians(image.rgb(), image.width(), whole as usize + 1);
    let mixed = near.iter().zip(far).map(|(&near, far)| {
        let (near, far) = (f32::from(near), f32::from(far));
        (near + share * (far - near) + 0.5) as u8
    });
    with_size_of(image, mixed.collect())
}

/// Medians over a `reach` of whole pixels.
fn medians(rgb: &[u8], width: usize, reach: usize) -> Vec<u8> {
    let (mut rgb, mut rest) = (rgb.to_vec(), reach);
    while rest > 0 {
        let distance = rest.div_ceil(2);
        rgb = spread_median(&rgb, width, distance);
        rest -= distance;
    }
    rgb
}

/// The median of 3 x 3 samples that are `distance` pixels apart, edge samples repeated.
fn spread_median(rgb: &[u8], width: usize, distance: usize) -> Vec<u8> {
    let (stride, lead) = (3 * width, 3 * distance);
    let height = rgb.len() / stride;
    let padded_stride = stride + 2 * lead;
    let mut padded = Vec::with_capacity(padded_stride * height);
    for row in rgb.chunks_exact(stride) {
        padded.extend(row[..3].iter().cycle().take(lead));
        padded.extend_from_slice(row);
        padded.extend(row[stride - 3..].iter().cycle().take(lead));
    }
    let mut out = vec![0; rgb.len()];
    for (y, out) in out.chunks_exact_mut(stride).enumerate() {
        let y = y as isize;
        let rows = [y - distance as isize, y, y + distance as isize].map(|y| {
            let row = &padded[padded_stride * Border::Repeat.map(y, height)..][..padded_stride];
            [&row[..stride], &row[lead..lead + stride], &row[2 * lead..]]
        });
        let [[a, b, c], [d, e, f], [g, h, i]] = rows;
        for k in 0..stride {
            out[k] = median_of_nine([[a[k], b[k], c[k]], [d[k], e[k], f[k]], [g[k], h[k], i[k]]]);
        }
    }
    out
}

#[inline(always)]
fn median_of_three(a: u8, b: u8, c: u8) -> u8 {
    a.min(b).max(a.max(b).min(c))
}

/// The median lies among the largest of the row minima, the median of the row medians and the smallest of the row maxima.
#[inline(always)]
fn median_of_nine([[a, b, c], [d, e, f], [g, h, i]]: [[u8; 3]; 3]) -> u8 {
    let least = a.min(b).min(c).max(d.min(e).min(f)).max(g.min(h).min(i));
    let most = a.max(b).max(c).min(d.max(e).max(f)).min(g.max(h).max(i));
    let middle = median_of_three(median_of_three(a, b, c), median_of_three(d, e, f), median_of_three(g, h, i));
    median_of_three(least, middle, most)
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0] * shorter_side(job.image))
}

#[cfg(test)]
mod tests {
    use flipcast_ground::SplitMix64;

    use super::*;

    #[test]
    fn the_median_of_nine_is_the_fifth_in_order() {
        for seed in 0..5000 {
            let bits = SplitMix64::mix(seed);
            // Few distinct values, so that ties occur.
            let mut samples: [u8; 9] = std::array::from_fn(|i| (bits >> (4 * i)) as u8 & 15);
            let [a, b, c, d, e, f, g, h, i] = samples;
            let found = median_of_nine([[a, b, c], [d, e, f], [g, h, i]]);
            samples.sort_unstable();
            assert_eq!(found, samples[4], "{samples:?}");
        }
    }

    #[test]
    fn a_lone_sample_vanishes_and_a_half_reach_halves_it() {
        let mut rgb = vec![100; 3 * 25];
        rgb[36..39].fill(200);
        let image = Image::new(5, 5, rgb).expect("5 x 5");
        assert_eq!(apply(&image, 1.0).rgb(), [100; 75]);
        assert_eq!(apply(&image, 0.5).rgb()[36..39], [150; 3]);
        assert_eq!(apply(&image, 0.0), image);
    }
}
