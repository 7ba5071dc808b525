//! Entropy of opinions.

use super::log_softmax_entropy;
use crate::Logits;

/// The mean entropy of the opinions of a batch, which have one more outcome than classes: not knowing; `gradient` receives its gradient with respect to the
/// logits, their lengths held constant.
pub fn opinion_entropy_gradient(logits: Logits, gradient: &mut Vec<f32>) -> f64 {
    let images = logits.images() as f64;
    let none_of_these = (logits.classes() as f64).ln() as f32;
    let (mut outcomes, mut log_probs) = (Vec::new(), Vec::new());
    let mut total = 0.0;
    gradient.clear();
    for row in logits.rows() {
        outcomes.clear();
        outcomes.extend_from_slice(row);
        outcomes.push(none_of_these);
        let entropy = log_softmax_entropy(&outcomes, &mut log_probs);
        total += entropy;
        let pull = |log_p: &f64| -log_p.exp() * (log_p + entropy) / images;
        let (mut along, mut square) = (0.0, 0.0);
        for (&z, log_p) in row.iter().zip(&log_probs) {
            along += f64::from(z) * pull(log_p);
            square += f64::from(z).powi(2);
        }
        let share = if square > 0.0 { along / square } else { 0.0 };
        gradient.extend(
            row.iter()
                .zip(&log_probs)
                .map(|(&z, log_p)| if square > 0.0 { (pull(log_p) - share * f64::from(z)) as f32 } else { 0.0 }),
        );
    }
    total / images
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_testkit::{CLASSES, LOGITS};

    /// The loss with the logits scaled to the lengths they have in `LOGITS`, as the stopped gradient has it, in `f64`.
    fn loss_at_length(logits: &[f64]) -> f64 {
        let mut total = 0.0;
        for (row, start) in logits.chunks_exact(CLASSES).zip(LOGITS.chunks_exact(CLASSES)) {
            let length = |square: f64| square.sqrt();
            let held = length(start.iter().map(|&z| f64::from(z).powi(2)).sum());
            let scale = held / length(row.iter().map(|z| z * z).sum());
            let strength = row.iter().map(|z| (z * scale).exp()).sum::<f64>() + CLASSES as f64;
            let outcomes = row.iter().map(|z| (z * scale).exp()).chain([CLASSES as f64]);
            total -= outcomes.map(|e| e / strength * (e / strength).ln()).sum::<f64>();
        }
        total / 2.0
    }

    #[test]
    fn the_gradient_equals_differences_with_lengths_held() {
        let mut gradient = Vec::new();
        let loss = opinion_entropy_gradient(Logits::new(&LOGITS, CLASSES), &mut gradient);
        let at_start = LOGITS.map(f64::from);
        // The extra logit ln K is rounded to single precision.
        assert!((loss - loss_at_length(&at_start)).abs() < 1e-7);
        for (i, &found) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = at_start;
                moved[i] += step;
                loss_at_length(&moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((f64::from(found) - expected).abs() < 2e-7, "{i}: {found} {expected}");
        }
    }

    #[test]
    fn huge_logits_do_not_overflow_and_zero_ones_have_no_gradient() {
        let mut gradient = Vec::new();
        let logits = [3000.0f32, -50.0, 2990.0, 0.0, 0.0, 0.0];
        let loss = opinion_entropy_gradient(Logits::new(&logits, 3), &mut gradient);
        assert!(loss.is_finite() && gradient.iter().all(|g| g.is_finite()));
        assert!(gradient[3..].iter().all(|g| *g == 0.0));
        // Equal shares of b, and u as much as all three of them: H = ln 2 + (ln 3) / 2.
        let zeros = opinion_entropy_gradient(Logits::new(&[0.0; 3], 3), &mut gradient);
        assert!((zeros - (2f64.ln() + 3f64.ln() / 2.0)).abs() < 1e-6, "{zeros}");
    }
}
