//! Eigenvalues of symmetric matrices: Householder reduction to three diagonals, then implicit QL steps.

use crate::EstimateError;

/// QL steps per eigenvalue at most; two or three are usual.
const MAX_STEPS: usize = 60;

/// The eigenvalues of the symmetric matrix whose lower triangle, with diagonal, is stored in the rows of `matrix`, in no
/// particular order. The matrix is overwritten.
pub(crate) fn symmetric_eigenvalues(matrix: &mut [f64], size: usize) -> Result<Vec<f64>, EstimateError> {
    let (mut diagonal, mut beside) = tridiagonalise(matrix, size);
    for at in 0..size {
        deflate(&mut diagonal, &mut beside, at)?;
    }
    Ok(diagonal)
}

/// The diagonal and the entries beside it of a matrix with the same eigenvalues that has no others. The second starts at
/// row 1 and ends with a 0, so both have `size` entries.
fn tridiagonalise(matrix: &mut [f64], size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut beside = vec![0.0; size];
    let mut mirror = vec![0.0; size];
    let mut image = vec![0.0; size];
    for last in (1..size).rev() {
        // Reflect the first `last` entries of row `last` to (0, ..., 0, alpha).
        let (above, row) = matrix.split_at_mut(last * size);
        let row = &row[..last];
        let largest = row.iter().fold(0.0f64, |m, a| m.max(a.abs()));
        if largest == 0.0 {
            continue;
        }
        let norm = row.iter().map(|a| (a / largest).powi(2)).sum::<f64>().sqrt() * largest;
        let alpha = -norm.copysign(row[last - 1]);
        beside[last - 1] = alpha;
        if row[..last - 1].iter().all(|a| *a == 0.0) {
            beside[last - 1] = row[last - 1];
            continue;
        }
        let mirror = &mut mirror[..last];
        mirror.copy_from_slice(row);
        mirror[last - 1] -= alpha;
        let length = dot(mirror, mirror);
        mirror.iter_mut().for_each(|m| *m /= length.sqrt());
        // image = 2 A m - 2 (m . A m) m, so that the reflected matrix is A - m image' - image m'.
        let image = &mut image[..last];
        multiply(above, size, mirror, image);
        let overlap = 2.0 * dot(mirror, image);
        for (i, m) in image.iter_mut().zip(mirror.iter()) {
            *i = 2.0 * *i - overlap * m;
        }
        for i in 0..last {
            let (m, v) = (mirror[i], image[i]);
            let row = &mut above[i * size..][..i + 1];
            for (a, (mj, vj)) in row.iter_mut().zip(mirror.iter().zip(image.iter())) {
                *a -= m * vj + v * mj;
            }
        }
    }
    let diagonal = (0..size).map(|i| matrix[i * size + i]).collect();
    (diagonal, beside)
}

/// `out = A x` for the leading part of a symmetric matrix given by its lower triangle.
fn multiply(matrix: &[f64], size: usize, x: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    for i in 0..x.len() {
        let row = &matrix[i * size..][..i + 1];
        out[i] += dot(&row[..i], &x[..i]) + row[i] * x[i];
        let factor = x[i];
        for (o, a) in out[..i].iter_mut().zip(row) {
            *o += factor * a;
        }
    }
}

/// A dot product in eight sums, which the compiler can keep in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_lanes, a_tail) = a.as_chunks::<8>();
    let (b_lanes, b_tail) = b.as_chunks::<8>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let tail: f64 = a_tail.iter().zip(b_tail).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + tail
}

/// Drives the entry beside `diagonal[at]` to 0 by QL steps with Wilkinson's shift.
fn deflate(diagonal: &mut [f64], beside: &mut [f64], at: usize) -> Result<(), EstimateError> {
    let size = diagonal.len();
    for _ in 0..MAX_STEPS {
        let end = (at..size - 1)
            .find(|&i| beside[i].abs() <= f64::EPSILON * (diagonal[i].abs() + diagonal[i + 1].abs()))
            .unwrap_or(size - 1);
        if end == at {
            return Ok(());
        }
        let half_gap = (diagonal[at + 1] - diagonal[at]) / (2.0 * beside[at]);
        let root = half_gap.hypot(1.0).copysign(half_gap);
        let mut bulge = diagonal[end] - diagonal[at] + beside[at] / (half_gap + root);
        let (mut sine, mut cosine, mut carried) = (1.0, 1.0, 0.0);
        let mut split = false;
        for i in (at..end).rev() {
            let f = sine * beside[i];
            let b = cosine * beside[i];
            let length = f.hypot(bulge);
            beside[i + 1] = length;
            if length == 0.0 {
                // The matrix has come apart; start again with the smaller part.
                diagonal[i + 1] -= carried;
                beside[end] = 0.0;
                split = true;
                break;
            }
            sine = f / length;
            cosine = bulge / length;
            let g = diagonal[i + 1] - carried;
            let turn = (diagonal[i] - g) * sine + 2.0 * cosine * b;
            carried = sine * turn;
            diagonal[i + 1] = g + carried;
            bulge = cosine * turn - b;
        }
        if !split {
            diagonal[at] -= carried;
            beside[at] = bulge;
            beside[end] = 0.0;
        }
    }
    Err(EstimateError::Undefined {
        what: "the set of eigenvalues",
        found: "a matrix on which the iteration does not end",
        expected: "finite entries of similar size",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    fn sorted(mut matrix: Vec<f64>, size: usize) -> Vec<f64> {
        let mut values = symmetric_eigenvalues(&mut matrix, size).unwrap();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    #[test]
    fn the_second_difference_has_its_known_eigenvalues() {
        let size = 23;
        let mut matrix = vec![0.0; size * size];
        for i in 0..size {
            matrix[i * size + i] = 2.0;
            if i > 0 {
                matrix[i * size + i - 1] = -1.0;
            }
        }
        for (at, value) in sorted(matrix, size).iter().enumerate() {
            let angle = std::f64::consts::PI * (at + 1) as f64 / (size + 1) as f64;
            assert!((value - (2.0 - 2.0 * angle.cos())).abs() < 1e-13);
        }
    }

    #[test]
    fn planted_eigenvalues_are_found() {
        // Q D Q' with Q a product of reflections.
        let mut random = SplitMix64::new(17);
        for size in [1, 2, 3, 8, 31] {
            let planted: Vec<f64> = (0..size).map(|i| (i as f64 - 2.0) * 1.5).collect();
            let mut full = vec![0.0; size * size];
            (0..size).for_each(|i| full[i * size + i] = planted[i]);
            for _ in 0..3 {
                let v: Vec<f64> = (0..size).map(|_| random.normal()).collect();
                let length = dot(&v, &v);
                for _side in 0..2 {
                    // Reflect the columns, then turn the matrix over.
                    for row in full.chunks_exact_mut(size) {
                        let factor = 2.0 * dot(row, &v) / length;
                        row.iter_mut().zip(&v).for_each(|(a, v)| *a -= factor * v);
                    }
                    full = (0..size * size).map(|at| full[at % size * size + at / size]).collect();
                }
            }
            for (found, expected) in sorted(full, size).iter().zip(&planted) {
                assert!((found - expected).abs() < 1e-12, "{size}");
            }
        }
    }

    #[test]
    fn zero_diagonal_and_repeated_matrices_are_solved() {
        assert_eq!(sorted(vec![0.0; 16], 4), [0.0; 4]);
        assert_eq!(sorted(vec![3.0, 0.0, 0.0, 3.0], 2), [3.0, 3.0]);
        let ones = sorted(vec![1.0; 25], 5);
        assert!((ones[4] - 5.0).abs() < 1e-14 && ones[..4].iter().all(|v| v.abs() < 1e-14));
        let antidiagonal = sorted(vec![0.0, 0.0, 1.0, 0.0], 2);
        assert!((antidiagonal[0] + 1.0).abs() < 1e-15 && (antidiagonal[1] - 1.0).abs() < 1e-15);
    }
}
