use serde::{Deserialize, Serialize};

/// How the class frequencies of a batch correct its predictions.
///
/// The prior is the batch's mean prediction, smoothed: `(mean p + s) / (1 + s K)` with `s = max(1/B, 1/K) / max(mean p)`, so that a
/// batch too small to show all classes says little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorCorrection {
    /// Multiply logits by the prior, as published code does. It turns with the sign of a logit, and shrinks all of them.
    Logits,
    /// Multiply probabilities by the prior: its logarithm is added to the logits.
    Probabilities,
    /// Leave predictions alone.
    Off,
}

impl PriorCorrection {
    /// Corrects rows of `logits` of a batch of `images` with the mean prediction `mean_probs`.
    pub(crate) fn apply(self, mean_probs: &[f64], images: usize, logits: &mut [f32]) {
        let (images, classes) = (images as f64, mean_probs.len() as f64);
        let largest = mean_probs.iter().copied().fold(0.0, f64::max);
        let smooth = (1.0 / images).max(1.0 / classes) / largest;
        let prior = |p: &f64| (p + smooth) / (1.0 + smooth * classes);
        for row in logits.chunks_exact_mut(mean_probs.len().max(1)) {
            for (z, p) in row.iter_mut().zip(mean_probs) {
                *z = match self {
                    Self::Logits => (f64::from(*z) * prior(p)) as f32,
                    Self::Probabilities => (f64::from(*z) + prior(p).ln()) as f32,
                    Self::Off => *z,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_scaled_as_published_and_probabilities_by_the_prior() {
        // s = max(1/4, 1/2) / 0.75 = 2/3, so the prior is (0.75 + 2/3) / (7/3) = 17/28 and 11/28.
        let mean = [0.75, 0.25];
        let mut scaled = [2.0f32, -1.0];
        PriorCorrection::Logits.apply(&mean, 4, &mut scaled);
        assert!((scaled[0] - 34.0 / 28.0).abs() < 1e-6 && (scaled[1] + 11.0 / 28.0).abs() < 1e-6);
        let mut moved = [2.0f32, -1.0];
        PriorCorrection::Probabilities.apply(&mean, 4, &mut moved);
        let odds = f64::from(moved[0] - moved[1]) - 3.0;
        assert!((odds - (17f64 / 11.0).ln()).abs() < 1e-6, "{odds}");
        let mut same = [2.0f32, -1.0];
        PriorCorrection::Off.apply(&mean, 4, &mut same);
        assert_eq!(same, [2.0, -1.0]);
    }

    #[test]
    fn scaled_logits_favour_rare_classes_where_they_are_negative() {
        let mean = [0.9, 0.1];
        let (mut published, mut corrected) = ([-1.0f32, -1.1], [-1.0f32, -1.1]);
        PriorCorrection::Logits.apply(&mean, 64, &mut published);
        PriorCorrection::Probabilities.apply(&mean, 64, &mut corrected);
        assert!(published[1] > published[0] && corrected[0] > corrected[1]);
    }
}
