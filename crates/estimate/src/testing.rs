//! Made-up outputs for tests.

use crate::Outputs;
use flipcast_ground::SplitMix64;

/// Logits of `images` rows whose largest entry is, more often than not, at a drawn label.
pub(crate) fn labelled_outputs(
    random: &mut SplitMix64,
    images: usize,
    classes: usize,
    separation: f64,
) -> (Outputs, Vec<usize>) {
    let labels: Vec<usize> = (0..images).map(|_| random.below(classes)).collect();
    let mut logits = Vec::with_capacity(images * classes);
    for &label in &labels {
        for class in 0..classes {
            let lift = if class == label { separation } else { 0.0 };
            logits.push((random.normal() + lift) as f32);
        }
    }
    let outputs = Outputs::new(logits, classes).expect("normal draws are finite");
    (outputs, labels)
}

/// Calibrated outputs: the likelihood ratios of normal observations around one centre per class, for labels drawn with
/// probabilities proportional to `weights`.
pub(crate) fn calibrated(seed: u64, images: usize, weights: &[f64], separation: f64) -> (Outputs, Vec<usize>) {
    let mut random = SplitMix64::new(seed);
    let total: f64 = weights.iter().sum();
    let mut logits = Vec::new();
    let mut labels = Vec::new();
    for _ in 0..images {
        let mut left = random.uniform() * total;
        let label = weights
            .iter()
            .position(|weight| {
                left -= weight;
                left < 0.0
            })
            .unwrap_or(0);
        labels.push(label);
        for class in 0..weights.len() {
            let lift = if class == label { separation } else { 0.0 };
            logits.push((separation * (random.normal() + lift)) as f32);
        }
    }
    (Outputs::new(logits, weights.len()).unwrap(), labels)
}
