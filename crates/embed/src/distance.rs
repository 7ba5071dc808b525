use crate::Points;
use multiversion::multiversion;

/// Sums that run side by side, so that they fit vector registers; their number fixes the order of additions on every machine.
const LANES: usize = 8;

/// Squared Euclidean distance of two rows of equal length, each value widened first.
#[inline(always)]
fn squared<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    let (a_chunks, a_tail) = a.as_chunks::<LANES>();
    let (b_chunks, b_tail) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for k in 0..LANES {
            let difference: f64 = a[k].into() - b[k].into();
            sums[k] += difference * difference;
        }
    }
    let mut tail = 0.0;
    for (&a, &b) in a_tail.iter().zip(b_tail) {
        let difference: f64 = a.into() - b.into();
        tail += difference * difference;
    }
    sums.iter().sum::<f64>() + tail
}

/// Squared distances of one point to rows of centres.
#[multiversion(targets("x86_64+avx2", "x86_64+avx512f"))]
pub(crate) fn squared_to_centres(point: &[f32], centres: &[f64], out: &mut [f64]) {
    for (out, centre) in out.iter_mut().zip(centres.chunks_exact(point.len())) {
        *out = squared(point, centre);
    }
}

/// Squared distance of two rows of centres.
pub(crate) fn squared_of_centres(a: &[f64], b: &[f64]) -> f64 {
    squared(a, b)
}

/// Adds, for each of the points named by `queries`, its distances to all points, summed up by the points' labels.
///
/// `sums` has `clusters` values per query. The queries are few, so they stay in a cache while all points pass by.
pub(crate) fn add_distances(
    points: &Points,
    queries: &[usize],
    labels: &[usize],
    clusters: usize,
    sums: &mut [f64],
) {
    let mut distances = vec![0.0; queries.len()];
    let rows: Vec<&[f32]> = queries.iter().map(|&query| points.point(query)).collect();
    for (point, &label) in points.iter().zip(labels) {
        distances_of(point, &rows, &mut distances);
        for (sums, distance) in sums.chunks_exact_mut(clusters).zip(&distances) {
            sums[label] += distance;
        }
    }
}

#[multiversion(targets("x86_64+avx2", "x86_64+avx512f"))]
fn distances_of(point: &[f32], rows: &[&[f32]], out: &mut [f64]) {
    for (out, row) in out.iter_mut().zip(rows) {
        *out = squared(point, row).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_summed_to_its_end() {
        for length in 1..3 * LANES {
            let a: Vec<f32> = (0..length).map(|k| k as f32 * 0.5 - 3.0).collect();
            let b: Vec<f64> = (0..length).map(|k| k as f64 * k as f64).collect();
            let expected: f64 = (0..length).map(|k| (f64::from(a[k]) - b[k]).powi(2)).sum();
            let mut found = [0.0];
            squared_to_centres(&a, &b, &mut found);
            // Sums of quarters far below 2^53: no rounding in any order.
            assert_eq!(found[0], expected, "length {length}");
        }
    }
}
