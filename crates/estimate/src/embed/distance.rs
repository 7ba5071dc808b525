//! Squared Euclidean distances of many rows to many others.
//!
//! The one side is packed into panels of [`LANES`] rows whose values lie side by side, so that a panel's distances to a query fill
//! vector registers and no sum runs across one.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

/// Rows of a panel; their number fixes the order of additions on every machine.
pub(crate) const LANES: usize = 16;
/// Queries whose sums are kept in registers together.
const TOGETHER: usize = 6;
/// Dimensions that are summed before they join the total: short sums lose little precision, and a panel's part stays in a cache.
const PART: usize = 256;

/// A number distances are computed in.
pub(crate) trait Real: Copy + Into<f64> + Send + Sync {
    const ZERO: Self;
    fn of(value: f32) -> Self;
    fn of_wide(value: f64) -> Self;
    /// `sum + (self - other)^2`, rounded once less where `FUSED`.
    fn add_square<const FUSED: bool>(self, other: Self, sum: Self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn of(value: f32) -> Self {
                value.into()
            }
            #[inline(always)]
            fn of_wide(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn add_square<const FUSED: bool>(self, other: Self, sum: Self) -> Self {
                let difference = self - other;
                if FUSED { difference.mul_add(difference, sum) } else { difference * difference + sum }
            }
        }
    };
}
real!(f32);
real!(f64);

/// Rows packed for [`Panels::squared`]; the last panel is filled up with zeros.
pub(crate) struct Panels<T> {
    values: Vec<T>,
    dims: usize,
    rows: usize,
}

impl<T: Real> Panels<T> {
    /// Rows of single-precision values.
    pub(crate) fn new<'a>(rows: impl ExactSizeIterator<Item = &'a [f32]>, dims: usize) -> Self {
        Self::pack(rows, dims, T::of)
    }

    /// Rows of double-precision values.
    pub(crate) fn of_wide<'a>(rows: impl ExactSizeIterator<Item = &'a [f64]>, dims: usize) -> Self {
        Self::pack(rows, dims, T::of_wide)
    }

    fn pack<'a, S: Copy + 'a>(rows: impl ExactSizeIterator<Item = &'a [S]>, dims: usize, of: impl Fn(S) -> T) -> Self {
        let count = rows.len();
        let mut values = vec![T::ZERO; count.div_ceil(LANES) * LANES * dims];
        for (index, row) in rows.enumerate() {
            let panel = &mut values[index / LANES * LANES * dims..][..LANES * dims];
            let lane = panel[index % LANES..].iter_mut().step_by(LANES);
            for (place, &value) in lane.zip(row) {
                *place = of(value);
            }
        }
        Self { values, dims, rows: count }
    }

    /// Number of panels.
    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    /// The rows of panel `panel`.
    pub(crate) fn rows_of(&self, panel: usize) -> std::ops::Range<usize> {
        panel * LANES..((panel + 1) * LANES).min(self.rows)
    }

    fn panel(&self, panel: usize) -> &[T] {
        &self.values[panel * LANES * self.dims..][..LANES * self.dims]
    }
}

impl Panels<f32> {
    /// Squared distances of each query to the rows of a panel, in single precision.
    pub(crate) fn squared(&self, panel: usize, queries: &[&[f32]], out: &mut [[f64; LANES]]) {
        squared_f32(queries, self.panel(panel), out);
    }
}

impl Panels<f64> {
    /// Squared distances of each query to the rows of a panel, in double precision.
    pub(crate) fn squared(&self, panel: usize, queries: &[&[f32]], out: &mut [[f64; LANES]]) {
        squared_f64(queries, self.panel(panel), out);
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f+avx2+fma"))]
fn squared_f32(queries: &[&[f32]], panel: &[f32], out: &mut [[f64; LANES]]) {
    if target_cfg_f!(target_feature = "fma") {
        squared_in::<f32, true>(queries, panel, out);
    } else {
        squared_in::<f32, false>(queries, panel, out);
    }
}

#[multiversion(targets("x86_64+avx2+fma", "x86_64+avx512f+avx2+fma"))]
fn squared_f64(queries: &[&[f32]], panel: &[f64], out: &mut [[f64; LANES]]) {
    if target_cfg_f!(target_feature = "fma") {
        squared_in::<f64, true>(queries, panel, out);
    } else {
        squared_in::<f64, false>(queries, panel, out);
    }
}

#[inline(always)]
fn squared_in<T: Real, const FUSED: bool>(queries: &[&[f32]], panel: &[T], out: &mut [[f64; LANES]]) {
    out.fill([0.0; LANES]);
    let panel = panel.as_chunks::<LANES>().0;
    for (number, part) in panel.chunks(PART).enumerate() {
        let start = number * PART;
        let mut groups = queries.chunks_exact(TOGETHER);
        let mut outs = out.chunks_exact_mut(TOGETHER);
        for (group, out) in groups.by_ref().zip(outs.by_ref()) {
            let group: [&[f32]; TOGETHER] = std::array::from_fn(|query| &group[query][start..start + part.len()]);
            add_part::<T, TOGETHER, FUSED>(group, part, out);
        }
        for (query, out) in groups.remainder().iter().zip(outs.into_remainder()) {
            let out = std::slice::from_mut(out);
            add_part::<T, 1, FUSED>([&query[start..start + part.len()]], part, out);
        }
    }
}

/// Adds the squared differences in some dimensions.
#[inline(always)]
fn add_part<T: Real, const Q: usize, const FUSED: bool>(
    queries: [&[f32]; Q],
    part: &[[T; LANES]],
    out: &mut [[f64; LANES]],
) {
    let mut sums = [[T::ZERO; LANES]; Q];
    for (dim, row) in part.iter().enumerate() {
        for query in 0..Q {
            let value = T::of(queries[query][dim]);
            for lane in 0..LANES {
                let sum = &mut sums[query][lane];
                *sum = value.add_square::<FUSED>(row[lane], *sum);
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        for (out, sum) in out.iter_mut().zip(sums) {
            *out += sum.into();
        }
    }
}

/// Squared distance of two points, in double precision.
#[multiversion(targets("x86_64+avx2", "x86_64+avx512f+avx2"))]
pub(crate) fn squared_of_points(a: &[f32], b: &[f32]) -> f64 {
    let (a_chunks, a_tail) = a.as_chunks::<LANES>();
    let (b_chunks, b_tail) = b.as_chunks::<LANES>();
    let square = |a: f32, b: f32| (f64::from(a) - f64::from(b)) * (f64::from(a) - f64::from(b));
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += square(a[lane], b[lane]);
        }
    }
    let tail: f64 = a_tail.iter().zip(b_tail).map(|(&a, &b)| square(a, b)).sum();
    sums.iter().sum::<f64>() + tail
}

/// Squared distance of two rows of centres.
pub(crate) fn squared_of_centres(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose squared differences are sums of quarters far below 2^24: no rounding in any order.
    fn rows(count: usize, dims: usize, stride: usize) -> Vec<f32> {
        let value = |k: usize| (k * stride % 23) as f32 * 0.5 - 3.0;
        (0..count * dims).map(value).collect()
    }

    #[test]
    fn every_size_is_summed_to_its_end() {
        for (points, queries, dims) in [(1, 1, 1), (17, 7, 3), (16, 13, 257), (40, 6, 600)] {
            let (a, b) = (rows(points, dims, 7), rows(queries, dims, 5));
            let single = Panels::<f32>::new(a.chunks_exact(dims), dims);
            let double = Panels::<f64>::new(a.chunks_exact(dims), dims);
            let asked: Vec<&[f32]> = b.chunks_exact(dims).collect();
            let mut found = [vec![[0.0; LANES]; queries], vec![[0.0; LANES]; queries]];
            for panel in 0..single.count() {
                single.squared(panel, &asked, &mut found[0]);
                double.squared(panel, &asked, &mut found[1]);
                for (lane, row) in single.rows_of(panel).enumerate() {
                    for (query, values) in asked.iter().enumerate() {
                        let wide = |row: &[f32]| -> Vec<f64> { row.iter().map(|&x| f64::from(x)).collect() };
                        let expected = squared_of_centres(&wide(&a[row * dims..][..dims]), &wide(values));
                        assert_eq!(found[0][query][lane], expected);
                        assert_eq!(found[1][query][lane], expected);
                        assert_eq!(squared_of_points(&a[row * dims..][..dims], values), expected);
                    }
                }
            }
        }
    }
}
