//! Eigenvalues of symmetric matrices: Householder reduction to three diagonals, then QL steps without square roots.

use crate::EstimateError;
use crate::products::{STRIP, StripRow, has_fused_multiply_add, multiply_strips};
use multiversion::multiversion;

/// QL steps per eigenvalue at most; two or three are usual.
const MAX_STEPS: usize = 60;

/// Reflections that are gathered before the rest of the matrix is brought up to date.
const BLOCK: usize = 32;

/// Sums that run side by side, so that they fit vector registers.
const LANES: usize = 8;

/// Rows whose products are summed in one pass over a vector.
const ROWS: usize = 4;

/// The eigenvalues of the symmetric matrix whose lower triangle, with diagonal, is stored in the rows of `matrix`, in no
/// particular order. The matrix is overwritten.
///
/// *Reference.* Golub and Van Loan, "Matrix Computations", section 8.3, for the reduction in blocks; Parlett, "The Symmetric Eigenvalue
/// Problem", section 8.15, for the rational QL step of Pal, Walker and Kahan.
pub(crate) fn symmetric_eigenvalues(matrix: &mut [f64], size: usize) -> Result<Vec<f64>, EstimateError> {
    let (mut diagonal, beside) = tridiagonalize(matrix, size);
    let mut squares: Vec<f64> = beside.iter().map(|b| b * b).collect();
    for at in 0..size {
        deflate(&mut diagonal, &mut squares, at)?;
    }
    Ok(diagonal)
}

/// A reflection as the change it makes: `A - mirror image' - image mirror'` on the leading rows and columns.
struct Reflection {
    mirror: Vec<f64>,
    image: Vec<f64>,
}

/// The diagonal and the entries beside it of a matrix with the same eigenvalues that has no others. The second starts at
/// row 1 and ends with a 0, so both have `size` entries.
fn tridiagonalize(matrix: &mut [f64], size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut beside = vec![0.0; size];
    let mut rows = size;
    while rows > 1 {
        let rest = rows - BLOCK.min(rows - 1);
        let mut reflections: Vec<Reflection> = Vec::with_capacity(BLOCK);
        for last in (rest..rows).rev() {
            let row = &mut matrix[last * size..][..=last];
            for earlier in &reflections {
                subtract(row, earlier, earlier.mirror[last], earlier.image[last]);
            }
            let (alpha, mirror) = reflect(&row[..last]);
            beside[last - 1] = alpha;
            if let Some(mirror) = mirror {
                let image = image_of(matrix, size, &mirror, &reflections);
                reflections.push(Reflection { mirror, image });
            }
        }
        update(matrix, size, rest, &reflections);
        rows = rest;
    }
    let diagonal = (0..size).map(|i| matrix[i * size + i]).collect();
    (diagonal, beside)
}

/// Subtracts `along_mirror image + along_image mirror` from the entries of `target`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn subtract(target: &mut [f64], reflection: &Reflection, along_mirror: f64, along_image: f64) {
    for (a, (m, v)) in target.iter_mut().zip(reflection.mirror.iter().zip(&reflection.image)) {
        *a -= along_mirror * v + along_image * m;
    }
}

/// The last entry that is left when `row` is reflected to `(0, ..., 0, alpha)`, and the unit vector that does it unless the
/// row has this form already.
fn reflect(row: &[f64]) -> (f64, Option<Vec<f64>>) {
    let (&end, others) = row.split_last().expect("a row beside the diagonal has an entry");
    if others.iter().all(|a| *a == 0.0) {
        return (end, None);
    }
    let largest = row.iter().fold(0.0f64, |m, a| m.max(a.abs()));
    let norm = row.iter().map(|a| (a / largest).powi(2)).sum::<f64>().sqrt() * largest;
    let alpha = -norm.copysign(end);
    let mut mirror = row.to_vec();
    mirror[others.len()] -= alpha;
    // Divided by the largest first, so that squares of small entries do not vanish.
    mirror.iter_mut().for_each(|m| *m /= largest);
    let length = dot(&mirror, &mirror).sqrt();
    mirror.iter_mut().for_each(|m| *m /= length);
    (alpha, Some(mirror))
}

/// `2 A m - 2 (m . A m) m`, where the matrix lacks the changes of `earlier` reflections.
fn image_of(matrix: &[f64], size: usize, mirror: &[f64], earlier: &[Reflection]) -> Vec<f64> {
    let mut image = vec![0.0; mirror.len()];
    multiply(matrix, size, mirror, &mut image);
    for reflection in earlier {
        let (along_mirror, along_image) = (dot(&reflection.mirror, mirror), dot(&reflection.image, mirror));
        subtract(&mut image, reflection, along_mirror, along_image);
    }
    let overlap = 2.0 * dot(mirror, &image);
    image.iter_mut().zip(mirror).for_each(|(i, m)| *i = 2.0 * *i - overlap * m);
    image
}

/// Applies reflections to the first `rows` rows.
fn update(matrix: &mut [f64], size: usize, rows: usize, reflections: &[Reflection]) {
    let strips = rows.div_ceil(STRIP);
    let depth = 2 * reflections.len();
    let mut left: Vec<StripRow> = vec![StripRow::ZERO; strips * depth];
    let mut right = left.clone();
    for (at, Reflection { mirror, image }) in reflections.iter().enumerate() {
        for row in 0..rows {
            let (strip, column) = (row / STRIP * depth, row % STRIP);
            left[strip + 2 * at].0[column] = mirror[row];
            left[strip + 2 * at + 1].0[column] = image[row];
            right[strip + 2 * at].0[column] = image[row];
            right[strip + 2 * at + 1].0[column] = mirror[row];
        }
    }
    if depth == 0 {
        return;
    }
    for (i, left) in left.chunks_exact(depth).enumerate() {
        for (j, right) in right.chunks_exact(depth).enumerate().take(i + 1) {
            let block = multiply_strips(left, right);
            let columns = j * STRIP..(j * STRIP + STRIP).min(rows);
            for (row, sums) in (i * STRIP..rows).zip(&block) {
                let target = &mut matrix[row * size..][columns.clone()];
                target.iter_mut().zip(&sums.0).for_each(|(t, s)| *t -= s);
            }
        }
    }
}

/// `out = A x` for the leading part of a symmetric matrix given by its lower triangle.
fn multiply(matrix: &[f64], size: usize, x: &[f64], out: &mut [f64]) {
    if has_fused_multiply_add() {
        multiply_fused(matrix, size, x, out);
    } else {
        multiply_unfused(matrix, size, x, out);
    }
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn multiply_fused(matrix: &[f64], size: usize, x: &[f64], out: &mut [f64]) {
    multiply_rows(matrix, size, x, out, f64::mul_add);
}

fn multiply_unfused(matrix: &[f64], size: usize, x: &[f64], out: &mut [f64]) {
    multiply_rows(matrix, size, x, out, |a, b, sum| a * b + sum);
}

#[inline(always)]
fn multiply_rows(
    matrix: &[f64],
    size: usize,
    x: &[f64],
    out: &mut [f64],
    multiply_add: impl Fn(f64, f64, f64) -> f64 + Copy,
) {
    out.fill(0.0);
    for start in (0..x.len()).step_by(ROWS) {
        let rows = ROWS.min(x.len() - start);
        // What all of these rows have left of the diagonal block, in whole lanes.
        let whole = if rows == ROWS { start / LANES * LANES } else { 0 };
        if whole > 0 {
            let factors = std::array::from_fn(|row| x[start + row]);
            let parts: [&[f64]; ROWS] = std::array::from_fn(|row| &matrix[(start + row) * size..][..whole]);
            let sums = multiply_lanes(parts, &factors, &x[..whole], &mut out[..whole], multiply_add);
            (0..ROWS).for_each(|row| out[start + row] += sums[row]);
        }
        for row in start..start + rows {
            let entries = &matrix[row * size..][..=row];
            for column in whole..row {
                out[row] = multiply_add(entries[column], x[column], out[row]);
                out[column] = multiply_add(entries[column], x[row], out[column]);
            }
            out[row] = multiply_add(entries[row], x[row], out[row]);
        }
    }
}

/// Adds `factors` times the rows to `out`, and gives the products of the rows with `x`.
#[inline(always)]
fn multiply_lanes(
    rows: [&[f64]; ROWS],
    factors: &[f64; ROWS],
    x: &[f64],
    out: &mut [f64],
    multiply_add: impl Fn(f64, f64, f64) -> f64,
) -> [f64; ROWS] {
    let rows = rows.map(|row| row.as_chunks::<LANES>().0);
    let out = out.as_chunks_mut::<LANES>().0;
    let mut sums = [[0.0; LANES]; ROWS];
    let [first, second, third, fourth] = rows;
    let quads = first.iter().zip(second).zip(third.iter().zip(fourth));
    for ((((a, b), (c, d)), x), out) in quads.zip(x.as_chunks::<LANES>().0).zip(out) {
        let entries = [a, b, c, d];
        for row in 0..ROWS {
            for lane in 0..LANES {
                sums[row][lane] = multiply_add(entries[row][lane], x[lane], sums[row][lane]);
                out[lane] = multiply_add(entries[row][lane], factors[row], out[lane]);
            }
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}

/// A dot product in sums that run side by side; the longer vector is cut.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let length = a.len().min(b.len());
    let mut sums = [0.0; 4 * LANES];
    let (a_lanes, a_tail) = a[..length].as_chunks::<{ 4 * LANES }>();
    let (b_lanes, b_tail) = b[..length].as_chunks::<{ 4 * LANES }>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..4 * LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let tail: f64 = a_tail.iter().zip(b_tail).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + tail
}

/// Drives the square of the entry beside `diagonal[at]` to 0 by QL steps with Wilkinson's shift.
fn deflate(diagonal: &mut [f64], squares: &mut [f64], at: usize) -> Result<(), EstimateError> {
    let size = diagonal.len();
    for _ in 0..MAX_STEPS {
        let is_small = |i: &usize| {
            let least = f64::EPSILON * (diagonal[*i].abs() + diagonal[*i + 1].abs());
            squares[*i] <= least * least
        };
        let end = (at..size - 1).find(is_small).unwrap_or(size - 1);
        if end == at {
            return Ok(());
        }
        let root = squares[at].sqrt();
        let half_gap = (diagonal[at + 1] - diagonal[at]) / (2.0 * root);
        let shift = diagonal[at] - root / (half_gap + half_gap.hypot(1.0).copysign(half_gap));
        let (mut cosine, mut sine) = (1.0, 0.0);
        let mut gamma = diagonal[end] - shift;
        let mut product = gamma * gamma;
        for i in (at..end).rev() {
            let square = squares[i];
            let sum = product + square;
            if i + 1 < end {
                squares[i + 1] = sine * sum;
            }
            let old_cosine = cosine;
            // Three quotients at a time: a fourth one, by the cosine, would have to wait for it.
            let inverse_cosine = sum / product;
            cosine = product / sum;
            sine = square / sum;
            let old_gamma = gamma;
            let entry = diagonal[i];
            gamma = cosine * (entry - shift) - sine * old_gamma;
            diagonal[i + 1] = old_gamma + (entry - gamma);
            product = if inverse_cosine.is_finite() { gamma * gamma * inverse_cosine } else { old_cosine * square };
        }
        squares[at] = sine * product;
        diagonal[at] = shift + gamma;
        // What lies beyond `end` is a matrix of its own.
        squares[end] = 0.0;
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
