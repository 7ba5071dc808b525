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
