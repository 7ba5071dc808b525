use crate::score::mean;
use crate::softmax::RowSummary;
use crate::{EstimateError, Outputs, Score};
use serde::{Deserialize, Serialize};

/// Settings of [`mano`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManoConfig {
    /// Order of the norm.
    pub order: u32,
    /// Above this distance from uniform predictions the softmax is trusted.
    pub threshold: f64,
    /// Images whose norm is taken together.
    pub batch_size: usize,
}

impl ManoConfig {
    /// As published: the fourth norm, threshold 5, in batches of 64.
    pub fn published() -> Self {
        Self { order: 4, threshold: 5.0, batch_size: 64 }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), EstimateError> {
        let refused = |setting, found, expected| Err(EstimateError::Setting { setting, found, expected });
        if !(1..=64).contains(&self.order) {
            return refused("order", self.order.into(), "a whole number from 1 to 64");
        }
        if !self.threshold.is_finite() {
            return refused("threshold", self.threshold, "a finite number");
        }
        if self.batch_size == 0 {
            return refused("batch_size", 0.0, "at least 1");
        }
        Ok(())
    }
}

/// MaNo: matrix norm of normalised logits.
///
/// *Idea.* Logits far from the decision borders mean few errors; an entry-wise norm of high order sums up how far they are.
/// *Formula.* `((1 / (n K)) sum_ik s_ik^4)^(1/4)` per batch, averaged; `s` is the softmax if the criterion exceeds 5, else
/// `1 + z + z^2 / 2` minus the row's smallest such value, divided by the row's sum. The criterion is the mean cross-entropy of
/// uniform targets, `mean_ik -log p_ik`, which is at least `ln K`.
/// *Reference.* Xie et al., "MaNo: Exploiting Matrix Norm for Unsupervised Accuracy Estimation Under Distribution Shifts",
/// NeurIPS 2024.
/// *Departures from the reference.* The criterion is taken over all images given, where the published script keeps the last of
/// five batches of the first data set and uses it for all. The softmax branch is normalised, as in the paper. The published
/// script runs the network with batch statistics; here that is the caller's choice. A row of equal logits counts as zeros in
/// the polynomial branch, as in the reference.
pub fn mano(outputs: &Outputs, config: &ManoConfig) -> Result<Score, EstimateError> {
    config.check()?;
    let softmax = uniform_cross_entropy(outputs) > config.threshold;
    let mut row_probs = Vec::with_capacity(outputs.classes());
    let mut norms = Vec::new();
    let images: Vec<usize> = (0..outputs.images()).collect();
    for batch in images.chunks(config.batch_size) {
        let mut sum = 0.0;
        for &image in batch {
            if softmax {
                outputs.probs_into(image, &mut row_probs);
            } else {
                taylor_probs_into(outputs.row(image), &mut row_probs);
            }
            sum += match config.order {
                // As published; the general power is a call for every value.
                4 => row_probs.iter().map(|s| (s * s) * (s * s)).sum::<f64>(),
                order => row_probs.iter().map(|s| s.powi(order as i32)).sum::<f64>(),
            };
        }
        let entries = batch.len() as f64 * outputs.classes() as f64;
        norms.push((sum / entries).powf(f64::from(config.order).recip()));
    }
    Ok(Score::of_images(mean(&norms), outputs.images()))
}

/// Mean cross-entropy between uniform targets and the predictions, in nats.
fn uniform_cross_entropy(outputs: &Outputs) -> f64 {
    let of_row = |row: &RowSummary| row.uniform_cross_entropy(outputs.classes());
    outputs.summaries().iter().map(of_row).sum::<f64>() / outputs.images() as f64
}

/// Replaces `out` by the second-order expansion of the exponential, shifted to 0 and scaled to sum 1.
fn taylor_probs_into(row: &[f32], out: &mut Vec<f64>) {
    out.clear();
    out.extend(row.iter().map(|&z| {
        let z = f64::from(z);
        1.0 + z + z * z / 2.0
    }));
    let least = out.iter().copied().fold(f64::INFINITY, f64::min);
    out.iter_mut().for_each(|s| *s -= least);
    let sum: f64 = out.iter().sum();
    if sum > 0.0 {
        out.iter_mut().for_each(|s| *s /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    #[test]
    fn the_polynomial_branch_is_as_written() {
        // 1 + z + z^2 / 2 of 0, 1, 2 is 1, 2.5, 5; shifted 0, 1.5, 4; the sum is 5.5.
        let outputs = Outputs::new(vec![0.0, 1.0, 2.0], 3).unwrap();
        let expected = (((1.5f64 / 5.5).powi(4) + (4.0f64 / 5.5).powi(4)) / 3.0).powf(0.25);
        let score = mano(&outputs, &ManoConfig::published()).unwrap();
        assert!((score.value - expected).abs() < 1e-12);
    }

    #[test]
    fn many_classes_use_the_softmax() {
        let outputs = Outputs::new(vec![0.0; 2 * 200], 200).unwrap();
        let score = mano(&outputs, &ManoConfig::published()).unwrap();
        assert!((score.value - 0.005).abs() < 1e-12, "{score:?}");
    }

    #[test]
    fn scores_stay_between_0_and_1() {
        let mut random = SplitMix64::new(5);
        for (images, classes) in [(1, 1), (1, 9), (70, 3), (130, 160)] {
            for separation in [0.0, 3.0, 1e6] {
                let (outputs, _) = labelled_outputs(&mut random, images, classes, separation);
                let value = mano(&outputs, &ManoConfig::published()).unwrap().value;
                assert!((0.0..=1.0).contains(&value), "{value}");
            }
        }
        let extreme = Outputs::new(vec![f32::MAX, f32::MIN, 1.0], 3).unwrap();
        assert!(mano(&extreme, &ManoConfig::published()).unwrap().value.is_finite());
    }

    #[test]
    fn settings_are_checked() {
        let outputs = Outputs::new(vec![0.0], 1).unwrap();
        let config = ManoConfig { batch_size: 0, ..ManoConfig::published() };
        assert!(mano(&outputs, &config).is_err());
    }
}
