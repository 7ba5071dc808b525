//! Arithmetic on one row of logits.

/// The position of the largest value, the first of several; 0 for an empty row.
///
/// ```
/// assert_eq!(flipcast_ground::argmax(&[0.0, 2.0, 2.0]), 1);
/// ```
pub fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (class, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = class;
        }
    }
    best
}

/// Replaces `log_probs` by the logarithms of the probabilities that belong to a row of logits, in double precision.
pub fn log_softmax(row: &[f32], log_probs: &mut Vec<f64>) {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    log_probs.clear();
    log_probs.extend(row.iter().map(|&z| f64::from(z) - largest));
    let log_sum = log_probs.iter().map(|z| z.exp()).sum::<f64>().ln();
    log_probs.iter_mut().for_each(|z| *z -= log_sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_even_for_large_logits() {
        let mut log_probs = Vec::new();
        log_softmax(&[1000.0, 999.0, -1000.0], &mut log_probs);
        let sum: f64 = log_probs.iter().map(|z| z.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-15, "{sum}");
        assert!((log_probs[0] - log_probs[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_first_of_equal_values_wins() {
        assert_eq!((argmax(&[0.0, 2.0, 2.0]), argmax(&[5.0, 1.0]), argmax(&[])), (1, 0, 0));
    }
}
