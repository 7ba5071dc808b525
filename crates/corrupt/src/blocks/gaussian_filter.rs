//! Separable Gaussian smoothing, vertical pass first, as scipy's `gaussian_filter` does it.

use multiversion::multiversion;

use super::border::Border;
use super::summation::pairwise_sum;

/// Outputs accumulated together, so that the running sums stay in registers.
const LANES: usize = 16;

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

    /// [`GaussianKernel::filter`] of planes of this size, mirrored with the edge repeated, for kernels longer than the image.
    pub fn fold(&self, height: usize, width: usize) -> FoldedFilter {
        let down = Folded::new(&self.weights, height);
        let across = if width == height { down.clone() } else { Folded::new(&self.weights, width) };
        FoldedFilter { down, across }
    }
}

/// A smoothing filter whose kernel is longer than the image.
///
/// The taps that the mirror sends to the same sample are added up first, so the cost is the image side per sample and not
/// the kernel length. The folded filter looks the same from both ends, so sums and differences of mirrored samples are
/// filtered apart, which halves the work.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedFilter {
    down: Folded,
    across: Folded,
}

impl FoldedFilter {
    /// Smooths a plane down its columns, then along its rows.
    pub fn filter(&self, source: &[f64]) -> Vec<f64> {
        let (height, width) = (self.down.n, self.across.n);
        let turned = transpose(&self.down.apply(source, width), height, width);
        transpose(&self.across.apply(&turned, height), width, height)
    }
}

/// A filter on `n` samples as two dense matrices of half the size.
#[derive(Clone, Debug, PartialEq)]
struct Folded {
    n: usize,
    /// `ceil(n / 2)` square: acts on sums of mirrored samples.
    even: Vec<f64>,
    /// `floor(n / 2)` square: acts on differences.
    odd: Vec<f64>,
}

impl Folded {
    fn new(weights: &[f64], n: usize) -> Self {
        let radius = weights.len() as isize - 1;
        let (longer, shorter) = (n.div_ceil(2), n / 2);
        let (mut even, mut odd) = (vec![0.0; longer * longer], vec![0.0; shorter * shorter]);
        for output in 0..longer {
            let mut row = vec![0.0; n];
            // Position in the row that goes forth and back for ever.
            let mut phase = (output as isize - radius).rem_euclid(2 * n as isize) as usize;
            for offset in -radius..=radius {
                let input = if phase < n { phase } else { 2 * n - 1 - phase };
                row[input] += weights[offset.unsigned_abs()];
                phase = if phase + 1 < 2 * n { phase + 1 } else { 0 };
            }
            for input in 0..shorter {
                let (near, far) = (row[input], row[n - 1 - input]);
                even[output * longer + input] = (near + far) / 2.0;
                if output < shorter {
                    odd[output * shorter + input] = (near - far) / 2.0;
                }
            }
            if longer > shorter {
                even[output * longer + shorter] = row[shorter];
            }
        }
        Self { n, even, odd }
    }

    /// Filters down the columns of `source`, which has `n` rows.
    fn apply(&self, source: &[f64], width: usize) -> Vec<f64> {
        let (longer, shorter) = (self.n.div_ceil(2), self.n / 2);
        let row = |y: usize| &source[y * width..][..width];
        let (mut sums, mut differences) = (Vec::with_capacity(longer * width), Vec::with_capacity(shorter * width));
        for y in 0..shorter {
            sums.extend(row(y).iter().zip(row(self.n - 1 - y)).map(|(a, b)| a + b));
            differences.extend(row(y).iter().zip(row(self.n - 1 - y)).map(|(a, b)| a - b));
        }
        if longer > shorter {
            sums.extend_from_slice(row(shorter));
        }
        let (mut even, mut odd) = (vec![0.0; longer * width], vec![0.0; shorter * width]);
        multiply(&self.even, &sums, &mut even, (longer, width));
        multiply(&self.odd, &differences, &mut odd, (shorter, width));
        let mut out = even.clone();
        for (value, odd) in out.iter_mut().zip(&odd) {
            *value += odd;
        }
        for y in (0..shorter).rev() {
            let (even, odd) = (&even[y * width..][..width], &odd[y * width..][..width]);
            out.extend(even.iter().zip(odd).map(|(a, b)| a - b));
        }
        out
    }
}

fn transpose(source: &[f64], height: usize, width: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(source.len());
    for x in 0..width {
        out.extend((0..height).map(|y| source[y * width + x]));
    }
    out
}

/// Rows of a product made together, so that what is read is used more than once.
const ROWS: usize = 4;
/// Columns of a product made together.
const COLUMNS: usize = 8;

/// `out = left * right`, where `right` is `inner` x `columns`; nothing when `inner` is 0.
#[multiversion(targets("x86_64+avx2+fma"))]
fn multiply(left: &[f64], right: &[f64], out: &mut [f64], (inner, columns): (usize, usize)) {
    if inner == 0 {
        return;
    }
    let bands = out.chunks_mut(ROWS * columns);
    for (left, out) in left.chunks(ROWS * inner).zip(bands) {
        if left.len() == ROWS * inner {
            multiply_rows::<ROWS>(left, right, out, (inner, columns));
        } else {
            let rows = out.chunks_exact_mut(columns);
            for (left, out) in left.chunks_exact(inner).zip(rows) {
                multiply_rows::<1>(left, right, out, (inner, columns));
            }
        }
    }
}

/// [`multiply`] for a `left` of `R` rows.
#[inline(always)]
fn multiply_rows<const R: usize>(left: &[f64], right: &[f64], out: &mut [f64], (inner, columns): (usize, usize)) {
    let whole = columns - columns % COLUMNS;
    for start in (0..whole).step_by(COLUMNS) {
        let mut sums = [[0.0; COLUMNS]; R];
        for (k, row) in right.chunks_exact(columns).enumerate() {
            let values = &row[start..start + COLUMNS];
            for r in 0..R {
                let weight = left[r * inner + k];
                for i in 0..COLUMNS {
                    sums[r][i] += weight * values[i];
                }
            }
        }
        for r in 0..R {
            out[r * columns + start..][..COLUMNS].copy_from_slice(&sums[r]);
        }
    }
    for r in 0..R {
        for column in whole..columns {
            let mut sum = 0.0;
            for (k, row) in right.chunks_exact(columns).enumerate() {
                sum += left[r * inner + k] * row[column];
            }
            out[r * columns + column] = sum;
        }
    }
}

/// `centre * weights[0]` plus each pair's sum times its weight, outermost pair first.
#[multiversion(targets("x86_64+avx2+fma"))]
fn symmetric_sum(out: &mut [f64], centre: &[f64], pairs: &[(&[f64], &[f64])], weights: &[f64]) {
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    let whole = chunks.len() * LANES;
    for (i, chunk) in chunks.iter_mut().enumerate() {
        let mut sums = centre.as_chunks::<LANES>().0[i];
        for sum in &mut sums {
            *sum *= weights[0];
        }
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            let (before, after) = (&before.as_chunks::<LANES>().0[i], &after.as_chunks::<LANES>().0[i]);
            for k in 0..LANES {
                sums[k] += (before[k] + after[k]) * weight;
            }
        }
        *chunk = sums;
    }
    for (k, value) in (whole..).zip(rest) {
        let mut sum = centre[k] * weights[0];
        for ((before, after), &weight) in pairs.iter().zip(weights[1..].iter().rev()) {
            sum += (before[k] + after[k]) * weight;
        }
        *value = sum;
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
        for (height, width) in [(9, 13), (10, 6), (1, 4), (2, 1)] {
            let extent = Extent { height, width, channels: 1 };
            let source = noise(height * width);
            let kernel = GaussianKernel::new(11.0, 3.0);
            let plain = kernel.filter(&source, extent, Border::HalfMirror);
            let folded = kernel.fold(height, width).filter(&source);
            assert_eq!(plain.len(), folded.len());
            for (a, b) in plain.iter().zip(&folded) {
                assert!((a - b).abs() < 1e-13, "{a} and {b}");
            }
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
