//! Resampling as Pillow does it: integer weights, horizontal pass first, rounded to bytes between the passes.

use std::borrow::Cow;

use flipcast_images::Image;

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

/// For every output sample: the first input sample and the integer weights from there on.
struct Axis {
    first: Vec<usize>,
    weights: Vec<i32>,
    taps: usize,
}

impl Axis {
    fn new(input: usize, output: usize, filter: Filter) -> Self {
        let scale = input as f64 / output as f64;
        let widening = scale.max(1.0);
        let support = filter.support() * widening;
        let mut rows = Vec::with_capacity(output);
        for i in 0..output {
            let centre = (i as f64 + 0.5) * scale;
            let start = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(input);
            let raw: Vec<f64> = (start..end)
                .map(|tap| filter.weight((tap as f64 - centre + 0.5) / widening))
                .collect();
            let total: f64 = raw.iter().sum();
            let whole = |weight: &f64| (weight / total * f64::from(1 << PRECISION) + 0.5) as i32;
            let mut weights: Vec<i32> = raw.iter().map(whole).collect();
            let last = weights.iter().rposition(|&weight| weight != 0).unwrap_or(0);
            weights.truncate(last + 1);
            rows.push((start, weights));
        }
        let taps = rows
            .iter()
            .map(|(_, weights)| weights.len())
            .max()
            .unwrap_or(1);
        let (mut first, mut weights) = (
            Vec::with_capacity(output),
            Vec::with_capacity(output * taps),
        );
        for (start, row) in rows {
            // Rows near the end are padded in front, so that every row reads `taps` samples inside the input.
            let shifted = start.min(input - taps.min(input));
            first.push(shifted);
            let end = weights.len() + taps;
            weights.resize(weights.len() + start - shifted, 0);
            weights.extend(row);
            weights.resize(end, 0);
        }
        Self {
            first,
            weights,
            taps,
        }
    }

    fn rows(&self) -> impl Iterator<Item = (usize, &[i32])> {
        self.first
            .iter()
            .copied()
            .zip(self.weights.chunks_exact(self.taps))
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

fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

fn along_rows(rgb: &[u8], width: usize, axis: &Axis) -> Vec<u8> {
    // The common tap counts have loops of fixed length.
    match axis.taps {
        2 => along_rows_fixed::<2>(rgb, width, axis),
        3 => along_rows_fixed::<3>(rgb, width, axis),
        4 => along_rows_fixed::<4>(rgb, width, axis),
        _ => along_rows_by(rgb, width, axis, |row, weights| {
            let mut sums = [HALF; 3];
            for (pixel, &weight) in row.chunks_exact(3).zip(weights) {
                for (sum, &byte) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(byte) * weight;
                }
            }
            sums
        }),
    }
}

fn along_rows_fixed<const TAPS: usize>(rgb: &[u8], width: usize, axis: &Axis) -> Vec<u8> {
    along_rows_by(rgb, width, axis, |row, weights| {
        let (Some(pixels), Some(weights)) = (
            row.as_chunks::<3>().0.first_chunk::<TAPS>(),
            weights.first_chunk::<TAPS>(),
        ) else {
            return [HALF; 3];
        };
        let mut sums = [HALF; 3];
        for (pixel, weight) in pixels.iter().zip(weights) {
            for channel in 0..3 {
                sums[channel] += i32::from(pixel[channel]) * weight;
            }
        }
        sums
    })
}

fn along_rows_by(
    rgb: &[u8],
    width: usize,
    axis: &Axis,
    weigh: impl Fn(&[u8], &[i32]) -> [i32; 3],
) -> Vec<u8> {
    let mut out = vec![0; rgb.len() / width * axis.first.len()];
    for (row, out_row) in rgb
        .chunks_exact(3 * width)
        .zip(out.chunks_exact_mut(3 * axis.first.len()))
    {
        for (pixel, (first, weights)) in out_row.as_chunks_mut::<3>().0.iter_mut().zip(axis.rows())
        {
            *pixel = weigh(&row[3 * first..], weights).map(to_byte);
        }
    }
    out
}

fn down_columns(rgb: &[u8], stride: usize, axis: &Axis) -> Vec<u8> {
    let mut out = Vec::with_capacity(stride * axis.first.len());
    let mut sums = vec![0; stride];
    for (first, weights) in axis.rows() {
        sums.fill(HALF);
        for (row, &weight) in rgb[first * stride..].chunks_exact(stride).zip(weights) {
            if weight != 0 {
                for (sum, &byte) in sums.iter_mut().zip(row) {
                    *sum += i32::from(byte) * weight;
                }
            }
        }
        out.extend(sums.iter().map(|&sum| to_byte(sum)));
    }
    out
}

/// Enlarging with the box filter reads exactly one pixel, the one at `floor((i + 0.5) * in / out)`.
fn repeat(image: &Image, width: usize, height: usize) -> Image {
    let origins = |input: usize, output: usize| -> Vec<usize> {
        let scale = input as f64 / output as f64;
        (0..output)
            .map(|i| (((i as f64 + 0.5) * scale) as usize).min(input - 1))
            .collect()
    };
    let (rows, columns) = (
        origins(image.height(), height),
        origins(image.width(), width),
    );
    let mut rgb = vec![0; 3 * width * height];
    for (y, &row) in rows.iter().enumerate() {
        let (done, open) = rgb.split_at_mut(3 * width * y);
        let out_row = &mut open[..3 * width];
        if y > 0 && rows[y - 1] == row {
            out_row.copy_from_slice(&done[done.len() - 3 * width..]);
            continue;
        }
        let source = image.rgb()[3 * row * image.width()..].as_chunks::<3>().0;
        for (pixel, &column) in out_row.as_chunks_mut::<3>().0.iter_mut().zip(&columns) {
            *pixel = source[column];
        }
    }
    Image::new(width, height, rgb).expect("one pixel is read per output position")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_averages_pairs_with_rounding() {
        let image =
            Image::new(4, 1, vec![0, 10, 20, 1, 11, 21, 100, 0, 255, 103, 1, 255]).expect("4 x 1");
        let small = resize(&image, 2, 1, Filter::Box);
        assert_eq!(small.rgb(), [1, 11, 21, 102, 1, 255]);
    }

    #[test]
    fn enlarging_with_the_box_repeats_pixels() {
        let image = Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).expect("2 x 1");
        let big = resize(&image, 3, 2, Filter::Box);
        assert_eq!(
            big.rgb(),
            [1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6]
        );
    }

    #[test]
    fn a_flat_image_stays_flat_at_any_size() {
        let image = Image::new(13, 7, vec![211; 3 * 13 * 7]).expect("13 x 7");
        for filter in [Filter::Box, Filter::Bilinear] {
            for (width, height) in [(1, 1), (5, 7), (13, 3), (29, 2), (40, 40)] {
                let after = resize(&image, width, height, filter);
                assert!(
                    after.rgb().iter().all(|&byte| byte == 211),
                    "{filter:?} {width} x {height}"
                );
            }
        }
    }
}
