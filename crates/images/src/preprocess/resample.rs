use multiversion::multiversion;

use super::crop::Span;
use super::{Interpolation, PreprocessError, Size};
use crate::Image;

/// Fraction bits of a weight; sums of bytes times weights then fit in 32 bits.
const PRECISION: u32 = 22;
const HALF: i32 = 1 << (PRECISION - 1);
/// Longest side an image may have before or after.
const MAX_SIDE: usize = 1 << 20;
/// Most pixels the buffer between the two passes may hold.
const MAX_BETWEEN: usize = 1 << 28;

/// Which axis is resampled first. The bytes between the two passes are rounded, so the order shows in some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassOrder {
    /// As Pillow from version 13 on: columns first where the height loses pixels, and more than twice as many as the width.
    Pillow13,
    /// Rows first, as Pillow before version 13, which made the published corruptions.
    RowsFirst,
}

impl PassOrder {
    fn columns_first(self, from: Size, to: Size) -> bool {
        let lost = |from: usize, to: usize| from as i64 - to as i64;
        let height = lost(from.height, to.height);
        self == Self::Pillow13 && height > 0 && height > 2 * lost(from.width, to.width)
    }
}

/// `image` at `size`, byte for byte as Pillow's `resize` gives it.
///
/// ```
/// use flipcast_images::{Image, preprocess::{Interpolation, PassOrder, Size, resize}};
///
/// let image = Image::new(2, 1, vec![0, 0, 0, 100, 50, 10]).expect("two pixels");
/// let size = Size { width: 1, height: 1 };
/// let mean = resize(&image, size, Interpolation::Box, PassOrder::Pillow13)?;
/// assert_eq!(mean.rgb(), [50, 25, 5]);
/// # Ok::<(), flipcast_images::preprocess::PreprocessError>(())
/// ```
pub fn resize(
    image: &Image,
    size: Size,
    interpolation: Interpolation,
    order: PassOrder,
) -> Result<Image, PreprocessError> {
    let columns = Span::whole(size.width);
    let rows = Span::whole(size.height);
    resize_part(image, size, columns, rows, interpolation, order)
}

/// The `columns` and `rows` of `image` resized to `size`; nothing else is computed.
pub(super) fn resize_part(
    image: &Image,
    size: Size,
    columns: Span,
    rows: Span,
    interpolation: Interpolation,
    order: PassOrder,
) -> Result<Image, PreprocessError> {
    let (width, height) = (image.width(), image.height());
    for (width, height) in [(width, height), (size.width, size.height)] {
        if width == 0 || height == 0 {
            return Err(PreprocessError::NoPixels { width, height });
        }
    }
    let too_long = || PreprocessError::TooLong { width, height, to_width: size.width, to_height: size.height };
    let sides = [width, height, size.width, size.height];
    let same_size = size == Size { width, height };
    if !same_size && sides.iter().any(|&side| side > MAX_SIDE) {
        return Err(too_long());
    }
    // Enlarging with the box reads one pixel each.
    let boxed = interpolation == Interpolation::Box && size.width >= width && size.height >= height;
    if same_size || boxed {
        return Ok(gather(
            image,
            &under_centres(width, size.width, columns),
            &under_centres(height, size.height, rows),
        ));
    }
    if interpolation == Interpolation::Nearest {
        return Ok(gather(image, &stepped(width, size.width, columns), &stepped(height, size.height, rows)));
    }
    let across = Taps::new(width, size.width, columns, interpolation);
    let down = Taps::new(height, size.height, rows, interpolation);
    let columns_first = order.columns_first(Size { width, height }, size);
    // Only the rows the second pass reads go through the first.
    let (first, last) = down.reach();
    let between =
        if columns_first { rows.len.saturating_mul(width) } else { (last - first).saturating_mul(columns.len) };
    if between > MAX_BETWEEN {
        return Err(too_long());
    }
    let rgb = if columns_first {
        along_rows(&down_columns(image.rgb(), 3 * width, 0, &down), width, &across)
    } else {
        let read = &image.rgb()[3 * width * first..3 * width * last];
        down_columns(&along_rows(read, width, &across), 3 * columns.len, first, &down)
    };
    Ok(Image::new(columns.len, rows.len, rgb).expect("each pass gives one pixel per position of its span"))
}

/// For every output pixel of one axis: the first input pixel and the integer weights from there on, each in four copies.
struct Taps {
    first: Vec<usize>,
    weights: Vec<[i32; 4]>,
    taps: usize,
}

impl Taps {
    fn new(input: usize, output: usize, span: Span, interpolation: Interpolation) -> Self {
        if input == output {
            // Pillow skips the pass; one full weight gives every byte back.
            let first = (span.start..span.start + span.len).collect();
            return Self { first, weights: vec![[1 << PRECISION; 4]; span.len], taps: 1 };
        }
        let scale = input as f64 / output as f64;
        let stretch = scale.max(1.0);
        let support = radius(interpolation) * stretch;
        let range = |i: usize| {
            let centre = ((span.start + i) as f64 + 0.5) * scale;
            let from = (centre - support + 0.5).max(0.0) as usize;
            let to = ((centre + support + 0.5) as usize).min(input);
            (centre, from.min(to), to)
        };
        // Every output pixel has as many weights as the one that needs most.
        let taps = (0..span.len).map(|i| range(i).2 - range(i).1).max().unwrap_or(1).max(1);
        let (mut first, mut weights) = (Vec::with_capacity(span.len), vec![[0; 4]; span.len * taps]);
        let mut exact = Vec::with_capacity(taps);
        for (i, row) in weights.chunks_exact_mut(taps).enumerate() {
            let (centre, from, to) = range(i);
            exact.clear();
            exact.extend((from..to).map(|tap| filter(interpolation, (tap as f64 - centre + 0.5) * (1.0 / stretch))));
            let sum: f64 = exact.iter().sum();
            // Near the end the weights move back behind zeros, so that all `taps` pixels lie inside the input.
            let shifted = from.min(input - taps);
            first.push(shifted);
            for (weight, &share) in row[from - shifted..].iter_mut().zip(&exact) {
                let share = if sum == 0.0 { share } else { share / sum };
                let fixed = share * f64::from(1u32 << PRECISION);
                *weight = [(fixed + if share < 0.0 { -0.5 } else { 0.5 }) as i32; 4];
            }
        }
        Self { first, weights, taps }
    }

    /// The first input pixel read and the one after the last.
    fn reach(&self) -> (usize, usize) {
        let first = self.first.iter().copied().min().unwrap_or(0);
        (first, self.first.iter().map(|first| first + self.taps).max().unwrap_or(first))
    }

    fn rows(&self) -> impl Iterator<Item = (usize, &[[i32; 4]])> {
        self.first.iter().copied().zip(self.weights.chunks_exact(self.taps))
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

#[inline(always)]
fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

/// Every row of `rgb`, `width` pixels long, shortened or stretched.
#[multiversion(targets("x86_64+avx2+fma"))]
fn along_rows(rgb: &[u8], width: usize, taps: &Taps) -> Vec<u8> {
    // The common numbers of weights have loops of fixed length.
    match taps.taps {
        2 => along_rows_by(rgb, width, taps, weigh_pixels::<2>),
        3 => along_rows_by(rgb, width, taps, weigh_pixels::<3>),
        4 => along_rows_by(rgb, width, taps, weigh_pixels::<4>),
        5 => along_rows_by(rgb, width, taps, weigh_pixels::<5>),
        _ => along_rows_by(rgb, width, taps, weigh_more_pixels),
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
fn along_rows_by(rgb: &[u8], width: usize, taps: &Taps, weigh: impl Fn(&[u8], &[[i32; 4]]) -> [i32; 4]) -> Vec<u8> {
    let out_width = 3 * taps.first.len();
    let mut out = Vec::with_capacity(rgb.len() / width * taps.first.len());
    let (mut padded, mut line) = (vec![0; 3 * width + 1], vec![0; out_width + 1]);
    for row in rgb.chunks_exact(3 * width) {
        padded[..3 * width].copy_from_slice(row);
        for (i, (first, weights)) in taps.rows().enumerate() {
            let sums = weigh(&padded[3 * first..], weights);
            // The byte beyond the pixel is overwritten by the next one.
            line[3 * i..3 * i + 4].copy_from_slice(&sums.map(to_byte));
        }
        out.extend_from_slice(&line[..out_width]);
    }
    out
}

/// Each output row from the rows of `rgb`, whose first is input row `first_row`.
#[multiversion(targets("x86_64+avx2+fma"))]
fn down_columns(rgb: &[u8], stride: usize, first_row: usize, taps: &Taps) -> Vec<u8> {
    let mut out = vec![0; stride * taps.first.len()];
    let mut sums = vec![0; stride];
    for (out, (first, weights)) in out.chunks_exact_mut(stride).zip(taps.rows()) {
        sums.fill(HALF);
        for (row, &[weight, ..]) in rgb[(first - first_row) * stride..].chunks_exact(stride).zip(weights) {
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

/// The input pixel under the centre of each output pixel.
fn under_centres(input: usize, output: usize, span: Span) -> Vec<usize> {
    let scale = input as f64 / output as f64;
    (span.start..span.start + span.len).map(|i| (((i as f64 + 0.5) * scale) as usize).min(input - 1)).collect()
}

/// The same as Pillow's nearest neighbour finds it: the position is summed step by step and rounds accordingly.
fn stepped(input: usize, output: usize, span: Span) -> Vec<usize> {
    let step = input as f64 / output as f64;
    let positions = std::iter::successors(Some(step * 0.5), |at| Some(at + step));
    positions.skip(span.start).take(span.len).map(|at| (at as usize).min(input - 1)).collect()
}

/// The pixels of `image` at these columns of these rows.
fn gather(image: &Image, columns: &[usize], rows: &[usize]) -> Image {
    let (width, stride) = (columns.len(), 3 * image.width());
    let mut rgb = Vec::with_capacity(3 * width * rows.len());
    // Four bytes are moved at a time, and the fourth is overwritten by the next pixel.
    let (mut padded, mut line) = (vec![0; stride + 1], vec![0; 3 * width + 1]);
    for (y, &row) in rows.iter().enumerate() {
        if y == 0 || rows[y - 1] != row {
            padded[..stride].copy_from_slice(&image.rgb()[row * stride..][..stride]);
            for (x, &column) in columns.iter().enumerate() {
                line[3 * x..3 * x + 4].copy_from_slice(&padded[3 * column..3 * column + 4]);
            }
        }
        rgb.extend_from_slice(&line[..3 * width]);
    }
    Image::new(width, rows.len(), rgb).expect("one pixel is read per position")
}

#[cfg(test)]
mod tests;
