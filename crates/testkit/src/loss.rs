use crate::Random;

/// A scalar function of the logits, with its gradient in closed form.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Mean over images of the entropy of `softmax(logits)`.
    MeanEntropy {
        /// Classes per image.
        classes: usize,
    },
    /// `sum of weights[i] * logits[i]`.
    Linear {
        /// One weight per logit.
        weights: Vec<f64>,
    },
}

impl Loss {
    /// A linear functional of `len` logits with seeded normal weights.
    pub fn random_linear(len: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Rounded, so that an executor in `f32` gets the same weights.
        let weights = (0..len).map(|_| f64::from(random.normal() as f32));
        Self::Linear { weights: weights.collect() }
    }

    /// A short name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MeanEntropy { .. } => "mean entropy",
            Self::Linear { .. } => "linear functional",
        }
    }

    /// The loss at `logits`.
    pub fn value(&self, logits: &[f64]) -> f64 {
        match self {
            Self::MeanEntropy { classes } => {
                let images = logits.chunks_exact(*classes);
                let count = images.len() as f64;
                images.map(|row| entropy(&log_softmax(row))).sum::<f64>() / count
            }
            Self::Linear { weights } => logits.iter().zip(weights).map(|(a, b)| a * b).sum(),
        }
    }

    /// The derivative with respect to each logit: for an image's entropy `H`, `-p (log p + H)`.
    pub fn gradient(&self, logits: &[f64]) -> Vec<f64> {
        match self {
            Self::MeanEntropy { classes } => {
                let images = logits.chunks_exact(*classes);
                let count = images.len() as f64;
                images
                    .flat_map(|row| {
                        let log_probs = log_softmax(row);
                        let entropy = entropy(&log_probs);
                        log_probs.into_iter().map(move |l| -l.exp() * (l + entropy) / count)
                    })
                    .collect()
            }
            Self::Linear { weights } => weights.clone(),
        }
    }
}

/// `|found - expected| / |expected|` in L2; zero over zero is zero.
///
/// # Panics
/// If the lengths differ.
pub fn relative_l2(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "found and expected values");
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = expected.iter().map(|v| v.powi(2)).sum();
    if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() }
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = row.iter().map(|z| (z - max).exp()).sum::<f64>().ln();
    row.iter().map(|z| z - max - log_sum).collect()
}

fn entropy(log_probs: &[f64]) -> f64 {
    -log_probs.iter().map(|l| l.exp() * l).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f64; 6] = [0.3, -1.2, 2.0, 0.1, 0.0, -0.4];

    #[test]
    fn equal_logits_have_the_largest_entropy() {
        let loss = Loss::MeanEntropy { classes: 3 };
        assert!((loss.value(&[7.0; 6]) - 3f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn the_closed_forms_equal_central_differences() {
        for loss in [Loss::MeanEntropy { classes: 3 }, Loss::random_linear(LOGITS.len(), 4)] {
            let gradient = loss.gradient(&LOGITS);
            for i in 0..LOGITS.len() {
                let at = |step: f64| {
                    let mut logits = LOGITS;
                    logits[i] += step;
                    loss.value(&logits)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                // Rounding of 1e-16 over a step of 1e-5 leaves about 1e-11; measured 2e-11.
                assert!((difference - gradient[i]).abs() < 5e-11, "{loss:?} at {i}: {difference} and {}", gradient[i]);
            }
        }
    }
}
