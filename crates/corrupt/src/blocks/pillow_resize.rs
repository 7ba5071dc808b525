//! Resampling as Pillow does it: integer weights, horizontal pass first, rounded to bytes between the passes.

use std::borrow::Cow;

use flipcast_images::Image;
use multiversion::multiversion;

/// Fractional bits of a weight.
const PRECISION: u32 = 22;
const HALF: i32 = 1 << (PRECISION - 1);

/// How neighbours are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The mean of the covered pixels; enlarging repeats pixels.
    Box,
    /// A triangle, widened when shrinking.
    Bilinear,
}

impl Filter {
    fn support(self) -> f64 {
        match self {
            Self::Box => 0.5,
            Self::Bilinear => 1.0,
        }
    }

    fn weight(self, t: f64) -> f64 {
        match self {
            Self::Box if t > -0.5 && t <= 0.5 => 1.0,
            Self::Box => 0.0,
            Self::Bilinear => (1.0 - t.abs()).max(0.0),
        }
    }
}

/// For every output sample: the first input sample and the integer weights from there on, each in four copies.
struct Axis {
    first: Vec<usize>,
    weights: Vec<[i32; 4]>,
    taps: usize,
}

impl Axis {
    fn new(input: usize, output: usize, filter: Filter) -> Self {
        let scale = input as f64 / output as f64;
        let widening = scale.max(1.0);
        let support = filter.support() * widening;
        let span = |i: usize| {
            let centre = (i as f64 + 0.5) * scale;
            let start = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(input);
            (centre, start, end)
        };
        // Every row of weights has as many as the longest needs.
        let taps = (0..output).map(|i| span(i).2 - span(i).1).max().unwrap_or(1);
        let taps = taps.clamp(1, input);
        let (mut first, mut weights) = (Vec::with_capacity(output), vec![[0; 4]; output * taps]);
        for (i, row) in weights.chunks_exact_mut(taps).enumerate() {
            let (centre, start, end) = span(i);
            let weight = |tap: usize| filter.weight((tap as f64 - centre + 0.5) / widening);
            let total: f64 = (start..end).map(weight).sum();
            // Rows near the end are padded in front, so that every row reads `taps` samples inside the input.
            let shifted = start.min(input - taps);
            first.push(shifted);
            for (tap, slot) in (start..end).zip(&mut row[start - shifted..]) {
                *slot = [(weight(tap) / total * f64::from(1 << PRECISION) + 0.5) as i32; 4];
            }
        }
        Self { first, weights, taps }
    }

    fn rows(&self) -> impl Iterator<Item = (usize, &[[i32; 4]])> {
        self.first.iter().copied().zip(self.weights.chunks_exact(self.taps))
    }
}

/// `image` at `width` x `height` (each at least 1). An axis that keeps its size is left alone.
pub fn resize(image: &Image, width: usize, height: usize, filter: Filter) -> Image {
    if filter == Filter::Box && width >= image.width() && height >= image.height() {
        return repeat(image, width, height);
    }
    let mut rgb = Cow::Borrowed(image.rgb());
    if width != image.width() {
        let axis = Axis::new(image.width(), width, filter);
        rgb = Cow::Owned(along_rows(&rgb, image.width(), &axis));
    }
    if height != image.height() {
        let axis = Axis::new(image.height(), height, filter);
        rgb = Cow::Owned(down_columns(&rgb, 3 * width, &axis));
    }
    let rgb = rgb.into_owned();
    Image::new(width, height, rgb).expect("each axis gives one sample per output position")
}

/// The weights are not negative and add up to one but for their rounding, so the sum stays below 256.
#[inline(always)]
fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION) as u8
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn along_rows(rgb: &[u8], width: usize, axis: &Axis) -> Vec<u8> {
    // The common tap counts have loops of fixed length.
    match axis.taps {
        2 => along_rows_by(rgb, width, axis, weigh_pixels::<2>),
        3 => along_rows_by(rgb, width, axis, weigh_pixels::<3>),
        4 => along_rows_by(rgb, width, axis, weigh_pixels::<4>),
        5 => along_rows_by(rgb, width, axis, weigh_pixels::<5>),
        _ => along_rows_by(rgb, width, axis, weigh_more_pixels),
    }
}

#[inline(always)]
fn weigh_pixels<const TAPS: usize>(bytes: &[u8], weights: &[[i32; 4]]) -> [i32; 4] {
    let (bytes, weights) = (&bytes[..3 * TAPS + 1], &weights[..TAPS]);
    let mut sums = [HALF; 4];
    for tap in 0..TAPS {
        for k in 0..4 {
            sums[k] += i32::from(bytes[3 * tap + k]) * weights[tap][k];
        }
    }
    sums
}

#[inline(always)]
fn weigh_more_pixels(bytes: &[u8], weights: &[[i32; 4]]) -> [i32; 4] {
    let mut sums = [HALF; 4];
    for (pixel, weight) in bytes.windows(4).step_by(3).zip(weights) {
        for k in 0..4 {
            sums[k] += i32::from(pixel[k]) * weight[k];
        }
    }
    sums
}

/// `weigh` reads a byte more than its pixels have and gives a fourth sum, so that pixels are four lanes wide.
#[inline(always)]
fn along_rows_by(rgb: &[u8], width: usize, axis: &Axis, weigh: impl Fn(&[u8], &[[i32; 4]]) -> [i32; 4]) -> Vec<u8> {
    let out_width = 3 * axis.first.len();
    let mut out = Vec::with_capacity(rgb.len() / width * axis.first.len());
    let (mut padded, mut line) = (vec![0; 3 * width + 1], vec![0; out_width + 1]);
    for row in rgb.chunks_exact(3 * width) {
        padded[..3 * width].copy_from_slice(row);
        for ((i, &first), weights) in (0..).zip(&axis.first).zip(axis.weights.chunks(axis.taps)) {
            let [r, g, b, beyond] = weigh(&padded[3 * first..], weights);
            // The byte beyond the pixel is overwritten by the next one.
            line[3 * i..3 * i + 4].copy_from_slice(&[to_byte(r), to_byte(g), to_byte(b), to_byte(beyond)]);
        }
        out.extend_from_slice(&line[..out_width]);
    }
    out
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn down_columns(rgb: &[u8], stride: usize, axis: &Axis) -> Vec<u8> {
    let mut out = vec![0; stride * axis.first.len()];
    let mut sums = vec![0; stride];
    for (out, (first, weights)) in out.chunks_exact_mut(stride).zip(axis.rows()) {
        sums.fill(HALF);
        for (row, &[weight, ..]) in rgb[first * stride..].chunks_exact(stride).zip(weights) {
            if weight != 0 {
                for (sum, &byte) in sums.iter_mut().zip(row) {
                    *sum += i32::from(byte) * weight;
                }
            }
        }
        for (byte, &sum) in out.iter_mut().zip(&sums) {
            *byte = to_byte(sum);
        }
    }
    out
}

/// Enlarging with the box filter reads exactly one pixel, the one at `floor((i + 0.5) * in / out)`.
fn repeat(image: &Image, width: usize, height: usize) -> Image {
    let origins = |input: usize, output: usize| -> Vec<usize> {
        let scale = input as f64 / output as f64;
        (0..output).map(|i| (((i as f64 + 0.5) * scale) as usize).min(input - 1)).collect()
    };
    let (rows, columns) = (origins(image.height(), height), origins(image.width(), width));
    let mut rgb: Vec<u8> = Vec::with_capacity(3 * width * height);
    // Four bytes are moved at a time, and the fourth is overwritten by the next pixel.
    let (mut padded, mut line) = (vec![0; 3 * image.width() + 1], vec![0; 3 * width + 1]);
    for (y, &row) in rows.iter().enumerate() {
        if y == 0 || rows[y - 1] != row {
            let source = &image.rgb()[3 * row * image.width()..][..3 * image.width()];
            padded[..source.len()].copy_from_slice(source);
            for (i, &column) in columns.iter().enumerate() {
                line[3 * i..3 * i + 4].copy_from_slice(&padded[3 * column..3 * column + 4]);
            }
        }
        rgb.extend_from_slice(&line[..3 * width]);
    }
    Image::new(width, height, rgb).expect("one pixel is read per output position")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_averages_pairs_with_rounding() {
        let image = Image::new(4, 1, vec![0, 10, 20, 1, 11, 21, 100, 0, 255, 103, 1, 255]).expect("4 x 1");
        let small = resize(&image, 2, 1, Filter::Box);
        assert_eq!(small.rgb(), [1, 11, 21, 102, 1, 255]);
    }

    #[test]
    fn enlarging_with_the_box_repeats_pixels() {
        let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).expect("2 x 1");
        let big = resize(&image, 3, 2, Filter::Box);
        assert_eq!(big.rgb(), [1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
    }

    #[test]
    fn a_flat_image_stays_flat_at_any_size() {
        let image = Image::new(13, 7, vec![211; 3 * 13 * 7]).expect("13 x 7");
        for filter in [Filter::Box, Filter::Bilinear] {
            for (width, height) in [(1, 1), (5, 7), (13, 3), (29, 2), (40, 40)] {
                let after = resize(&image, width, height, filter);
                assert!(after.rgb().iter().all(|&byte| byte == 211), "{filter:?} {width} x {height}");
            }
        }
    }
}
