//! Means and medians.

/// The mean, unless there is nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// The standard deviation of a sample, unless there are fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The middle value, unless there is nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some(0.5 * (sorted[half - 1] + sorted[half])),
        _ => Some(sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_mean_and_one_value_no_deviation() {
        assert_eq!((mean(&[]), median(&[])), (None, None));
        assert_eq!((deviation(&[3.0]), deviation(&[1.0, 3.0])), (None, Some(2.0_f64.sqrt())));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
