//! Means and correlations.

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

/// Pearson's correlation; `None` for fewer than three pairs or a constant side.
pub(crate) fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let side = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    let (x, y) = (side(|p| p.0), side(|p| p.1));
    let (x_mean, y_mean) = (mean(&x)?, mean(&y)?);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - x_mean, y - y_mean);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Spearman's rank correlation: Pearson's of the ranks, equal values sharing theirs.
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let x = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let y = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    pearson(&x.into_iter().zip(y).collect::<Vec<_>>())
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        let shared = 0.5 * (start + end - 1) as f64;
        for place in &order[start..end] {
            ranks[*place] = shared;
        }
        start = end;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_the_known_ones() {
        let pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 9.0)];
        // Sums of products 16, of squares 10 and 38.8.
        let expected = 16.0 / (10.0_f64 * 38.8).sqrt();
        assert!((pearson(&pairs).expect("five pairs") - expected).abs() < 1e-12);
        assert!((spearman(&pairs).expect("five pairs") - 0.8).abs() < 1e-12);
        let curved = [(1.0, 1.0), (2.0, 8.0), (3.0, 27.0), (4.0, 64.0)];
        assert_eq!(spearman(&curved), Some(1.0));
    }

    #[test]
    fn equal_values_share_their_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
    }

    #[test]
    fn without_pairs_or_spread_there_is_no_correlation() {
        assert_eq!(pearson(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(pearson(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!((mean(&[]), median(&[])), (None, None));
        assert_eq!((deviation(&[3.0]), deviation(&[1.0, 3.0])), (None, Some(2.0_f64.sqrt())));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
