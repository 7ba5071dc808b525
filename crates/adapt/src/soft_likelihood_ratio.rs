//! ROID's soft likelihood ratio and its gradient, in double precision.

/// Probabilities above this have no gradient.
const LARGEST: f64 = 0.99;

/// Added to the odds before their logarithm.
const EPS: f64 = 1e-5;

/// `-sum_k p_k log(p_k / (1 - p_k) + 1e-5)` with every `p_k` at most 0.99.
#[cfg(test)]
pub(crate) fn soft_likelihood_ratio(probs: &[f64]) -> f64 {
    let capped = probs.iter().map(|p| p.min(LARGEST));
    -capped.map(|p| p * (p / (1.0 - p) + EPS).ln()).sum::<f64>()
}

/// Adds `weight` times the gradient with respect to the logits, `p_k (f_k - sum_j p_j f_j)`, where
/// `f = -log(o + 1e-5) - p / (1 - p)^2 / (o + 1e-5)` with the odds `o = p / (1 - p)`, and 0 where `p` is capped.
pub(crate) fn add_slr_gradient(probs: &[f64], weight: f64, gradient: &mut [f32]) {
    let mean: f64 = probs.iter().map(|&p| p * slope(p)).sum();
    for (g, &p) in gradient.iter_mut().zip(probs) {
        *g += (weight * p * (slope(p) - mean)) as f32;
    }
}

/// The derivative of one term with respect to its probability.
fn slope(p: f64) -> f64 {
    if p > LARGEST {
        return 0.0;
    }
    let odds = p / (1.0 - p) + EPS;
    -odds.ln() - p / (1.0 - p).powi(2) / odds
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_testkit::{CLASSES, assert_gradient};

    #[test]
    fn the_gradient_equals_differences() {
        assert_gradient(|predictions, gradient| {
            predictions.clear_gradient(gradient);
            let mut loss = 0.0;
            for (image, row) in gradient.chunks_exact_mut(CLASSES).enumerate() {
                add_slr_gradient(predictions.probs(image), 0.25, row);
                loss += 0.25 * soft_likelihood_ratio(predictions.probs(image));
            }
            loss
        });
    }

    #[test]
    fn certain_predictions_keep_a_gradient_that_entropy_would_not_give() {
        let slr = |p: f64| {
            let mut gradient = [0.0; 2];
            add_slr_gradient(&[p, 1.0 - p], 1.0, &mut gradient);
            gradient[0]
        };
        let entropy = |p: f64| p * (1.0 - p) * ((1.0 - p) / p).ln();
        assert!(f64::from(slr(0.98)).abs() > 1.5 * entropy(0.98).abs());
    }

    #[test]
    fn zero_and_one_are_harmless() {
        let mut gradient = [0.0f32; 3];
        add_slr_gradient(&[1.0, 0.0, 0.0], 1.0, &mut gradient);
        assert_eq!(gradient, [0.0; 3]);
        assert!(soft_likelihood_ratio(&[1.0, 0.0, 0.0]).is_finite());
    }
}
