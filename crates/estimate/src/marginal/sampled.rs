use super::em::Probs;
use super::{Marginal, MarginalReference};
use crate::parallel::map_ranges;
use crate::{EstimateError, Outputs};
use flipcast_ground::SplitMix64;

/// Samples drawn; their spread is then known to about a tenth.
const SAMPLES: usize = 50;

/// Images of a sample at most; the spread of larger sets follows from that of smaller ones.
const MOST_IMAGES: usize = 1000;

/// The classes' shares by expectation maximisation, and the variance of each over samples drawn with replacement (the
/// bootstrap, of at most 1,000 images each, scaled to the number there is).
pub(crate) fn em_with_variance(
    outputs: &Outputs,
    reference: &MarginalReference,
    seed: u64,
) -> Result<(Vec<f64>, Vec<f64>), EstimateError> {
    let shares = Marginal::Em.resolve(outputs, reference)?;
    let probs = Probs::new(outputs);
    let drawn = outputs.images().min(MOST_IMAGES);
    let mut random = SplitMix64::new(seed);
    let seeds: Vec<u64> = (0..SAMPLES).map(|_| random.next_u64()).collect();
    let samples = map_ranges(0, SAMPLES, 1, |range| {
        let mut random = SplitMix64::new(seeds[range.start]);
        let images: Vec<usize> = (0..drawn).map(|_| random.below(outputs.images())).collect();
        probs.estimate_of(&images, &reference.marginal)
    });
    let scale = drawn as f64 / outputs.images() as f64;
    let variance = |class: usize| {
        let mean = samples.iter().map(|shares| shares[class]).sum::<f64>() / SAMPLES as f64;
        let squares: f64 = samples.iter().map(|shares| (shares[class] - mean).powi(2)).sum();
        scale * squares / (SAMPLES - 1) as f64
    };
    let variances = (0..outputs.classes()).map(variance).collect();
    Ok((shares, variances))
}
