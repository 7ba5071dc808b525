//! The conjugate of the PolyLoss.

use super::Predictions;

/// What the gradient needs to know of one class.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// The probability.
    s: f64,
    /// The pseudo-label.
    y: f64,
    /// What the label is multiplied with in the loss.
    u: f64,
    /// The derivative of `y.u` by `s` with `u` held.
    g: f64,
}

/// The mean conjugate of a batch's PolyLoss, `mean_i (-sum_k y_k u_k)`; `gradient` receives its gradient.
pub fn conjugate_poly_loss(predictions: &Predictions, epsilon: f64, gradient: &mut Vec<f32>) -> f64 {
    let images = predictions.images() as f64;
    let (mut loss, mut terms) = (0.0, Vec::with_capacity(predictions.classes()));
    gradient.clear();
    for image in 0..predictions.images() {
        let total = conjugate_terms(predictions, image, epsilon, &mut terms);
        let y_u: f64 = terms.iter().map(|t| t.y * t.u).sum();
        loss -= y_u / images;
        for t in &mut terms {
            t.g = (t.u - y_u) / ((1.0 + epsilon * t.s).powi(2) * total);
        }
        let y_s: f64 = terms.iter().map(|t| t.y * t.s).sum();
        let g_s: f64 = terms.iter().map(|t| t.g * t.s).sum();
        gradient.extend(terms.iter().map(|t| {
            let through_label = t.s * (t.g - g_s);
            ((t.s - t.y - epsilon * t.s * (t.y - y_s) - through_label) / images) as f32
        }));
    }
    loss
}

/// Fills `terms` with the classes of one image, all but `g`; gives what the labels were divided by.
fn conjugate_terms(predictions: &Predictions, image: usize, epsilon: f64, terms: &mut Vec<Term>) -> f64 {
    let probs = predictions.probs(image).iter();
    let total: f64 = probs.clone().map(|s| s / (1.0 + epsilon * s)).sum();
    terms.clear();
    terms.extend(probs.zip(predictions.log_probs(image)).map(|(&s, log_s)| Term {
        s,
        y: s / (1.0 + epsilon * s) / total,
        u: log_s - epsilon * (1.0 - s),
        g: 0.0,
    }));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logits;
    use crate::loss::mean_entropy_gradient;
    use flipcast_testkit::{CLASSES, LOGITS};

    fn predictions(logits: &[f32]) -> Predictions {
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(logits, CLASSES));
        predictions
    }

    /// The published definition: `(I + eps diag(s) - eps s s^T) y = s`.
    #[test]
    fn the_label_solves_the_published_system() {
        let (epsilon, mut terms) = (8.0, Vec::new());
        conjugate_terms(&predictions(&LOGITS[..CLASSES]), 0, epsilon, &mut terms);
        let s_y: f64 = terms.iter().map(|t| t.s * t.y).sum();
        for t in &terms {
            let left = t.y + epsilon * t.s * t.y - epsilon * t.s * s_y;
            assert!((left - t.s).abs() < 1e-15, "{left} {}", t.s);
        }
    }

    #[test]
    fn without_epsilon_it_is_the_entropy() {
        let (mut ours, mut entropys) = (Vec::new(), Vec::new());
        let loss = conjugate_poly_loss(&predictions(&LOGITS), 0.0, &mut ours);
        let entropy = mean_entropy_gradient(Logits::new(&LOGITS, CLASSES), &mut entropys);
        assert!((loss - entropy).abs() < 1e-15);
        for (a, b) in ours.iter().zip(&entropys) {
            assert!((a - b).abs() < 1e-7, "{a} {b}");
        }
    }
}
