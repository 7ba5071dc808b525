use crate::Estimate;

/// What a calibration and a few labels say together; `None` where they contradict each other.
///
/// *Idea.* A calibration errs by what kinds of shift differ by, labels err by chance, so that their mean errs less than either. Labels are valid
/// whatever the shift; the mean is so only where the calibration's interval is. Where the two are further apart than both intervals allow, the
/// shift is one that the calibration does not know, and labels speak alone.
/// *Formula.* With half widths `h` and `k` of intervals of the same level: weights `1 / h^2` and `1 / k^2`, half width
/// `(1 / h^2 + 1 / k^2)^(-1/2)`; a contradiction is a difference of more than `(h^2 + k^2)^(1/2)`.
///
/// ```
/// use flipcast_estimate::{Estimate, join_with_labels};
///
/// let interval = |accuracy, half| Estimate::around(accuracy, half, Vec::new());
/// let joined = join_with_labels(&interval(0.60, 0.06), &interval(0.65, 0.12)).expect("they agree");
/// assert!((joined.accuracy - 0.61).abs() < 1e-9 && joined.high - joined.accuracy < 0.06);
/// assert_eq!(join_with_labels(&interval(0.60, 0.06), &interval(0.80, 0.12)), None);
/// ```
pub fn join_with_labels(calibrated: &Estimate, labelled: &Estimate) -> Option<Estimate> {
    let squared = |estimate: &Estimate| (0.5 * (estimate.high - estimate.low)).powi(2);
    let (calibrated_square, labelled_square) = (squared(calibrated), squared(labelled));
    if (calibrated.accuracy - labelled.accuracy).powi(2) > calibrated_square + labelled_square {
        return None;
    }
    // All images are labelled: nothing is left to chance.
    if labelled_square == 0.0 {
        return Some(labelled.clone());
    }
    let total = calibrated_square + labelled_square;
    let accuracy = (calibrated.accuracy * labelled_square + labelled.accuracy * calibrated_square) / total;
    let half_width = (calibrated_square * labelled_square / total).sqrt();
    Some(Estimate::around(accuracy, half_width, calibrated.flags.clone()))
}
