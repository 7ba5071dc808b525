use super::{Confusion, MarginalReference};
use crate::{EstimateError, Outputs};

/// The most classes; the matrix of more would not fit a small machine's memory.
const MOST_CLASSES: usize = 4096;

/// The marginal that explains how often each class is predicted.
///
/// *Idea.* If only the class shares changed, each class is still mistaken for others as often as on the labelled images. Find the
/// shares that give the predicted classes under these mistakes.
/// *Formula.* `min_w |C w - m|^2 + r |w - 1|^2`, where `C` holds the shares of labelled images by predicted class and label, `m`
/// the shares of predictions; then `q_k` proportional to `max(w_k, 0) sum_i C_ik`.
/// *Reference.* Lipton, Wang and Smola, "Detecting and Correcting for Label Shift with Black Box Predictors", ICML 2018; the
/// pull towards 1 as in Azizzadenesheli et al., ICLR 2019.
/// *Departures from the reference.* The ridge `r` is the mean sampling variance of a column of `C` and of `m`,
/// `(1 / labelled + 1 / images) / classes`, so that what few images cannot tell stays as it was. Negative ratios become zero.
///
/// # Errors
/// When the reference, which was checked, has no confusion matrix, or there are more than 4,096 classes.
pub(super) fn estimate_bbse(outputs: &Outputs, reference: &MarginalReference) -> Result<Vec<f64>, EstimateError> {
    let classes = outputs.classes();
    let Some(confusion) = &reference.confusion else {
        return Err(EstimateError::Empty { what: "confusion cells" });
    };
    if classes > MOST_CLASSES {
        return Err(EstimateError::TooMany { what: "classes", found: classes, expected: MOST_CLASSES });
    }
    let mut predictions = vec![0.0; classes];
    for class in outputs.classes_predicted() {
        predictions[class] += 1.0 / outputs.images() as f64;
    }
    let ridge = (1.0 / confusion.images as f64 + 1.0 / outputs.images() as f64) / classes as f64;
    let ratios = ratios(confusion, &predictions, ridge);
    let mut shares = vec![0.0; classes];
    for &(_, label, count) in &confusion.cells {
        shares[label as usize] += f64::from(count) * ratios[label as usize].max(0.0);
    }
    let total: f64 = shares.iter().sum();
    if total <= 0.0 {
        return Err(EstimateError::Undefined {
            what: "the marginal",
            found: "no class explains the predictions",
            expected: "predictions of classes that labelled images were given too",
        });
    }
    shares.iter_mut().for_each(|share| *share /= total);
    Ok(shares)
}

/// Solves the normal equations `(C'C + r) w = C'm + r`.
fn ratios(confusion: &Confusion, predictions: &[f64], ridge: f64) -> Vec<f64> {
    let classes = predictions.len();
    let mut rows: Vec<Vec<(usize, f64)>> = vec![Vec::new(); classes];
    for &(predicted, label, count) in &confusion.cells {
        let share = f64::from(count) / confusion.images as f64;
        rows[predicted as usize].push((label as usize, share));
    }
    let mut matrix = vec![0.0; classes * classes];
    let mut right = vec![ridge; classes];
    for (row, prediction) in rows.iter().zip(predictions) {
        for &(a, share) in row {
            right[a] += share * prediction;
            for &(b, other) in row {
                matrix[a * classes + b] += share * other;
            }
        }
    }
    for class in 0..classes {
        matrix[class * classes + class] += ridge;
    }
    solve_positive(&mut matrix, &mut right);
    right
}

/// Solves a symmetric positive definite system in place by Cholesky's decomposition; the solution replaces `right`.
fn solve_positive(matrix: &mut [f64], right: &mut [f64]) {
    let n = right.len();
    for row in 0..n {
        let (above, below) = matrix.split_at_mut(row * n);
        let current = &mut below[..n];
        for column in 0..row {
            let other = &above[column * n..][..n];
            let known = dot(&current[..column], &other[..column]);
            current[column] = (current[column] - known) / other[column];
        }
        let known = dot(&current[..row], &current[..row]);
        // The ridge keeps this positive but for rounding, which it bounds from below.
        current[row] = (current[row] - known).max(f64::MIN_POSITIVE).sqrt();
    }
    for row in 0..n {
        let known = dot(&matrix[row * n..][..row], &right[..row]);
        right[row] = (right[row] - known) / matrix[row * n + row];
    }
    for row in (0..n).rev() {
        right[row] /= matrix[row * n + row];
        let value = right[row];
        for column in 0..row {
            right[column] -= matrix[row * n + column] * value;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (a_chunks, a_tail) = a.as_chunks::<LANES>();
    let (b_chunks, b_tail) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for k in 0..LANES {
            sums[k] += a[k] * b[k];
        }
    }
    let tail: f64 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + tail
}

#[cfg(test)]
mod tests {
    use super::super::em::total_variation;
    use super::*;
    use crate::testing::calibrated;

    #[test]
    fn systems_are_solved() {
        let n = 20;
        let mut matrix = vec![0.0; n * n];
        for row in 0..n {
            for column in 0..n {
                let near = 1.0 / (1.0 + (row as f64 - column as f64).abs());
                matrix[row * n + column] = near + if row == column { 1.0 } else { 0.0 };
            }
        }
        let solution: Vec<f64> = (0..n).map(|k| k as f64 - 7.5).collect();
        let mut right: Vec<f64> = (0..n).map(|row| dot(&matrix[row * n..][..n], &solution)).collect();
        solve_positive(&mut matrix, &mut right);
        for (found, expected) in right.iter().zip(solution) {
            assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        }
    }

    #[test]
    fn a_skewed_marginal_is_recovered() {
        let (labelled, labels) = calibrated(1, 4000, &[1.0; 6], 1.5);
        let reference = MarginalReference::fit(&labelled, &labels).unwrap();
        let weights = [0.4, 0.3, 0.1, 0.1, 0.05, 0.05];
        let (outputs, _) = calibrated(2, 4000, &weights, 1.5);
        let found = estimate_bbse(&outputs, &reference).unwrap();
        let distance = total_variation(&found, &weights);
        let start = total_variation(&[1.0 / 6.0; 6], &weights);
        assert!(distance < start / 5.0, "{distance} of {start}");
    }

    #[test]
    fn few_images_leave_the_marginal_near_the_reference() {
        let (labelled, labels) = calibrated(1, 3000, &[1.0; 6], 1.5);
        let reference = MarginalReference::fit(&labelled, &labels).unwrap();
        let (outputs, _) = calibrated(3, 1, &[1.0; 6], 1.5);
        let found = estimate_bbse(&outputs, &reference).unwrap();
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(found.iter().all(|share| *share < 0.5), "{found:?}");
    }
}
