//! Resampling as Pillow does it: integer weights, horizontal pass first, rounded to bytes between the passes.

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
            let raw: Vec<f64> =
                (start..end).map(|tap| filter.weight((tap as f64 - centre + 0.5) / widening)).collect();
            let total: f64 = raw.iter().sum();
            let whole = |weight: &f64| (weight / total * f64::from(1 << PRECISION) + 0.5) as i32;
            let mut weights: Vec<i32> = raw.iter().map(whole).collect();
            let last = weights.iter().rposition(|&weight| weight != 0).unwrap_or(0);
            weights.truncate(last + 1);
            rows.push((start, weights));
        }
        let taps = rows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(1);
        let (mut first, mut weights) = (Vec::with_capacity(output), Vec::with_capacity(output * taps));
        for (start, row) in rows {
            // Rows near the end are padded in front, so that every row reads `taps` samples inside the input.
            let shifted = start.min(input - taps.min(input));
            first.push(shifted);
            let end = weights.len() + taps;
            weights.resize(weights.len() + start - shifted, 0);
            weights.extend(row);
            weights.resize(end, 0);
        }
        Self { first, weights, taps }
    }

    fn rows(&self) -> impl Iterator<Item = (usize, &[i32])> {
        self.first.iter().copied().zip(self.weights.chunks_exact(self.taps))
    }
}

/// `image` at `width` x `height` (each at least 1). An axis that keeps its size is left alone.
pub fn resize(image: &Image, width: usize, height: usize, filter: Filter) -> Image {
    if filter == Filter::Box && width >= image.width() && height >= image.height() {
        return repeat(image, width, height);
    }
    let mut rgb = image.rgb().to_vec();
    if width != image.width() {
        rgb = along_rows(&rgb, image.width(), &Axis::new(image.width(), width, filter));
    }
    if height != image.height() {
        rgb = down_columns(&rgb, 3 * width, &Axis::new(image.height(), height, filter));
    }
    Image::new(width, height, rgb).expect("each axis gives one sample per output position")
}

fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

fn along_rows(rgb: &[u8], width: usize, axis: &Axis) -> Vec<u8> {
    let mut out = Vec::with_capacity(rgb.len() / width * axis.first.len());
    for row in rgb.chunks_exact(3 * width) {
        for (first, weights) in axis.rows() {
            let (mut r, mut g, mut b) = (HALF, HALF, HALF);
            for (pixel, &weight) in row[3 * first..].chunks_exact(3).zip(weights) {
                r += i32::from(pixel[0]) * weight;
                g += i32::from(pixel[1]) * weight;
                b += i32::from(pixel[2]) * weight;
            }
            out.extend_from_slice(&[to_byte(r), to_byte(g), to_byte(b)]);
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
        (0..output).map(|i| (((i as f64 + 0.5) * scale) as usize).min(input - 1)).collect()
    };
    let (rows, columns) = (origins(image.height(), height), origins(image.width(), width));
    let mut rgb: Vec<u8> = Vec::with_capacity(3 * width * height);
    for (y, &row) in rows.iter().enumerate() {
        if y > 0 && rows[y - 1] == row {
            rgb.extend_from_within(rgb.len() - 3 * width..);
            continue;
        }
        let source = &image.rgb()[3 * row * image.width()..][..3 * image.width()];
        for &column in &columns {
            rgb.extend_from_slice(&source[3 * column..3 * column + 3]);
        }
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
