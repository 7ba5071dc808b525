//! How two numbers go together.

/// Pearson's correlation; `None` for fewer than three pairs or a constant side.
///
/// ```
/// let pairs = [(1.0, 1.0), (2.0, 8.0), (3.0, 27.0), (4.0, 64.0)];
/// assert!((flipcast_estimate::pearson(&pairs).unwrap() - 0.951).abs() < 1e-3);
/// ```
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let count = pairs.len() as f64;
    let x_mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let y_mean = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - x_mean, y - y_mean);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    let found = xy / (xx.sqrt() * yy.sqrt());
    found.is_finite().then(|| found.clamp(-1.0, 1.0))
}

/// Spearman's rank correlation: Pearson's of the ranks, equal values sharing theirs.
///
/// ```
/// let pairs = [(1.0, 1.0), (2.0, 8.0), (3.0, 27.0), (4.0, 64.0)];
/// assert!((flipcast_estimate::spearman(&pairs).unwrap() - 1.0).abs() < 1e-12);
/// ```
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    pearson(&ranks(&x).into_iter().zip(ranks(&y)).collect::<Vec<_>>())
}

/// Ranks from 1 in increasing order; equal values share the average of their ranks.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        // The mean of below + 1 ..= below + length.
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0;
        tied.iter().for_each(|at| ranks[*at] = rank);
        below += tied.len();
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
    }

    #[test]
    fn equal_values_share_their_rank() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
    }

    #[test]
    fn without_pairs_or_spread_there_is_no_correlation() {
        assert_eq!(pearson(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(pearson(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(spearman(&[]), None);
    }
}
