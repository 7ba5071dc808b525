//! Separable Gaussian smoothing, vertical pass first, as scipy's `gaussian_filter` does it.

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
        let mut out = Vec::with_capacity(source.len());
        self.filter_rows(source, extent, border, |row| out.extend_from_slice(row));
        out
    }

    /// [`GaussianKernel::filter`], handing each finished row to `emit`.
    pub fn filter_rows(&self, source: &[f64], extent: Extent, border: Border, mut emit: impl FnMut(&[f64])) {
        self.filter_through(source, extent, border, |value| value, &mut emit);
    }

    /// [`GaussianKernel::filter`] on single-precision samples: sums are double precision, both passes give floats.
    pub fn filter_f32(&self, source: &[f32], extent: Extent, border: Border) -> Vec<f32> {
        let wide: Vec<f64> = source.iter().map(|&v| f64::from(v)).collect();
        let mut out = Vec::with_capacity(source.len());
        let to_single = |value: f64| f64::from(value as f32);
        self.filter_through(&wide, extent, border, to_single, &mut |row| out.extend(row.iter().map(|&v| v as f32)));
        out
    }

    /// Both passes row by row, so that what lies between them stays in the cache; `store` is applied between them.
    fn filter_through(
        &self,
        source: &[f64],
        extent: Extent,
        border: Border,
        store: impl Fn(f64) -> f64,
        emit: &mut dyn FnMut(&[f64]),
    ) {
        let Extent { height, width, channels } = extent;
        let (radius, stride) = (self.radius(), width * channels);
        let row = |y: isize| &source[border.map(y, height) * stride..][..stride];
        if radius == 0 {
            source.chunks_exact(stride).for_each(emit);
            return;
        }
        let lead = radius * channels;
        let mut padded = vec![0.0; stride + 2 * lead];
        let mut out = vec![0.0; stride];
        let outside = |x: isize| lead + border.map(x, width) * channels;
        let before: Vec<usize> = (-(radius as isize)..0).map(outside).collect();
        let after: Vec<usize> = (width..width + radius).map(|x| outside(x as isize)).collect();
        let mut pairs = Vec::with_capacity(radius);
        for y in 0..height as isize {
            pairs.extend((1..=radius as isize).rev().map(|i| (row(y - i), row(y + i))));
            symmetric_sum(&mut padded[lead..lead + stride], row(y), &pairs, &self.weights);
            pairs.clear();
            padded[lead..lead + stride].iter_mut().for_each(|v| *v = store(*v));
            for (i, &from) in before.iter().enumerate() {
                padded.copy_within(from..from + channels, i * channels);
            }
            for (i, &from) in after.iter().enumerate() {
                padded.copy_within(from..from + channels, lead + stride + i * channels);
            }
            let shifted = |taps: usize| &padded[taps * channels..taps * channels + stride];
            let neighbours: Vec<_> = (1..=radius).rev().map(|i| (shifted(radius - i), shifted(radius + i))).collect();
            symmetric_sum(&mut out, shifted(radius), &neighbours, &self.weights);
            emit(&out);
        }
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

/// `centre * weights[0]` plus each pair's sum times its weight, outermost pair first.
fn symmetric_sum(out: &mut [f64], centre: &[f64], pairs: &[(&[f64], &[f64])], weights: &[f64]) {
    let whole = out.len() - out.len() % LANES;
    for (start, chunk) in (0..whole).step_by(LANES).zip(out.chunks_exact_mut(LANES)) {
        let lanes = |row: &[f64]| -> [f64; LANES] { row[start..start + LANES].try_into().expect("slice of LANES") };
        let mut sums = lanes(centre).map(|v| v * weights[0]);
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            let (before, after) = (lanes(before), lanes(after));
            for k in 0..LANES {
                sums[k] += (before[k] + after[k]) * weight;
            }
        }
        chunk.copy_from_slice(&sums);
    }
    for k in whole..out.len() {
        let mut sum = centre[k] * weights[0];
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            sum += (before[k] + after[k]) * weight;
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
