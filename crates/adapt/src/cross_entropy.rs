//! Cross-entropy between two predictions and its gradient, in double precision.

use flipcast_executor::loss::Predictions;

/// One prediction: probabilities and their logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prediction<'a> {
    pub probs: &'a [f64],
    pub log_probs: &'a [f64],
}

impl<'a> Prediction<'a> {
    /// The prediction of one image.
    pub fn of(predictions: &'a Predictions, image: usize) -> Self {
        Self { probs: predictions.probs(image), log_probs: predictions.log_probs(image) }
    }
}

/// `-sum_k q_k log p_k`.
#[cfg(test)]
pub(crate) fn cross_entropy(p: Prediction<'_>, q: Prediction<'_>) -> f64 {
    -dot(q.probs, p.log_probs)
}

/// Adds `weight` times the gradient of `-sum_k q_k log p_k` with respect to the logits of `p`, `p_k - q_k`.
pub(crate) fn add_cross_entropy_gradient(p: Prediction<'_>, q: Prediction<'_>, weight: f64, gradient: &mut [f32]) {
    for ((g, p), q) in gradient.iter_mut().zip(p.probs).zip(q.probs) {
        *g += (weight * (p - q)) as f32;
    }
}

/// `-(1/2) sum_k q_k log p_k - (1/2) sum_k p_k log q_k`.
#[cfg(test)]
pub(crate) fn symmetric_cross_entropy(p: Prediction<'_>, q: Prediction<'_>) -> f64 {
    0.5 * (cross_entropy(p, q) + cross_entropy(q, p))
}

/// Adds `weight` times the gradient of the symmetric cross-entropy with respect to the logits of `p`,
/// `(p_k - q_k) / 2 - p_k (log q_k - sum_j p_j log q_j) / 2`.
pub(crate) fn add_symmetric_gradient(p: Prediction<'_>, q: Prediction<'_>, weight: f64, gradient: &mut [f32]) {
    let mean = dot(p.probs, q.log_probs);
    let known = p.probs.iter().zip(q.probs.iter().zip(q.log_probs));
    for (g, (p, (q, log_q))) in gradient.iter_mut().zip(known) {
        *g += (0.5 * weight * (p - q - p * (log_q - mean))) as f32;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_executor::Logits;
    use flipcast_testkit::{CLASSES, LOGITS, assert_gradient};

    fn other() -> Predictions {
        let mut other = Predictions::default();
        other.see(Logits::new(&[1.5, 0.25, -0.5, 0.0, -2.0, 0.5, 1.0, 3.0], CLASSES));
        other
    }

    #[test]
    fn both_gradients_equal_differences() {
        let other = other();
        type Loss = fn(Prediction<'_>, Prediction<'_>) -> f64;
        type Gradient = fn(Prediction<'_>, Prediction<'_>, f64, &mut [f32]);
        let pairs: [(Loss, Gradient); 2] =
            [(cross_entropy, add_cross_entropy_gradient), (symmetric_cross_entropy, add_symmetric_gradient)];
        for (loss, gradient_of) in pairs {
            assert_gradient(|predictions, gradient| {
                predictions.clear_gradient(gradient);
                let mut total = 0.0;
                for (image, row) in gradient.chunks_exact_mut(CLASSES).enumerate() {
                    let (p, q) = (Prediction::of(predictions, image), Prediction::of(&other, image));
                    gradient_of(p, q, 0.25, row);
                    total += 0.25 * loss(p, q);
                }
                total
            });
        }
    }

    #[test]
    fn it_is_symmetric_and_equal_predictions_have_their_entropy() {
        let (mut a, b) = (Predictions::default(), other());
        a.see(Logits::new(&LOGITS, CLASSES));
        let (p, q) = (Prediction::of(&a, 0), Prediction::of(&b, 0));
        assert_eq!(symmetric_cross_entropy(p, q), symmetric_cross_entropy(q, p));
        assert!((symmetric_cross_entropy(p, p) - a.entropy(0)).abs() < 1e-14);
    }
}
