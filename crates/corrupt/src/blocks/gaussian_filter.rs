//! Separable Gaussian smoothing, vertical pass first, as scipy's `gaussian_filter` does it.

use std::ops::{Add, Mul};

use super::border::Border;
use super::summation::pairwise_sum;

/// Outputs accumulated together, so that the running sums stay in registers.
const LANES: usize = 8;

/// Half of a symmetric, normalised kernel: `weights[0]` is the centre, `weights[i]` the taps `i` away.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianKernel {
    weights: Vec<f64>,
}

/// The shape of an interleaved array: rows, columns, samples per pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Pixels down.
    pub height: usize,
    /// Pixels across.
    pub width: usize,
    /// Samples per pixel, filtered independently.
    pub channels: usize,
}

impl GaussianKernel {
    /// The kernel of standard deviation `sigma` cut at `truncate` deviations: radius `int(truncate * sigma + 0.5)`.
    pub fn new(sigma: f64, truncate: f64) -> Self {
        let radius = (truncate * sigma + 0.5) as usize;
        if radius == 0 {
            return Self { weights: vec![1.0] };
        }
        let scale = -0.5 / (sigma * sigma);
        let at = |i: usize| (scale * (i * i) as f64).exp();
        let both_sides: Vec<f64> = (0..=2 * radius).map(|i| at(i.abs_diff(radius))).collect();
        let total = pairwise_sum(&both_sides);
        Self { weights: (0..=radius).map(|i| at(i) / total).collect() }
    }

    /// Taps on each side of the centre.
    pub fn radius(&self) -> usize {
        self.weights.len() - 1
    }

    /// Smooths `source` down its columns, then along its rows.
    pub fn filter(&self, source: &[f64], extent: Extent, border: Border) -> Vec<f64> {
        self.filter_as(source, extent, border, &self.weights)
    }

    /// [`GaussianKernel::filter`] on single-precision samples with double-precision sums; each pass stores floats.
    pub fn filter_through_f32(&self, source: &[f32], extent: Extent, border: Border) -> Vec<f32> {
        let through = |values: Vec<f64>| values.into_iter().map(|v| v as f32).collect::<Vec<f32>>();
        let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
        if self.radius() == 0 {
            return source.to_vec();
        }
        let mut middle = vec![0.0; source.len()];
        down_columns(&wide(source), &mut middle, extent, border, &self.weights);
        let middle = wide(&through(middle));
        let mut out = vec![0.0; source.len()];
        along_rows(&middle, &mut out, extent, border, &self.weights);
        through(out)
    }

    /// [`GaussianKernel::filter`] with single-precision samples, weights and sums.
    pub fn filter_f32(&self, source: &[f32], extent: Extent, border: Border) -> Vec<f32> {
        let weights: Vec<f32> = self.weights.iter().map(|&w| w as f32).collect();
        self.filter_as(source, extent, border, &weights)
    }

    fn filter_as<T>(&self, source: &[T], extent: Extent, border: Border, weights: &[T]) -> Vec<T>
    where
        T: Copy + Default + Add<Output = T> + Mul<Output = T>,
    {
        if self.radius() == 0 {
            return source.to_vec();
        }
        let mut middle = vec![T::default(); source.len()];
        down_columns(source, &mut middle, extent, border, weights);
        let mut out = vec![T::default(); source.len()];
        along_rows(&middle, &mut out, extent, border, weights);
        out
    }

    /// [`GaussianKernel::filter`] of one plane for kernels longer than the image: the taps that the mirror sends to the
    /// same sample are added up first, so the cost is the image side per sample and not the kernel length.
    pub fn filter_folded(&self, source: &[f64], extent: Extent, border: Border) -> Vec<f64> {
        let Extent { height, width, channels } = extent;
        debug_assert_eq!(channels, 1, "a folded filter works on one plane");
        let mut middle = vec![0.0; source.len()];
        multiply(&self.folded(height, border, Fold::ByOutput), source, &mut middle, (height, width));
        let mut out = vec![0.0; source.len()];
        multiply(&middle, &self.folded(width, border, Fold::ByInput), &mut out, (width, width));
        out
    }

    /// The filter on `n` samples as a dense matrix.
    fn folded(&self, n: usize, border: Border, fold: Fold) -> Vec<f64> {
        let radius = self.radius() as isize;
        let mut matrix = vec![0.0; n * n];
        for output in 0..n {
            for offset in -radius..=radius {
                let input = border.map(output as isize + offset, n);
                let cell = match fold {
                    Fold::ByOutput => output * n + input,
                    Fold::ByInput => input * n + output,
                };
                matrix[cell] += self.weights[offset.unsigned_abs()];
            }
        }
        matrix
    }
}

/// Which index of the folded matrix is its row.
#[derive(Clone, Copy)]
enum Fold {
    ByOutput,
    ByInput,
}

/// `out = left * right`, where `right` is `inner` x `columns`.
fn multiply(left: &[f64], right: &[f64], out: &mut [f64], (inner, columns): (usize, usize)) {
    for (left_row, out_row) in left.chunks_exact(inner).zip(out.chunks_exact_mut(columns)) {
        for (start, chunk) in (0..).step_by(LANES).zip(out_row.chunks_mut(LANES)) {
            let mut sums = [0.0; LANES];
            if chunk.len() == LANES {
                for (weight, row) in left_row.iter().zip(right.chunks_exact(columns)) {
                    let values: &[f64; LANES] = row[start..start + LANES].try_into().expect("slice of LANES");
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += weight * value;
                    }
                }
            } else {
                for (weight, row) in left_row.iter().zip(right.chunks_exact(columns)) {
                    for (sum, value) in sums.iter_mut().zip(&row[start..]) {
                        *sum += weight * value;
                    }
                }
            }
            chunk.copy_from_slice(&sums[..chunk.len()]);
        }
    }
}

fn down_columns<T>(source: &[T], out: &mut [T], extent: Extent, border: Border, weights: &[T])
where
    T: Copy + Default + Add<Output = T> + Mul<Output = T>,
{
    let stride = extent.width * extent.channels;
    let row = |y: isize| {
        let start = border.map(y, extent.height) * stride;
        &source[start..start + stride]
    };
    for (y, out_row) in out.chunks_exact_mut(stride).enumerate() {
        let y = y as isize;
        let pairs: Vec<_> = (1..weights.len() as isize).rev().map(|i| (row(y - i), row(y + i))).collect();
        symmetric_sum(out_row, row(y), &pairs, weights);
    }
}

fn along_rows<T>(source: &[T], out: &mut [T], extent: Extent, border: Border, weights: &[T])
where
    T: Copy + Default + Add<Output = T> + Mul<Output = T>,
{
    let Extent { width, channels, .. } = extent;
    let (radius, stride) = (weights.len() - 1, width * channels);
    let origin: Vec<usize> = (0..width + 2 * radius)
        .map(|x| border.map(x as isize - radius as isize, width) * channels)
        .collect();
    let mut padded = vec![T::default(); (width + 2 * radius) * channels];
    for (row, out_row) in source.chunks_exact(stride).zip(out.chunks_exact_mut(stride)) {
        for (pixel, &from) in padded.chunks_exact_mut(channels).zip(&origin) {
            pixel.copy_from_slice(&row[from..from + channels]);
        }
        let shifted = |taps: usize| &padded[taps * channels..taps * channels + stride];
        let pairs: Vec<_> = (1..=radius).rev().map(|i| (shifted(radius - i), shifted(radius + i))).collect();
        symmetric_sum(out_row, shifted(radius), &pairs, weights);
    }
}

/// `centre * weights[0]` plus each pair's sum times its weight, outermost pair first.
fn symmetric_sum<T>(out: &mut [T], centre: &[T], pairs: &[(&[T], &[T])], weights: &[T])
where
    T: Copy + Default + Add<Output = T> + Mul<Output = T>,
{
    let whole = out.len() - out.len() % LANES;
    for (start, chunk) in (0..whole).step_by(LANES).zip(out.chunks_exact_mut(LANES)) {
        let lanes = |row: &[T]| -> [T; LANES] { row[start..start + LANES].try_into().expect("slice of LANES") };
        let mut sums = lanes(centre).map(|v| v * weights[0]);
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            let (before, after) = (lanes(before), lanes(after));
            for k in 0..LANES {
                sums[k] = sums[k] + (before[k] + after[k]) * weight;
            }
        }
        chunk.copy_from_slice(&sums);
    }
    for k in whole..out.len() {
        let mut sum = centre[k] * weights[0];
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            sum = sum + (before[k] + after[k]) * weight;
        }
        out[k] = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<f64> {
        (0..len).map(|i| ((i * 7919 + 13) % 1009) as f64 / 1009.0).collect()
    }

    #[test]
    fn a_tiny_sigma_is_the_identity() {
        let extent = Extent { height: 3, width: 5, channels: 2 };
        let source = noise(30);
        assert_eq!(GaussianKernel::new(0.12, 4.0).filter(&source, extent, Border::Repeat), source);
    }

    #[test]
    fn a_flat_image_stays_flat_under_every_border() {
        let extent = Extent { height: 4, width: 7, channels: 3 };
        for border in [Border::Repeat, Border::HalfMirror, Border::Mirror101] {
            for value in GaussianKernel::new(2.0, 4.0).filter(&vec![0.5; 84], extent, border) {
                assert!((value - 0.5).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn folding_the_kernel_changes_only_the_rounding() {
        let extent = Extent { height: 9, width: 13, channels: 1 };
        let source = noise(117);
        let kernel = GaussianKernel::new(11.0, 3.0);
        let plain = kernel.filter(&source, extent, Border::HalfMirror);
        let folded = kernel.filter_folded(&source, extent, Border::HalfMirror);
        for (a, b) in plain.iter().zip(&folded) {
            assert!((a - b).abs() < 1e-13, "{a} and {b}");
        }
    }

    #[test]
    fn single_precision_follows_double_precision() {
        let extent = Extent { height: 6, width: 11, channels: 3 };
        let source = noise(198);
        let single: Vec<f32> = source.iter().map(|&v| v as f32).collect();
        let kernel = GaussianKernel::new(1.3, 4.0);
        let wide = kernel.filter(&source, extent, Border::Repeat);
        for (a, b) in wide.iter().zip(kernel.filter_f32(&single, extent, Border::Repeat)) {
            assert!((a - f64::from(b)).abs() < 1e-6);
        }
    }
}
