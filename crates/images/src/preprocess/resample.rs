use super::crop::Span;
use super::{Interpolation, PreprocessError, Size};
use crate::Image;

/// Fraction bits of a weight; sums of bytes times weights then fit in 32 bits.
const PRECISION: u32 = 22;
const ROUND: i32 = 1 << (PRECISION - 1);
/// Longest side an image may have before or after.
const MAX_SIDE: usize = 1 << 20;
/// Most pixels the buffer between the two passes may hold.
const MAX_BETWEEN: usize = 1 << 28;
/// Bytes of an output row summed at a time.
const LANES: usize = 64;

/// `image` at `size`, as Pillow's `resize` gives it: horizontal pass first, rounded to bytes between the passes. (From
/// version 13 on Pillow turns the order round when the height shrinks much more than the width, which no resize that
/// keeps the ratio does.)
pub fn resize(image: &Image, size: Size, interpolation: Interpolation) -> Result<Image, PreprocessError> {
    let columns = Span::whole(size.width);
    let rows = Span::whole(size.height);
    resize_part(image, size, columns, rows, interpolation)
}

/// The `columns` and `rows` of `image` resized to `size`; nothing else is computed.
pub(super) fn resize_part(
    image: &Image,
    size: Size,
    columns: Span,
    rows: Span,
    interpolation: Interpolation,
) -> Result<Image, PreprocessError> {
    let (width, height) = (image.width(), image.height());
    for (width, height) in [(width, height), (size.width, size.height)] {
        if width == 0 || height == 0 {
            return Err(PreprocessError::NoPixels { width, height });
        }
    }
    if size == (Size { width, height }) {
        return Ok(copy_part(image, columns, rows));
    }
    let too_long = || PreprocessError::TooLong { width, height, to_width: size.width, to_height: size.height };
    let sides = [width, height, size.width, size.height];
    if sides.iter().any(|&side| side > MAX_SIDE) {
        return Err(too_long());
    }
    if interpolation == Interpolation::Nearest {
        return Ok(nearest(image, size, columns, rows));
    }
    let across = Taps::new(width, size.width, columns, interpolation);
    let down = Taps::new(height, size.height, rows, interpolation);
    // Only the rows the second pass reads go through the first.
    let (first, last) = down.reach();
    if (last - first).saturating_mul(columns.len) > MAX_BETWEEN {
        return Err(too_long());
    }
    let stride = 3 * columns.len;
    let mut between = vec![0; (last - first) * stride];
    pass_across(image, first, &across, &mut between);
    let mut rgb = vec![0; rows.len * stride];
    pass_down(&between, first, stride, &down, &mut rgb);
    Ok(Image::new(columns.len, rows.len, rgb).expect("the buffer was sized from the spans"))
}

/// The input pixels and weights of each output pixel of one axis.
struct Taps {
    /// First input pixel and number of weights, per output pixel.
    ranges: Vec<(usize, usize)>,
    /// `ranges.len()` rows of `width` weights.
    weights: Vec<i32>,
    width: usize,
}

impl Taps {
    fn new(input: usize, output: usize, span: Span, interpolation: Interpolation) -> Self {
        if input == output {
            // Pillow skips the pass; one full weight gives every byte back.
            return Self {
                ranges: (span.start..span.start + span.len).map(|i| (i, 1)).collect(),
                weights: vec![1 << PRECISION; span.len],
                width: 1,
            };
        }
        let scale = input as f64 / output as f64;
        let stretch = scale.max(1.0);
        let support = radius(interpolation) * stretch;
        let width = support.ceil() as usize * 2 + 1;
        let mut ranges = Vec::with_capacity(span.len);
        let mut weights = vec![0; span.len * width];
        let mut exact = Vec::with_capacity(width);
        for (i, row) in weights.chunks_exact_mut(width).enumerate() {
            let centre = ((span.start + i) as f64 + 0.5) * scale;
            let from = (centre - support + 0.5).max(0.0) as usize;
            let to = ((centre + support + 0.5) as usize).min(input);
            exact.clear();
            exact.extend((from..to).map(|tap| filter(interpolation, (tap as f64 - centre + 0.5) * (1.0 / stretch))));
            let sum: f64 = exact.iter().sum();
            for (weight, &share) in row.iter_mut().zip(&exact) {
                let share = if sum == 0.0 { share } else { share / sum };
                let fixed = share * f64::from(1u32 << PRECISION);
                *weight = (fixed + if share < 0.0 { -0.5 } else { 0.5 }) as i32;
            }
            ranges.push((from, to.saturating_sub(from).min(width)));
        }
        Self { ranges, weights, width }
    }

    /// The first input pixel read and the one after the last.
    fn reach(&self) -> (usize, usize) {
        let first = self.ranges.iter().map(|r| r.0).min().unwrap_or(0);
        let last = self.ranges.iter().map(|r| r.0 + r.1).max().unwrap_or(0);
        (first, last.max(first))
    }

    fn of(&self, i: usize) -> (usize, &[i32]) {
        let (from, len) = self.ranges[i];
        (from, &self.weights[i * self.width..i * self.width + len])
    }
}

fn radius(interpolation: Interpolation) -> f64 {
    match interpolation {
        Interpolation::Nearest | Interpolation::Box => 0.5,
        Interpolation::Bilinear => 1.0,
        Interpolation::Bicubic => 2.0,
        Interpolation::Lanczos => 3.0,
    }
}

fn filter(interpolation: Interpolation, x: f64) -> f64 {
    let distance = x.abs();
    match interpolation {
        Interpolation::Nearest | Interpolation::Box => {
            if x > -0.5 && x <= 0.5 {
                1.0
            } else {
                0.0
            }
        }
        Interpolation::Bilinear => (1.0 - distance).max(0.0),
        Interpolation::Bicubic => {
            const A: f64 = -0.5;
            if distance < 1.0 {
                ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0
            } else if distance < 2.0 {
                (((distance - 5.0) * distance + 8.0) * distance - 4.0) * A
            } else {
                0.0
            }
        }
        Interpolation::Lanczos => {
            if (-3.0..3.0).contains(&x) {
                sinc(x) * sinc(x / 3.0)
            } else {
                0.0
            }
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * std::f64::consts::PI;
    x.sin() / x
}

fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

/// Rows from `first` on, each shortened or stretched into a row of `out`.
fn pass_across(image: &Image, first: usize, taps: &Taps, out: &mut [u8]) {
    let stride = 3 * image.width();
    let rows = image.rgb()[first * stride..].chunks_exact(stride);
    for (row, row_out) in rows.zip(out.chunks_exact_mut(3 * taps.ranges.len())) {
        for (x, pixel) in row_out.chunks_exact_mut(3).enumerate() {
            let (from, weights) = taps.of(x);
            let sources = row[3 * from..3 * (from + weights.len())].chunks_exact(3);
            let mut sums = [ROUND; 3];
            for (source, &weight) in sources.zip(weights) {
                for c in 0..3 {
                    sums[c] += i32::from(source[c]) * weight;
                }
            }
            for c in 0..3 {
                pixel[c] = to_byte(sums[c]);
            }
        }
    }
}

/// Each row of `out` from the rows of `between`, whose first is input row `first`.
fn pass_down(between: &[u8], first: usize, stride: usize, taps: &Taps, out: &mut [u8]) {
    for (y, row_out) in out.chunks_exact_mut(stride).enumerate() {
        let (from, weights) = taps.of(y);
        let rows = &between[(from - first) * stride..(from - first + weights.len()) * stride];
        for (part, bytes_out) in row_out.chunks_mut(LANES).enumerate() {
            let at = part * LANES;
            let mut sums = [ROUND; LANES];
            for (row, &weight) in rows.chunks_exact(stride).zip(weights) {
                if let Some(bytes) = row.get(at..at + LANES) {
                    for (sum, &byte) in sums.iter_mut().zip(bytes) {
                        *sum += i32::from(byte) * weight;
                    }
                } else {
                    for (sum, &byte) in sums.iter_mut().zip(&row[at..]) {
                        *sum += i32::from(byte) * weight;
                    }
                }
            }
            for (byte, &sum) in bytes_out.iter_mut().zip(&sums) {
                *byte = to_byte(sum);
            }
        }
    }
}

/// The pixel under each output centre. The position is summed step by step, as Pillow does, so that it rounds alike.
fn nearest(image: &Image, size: Size, columns: Span, rows: Span) -> Image {
    let positions = |input: usize, output: usize, span: Span| -> Vec<usize> {
        let step = input as f64 / output as f64;
        let mut at = step * 0.5;
        let mut kept = Vec::with_capacity(span.len);
        for i in 0..span.start + span.len {
            if i >= span.start {
                kept.push((at as usize).min(input - 1));
            }
            at += step;
        }
        kept
    };
    let xs = positions(image.width(), size.width, columns);
    let ys = positions(image.height(), size.height, rows);
    let mut rgb = Vec::with_capacity(3 * xs.len() * ys.len());
    for &y in &ys {
        for &x in &xs {
            let at = 3 * (y * image.width() + x);
            rgb.extend_from_slice(&image.rgb()[at..at + 3]);
        }
    }
    Image::new(columns.len, rows.len, rgb).expect("one pixel was pushed per position")
}

fn copy_part(image: &Image, columns: Span, rows: Span) -> Image {
    let stride = 3 * image.width();
    let mut rgb = Vec::with_capacity(3 * columns.len * rows.len);
    for y in rows.start..rows.start + rows.len {
        let at = y * stride + 3 * columns.start;
        rgb.extend_from_slice(&image.rgb()[at..at + 3 * columns.len]);
    }
    Image::new(columns.len, rows.len, rgb).expect("one row was pushed per row of the span")
}

#[cfg(test)]
mod tests;
