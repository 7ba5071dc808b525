//! How many classes a number of predictions tells apart.

/// Entropy of weights that need not sum to one, in nats; zero weights contribute nothing.
pub(super) fn entropy(weights: impl Iterator<Item = f64> + Clone) -> f64 {
    let total: f64 = weights.clone().sum();
    if total <= 0.0 {
        return 0.0;
    }
    let terms = weights.filter(|w| *w > 0.0).map(|w| {
        let share = w / total;
        share * share.ln()
    });
    (-terms.sum::<f64>()).max(0.0)
}

/// The mean entropy of the histogram of `images` independent, uniform draws of `num_classes` classes, in nats.
///
/// A finite window cannot show `ln K`: with `X ~ Binomial(n, 1/K)` images per class it shows
/// `ln n - (K/n) E[X ln X]` on average, which tends to `ln K` for long windows and is below `ln n` for short ones.
pub(super) fn expected_entropy(images: usize, num_classes: usize) -> f64 {
    if images == 0 || num_classes < 2 {
        return 0.0;
    }
    let (n, p) = (images as f64, 1.0 / num_classes as f64);
    // In logarithms, since the chance of an empty class underflows for long windows.
    let mut log_chance = n * (-p).ln_1p();
    let log_odds = p.ln() - (-p).ln_1p();
    let mut mean = 0.0;
    for x in 1..=images {
        let x = x as f64;
        log_chance += ((n - x + 1.0) / x).ln() + log_odds;
        mean += log_chance.exp() * x * x.ln();
    }
    (n.ln() - mean / (n * p)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_have_the_entropy_of_their_number() {
        let four = entropy([2.0; 4].into_iter().chain([0.0; 3]));
        assert!((four - 4f64.ln()).abs() < 1e-12);
        assert_eq!(entropy([5.0].into_iter()), 0.0);
        assert_eq!(entropy(std::iter::empty()), 0.0);
    }

    #[test]
    fn the_expected_entropy_is_exact_where_it_can_be_counted() {
        // Two draws of two classes: equal (no entropy) or different (ln 2), each half of the time.
        assert!((expected_entropy(2, 2) - 0.5 * 2f64.ln()).abs() < 1e-12);
        assert!(expected_entropy(1, 7).abs() < 1e-12);
        assert_eq!(expected_entropy(0, 7), 0.0);
        assert_eq!(expected_entropy(9, 1), 0.0);
    }

    #[test]
    fn long_windows_show_all_classes_and_short_ones_no_more_than_their_length() {
        assert!((expected_entropy(20_000, 10) - 10f64.ln()).abs() < 1e-3);
        let short = expected_entropy(64, 1000);
        assert!(short < 64f64.ln() && short > 0.98 * 64f64.ln(), "{short}");
    }
}
