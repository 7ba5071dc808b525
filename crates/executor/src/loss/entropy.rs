//! Entropy of predictions and its gradient, in double precision.

use crate::Logits;
use flipcast_ground::log_softmax;

/// Replaces `log_probs` by the log-probabilities of one row of logits; gives their entropy in nats.
pub fn log_softmax_entropy(row: &[f32], log_probs: &mut Vec<f64>) -> f64 {
    log_softmax(row, log_probs);
    let mut entropy = 0.0;
    for z in log_probs {
        // A probability that underflows contributes nothing, though its logarithm is finite.
        entropy -= z.exp() * *z;
    }
    entropy
}

/// Entropy of every row, in nats: `-sum_k p_k log p_k`.
pub fn entropies(logits: Logits) -> Vec<f64> {
    let mut log_probs = Vec::new();
    logits.rows().map(|row| log_softmax_entropy(row, &mut log_probs)).collect()
}

/// The mean entropy of a batch, in nats.
pub fn mean_entropy(logits: Logits) -> f64 {
    let entropies = entropies(logits);
    entropies.iter().sum::<f64>() / entropies.len() as f64
}

/// The mean entropy of a batch; `gradient` receives its gradient with respect to the logits,
/// `-p_k (log p_k + H) / images`.
pub fn mean_entropy_gradient(logits: Logits, gradient: &mut Vec<f32>) -> f64 {
    let images = logits.images() as f64;
    let mut log_probs = Vec::with_capacity(logits.classes());
    let mut total = 0.0;
    gradient.clear();
    for row in logits.rows() {
        let entropy = log_softmax_entropy(row, &mut log_probs);
        total += entropy;
        gradient.extend(log_probs.iter().map(|&log_p| (-log_p.exp() * (log_p + entropy) / images) as f32));
    }
    total / images
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_prediction_has_the_entropy_of_the_class_count() {
        let logits = [3.0f32; 8];
        assert!((entropies(Logits::new(&logits, 8))[0] - 8f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_certain_prediction_has_no_entropy_and_no_gradient() {
        let mut gradient = Vec::new();
        let entropy = mean_entropy_gradient(Logits::new(&[0.0, 3000.0, -50.0], 3), &mut gradient);
        assert_eq!(entropy, 0.0);
        assert!(gradient.iter().all(|g| *g == 0.0), "{gradient:?}");
    }

    #[test]
    fn the_gradient_equals_central_differences() {
        let logits = [0.3f32, -1.25, 2.0, 0.5, 0.0, -0.75];
        let mut gradient = Vec::new();
        mean_entropy_gradient(Logits::new(&logits, 3), &mut gradient);
        for i in 0..logits.len() {
            let at = |step: f32| {
                let mut moved = logits;
                moved[i] += step;
                entropies(Logits::new(&moved, 3)).iter().sum::<f64>() / 2.0
            };
            let expected = (at(0.0078125) - at(-0.0078125)) / 0.015625;
            assert!((f64::from(gradient[i]) - expected).abs() < 2e-5, "{i}: {} {expected}", gradient[i]);
        }
    }
}
