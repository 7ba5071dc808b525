use crate::adapter::Kept;
use crate::method::Method;
use crate::{AdaptError, Adapter, StepOutput};
use flipcast_executor::{Executor, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// How much the source's statistics count in [`BnCumulative`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BnCumulativeConfig {
    /// Pseudo-images that stand for the source; 0 forgets it at the first batch.
    pub source_images: f32,
}

impl BnCumulativeConfig {
    /// The statistics its first forward pass normalises with, if it has one image.
    pub fn norm_mode(&self) -> NormMode {
        self.mode_after(0.0, 1)
    }

    /// The mixture for a batch of `images` after `seen` others.
    fn mode_after(&self, seen: f64, images: usize) -> NormMode {
        match f64::from(self.source_images) + seen {
            0.0 => NormMode::Batch,
            before => NormMode::Mixed { source_weight: (before / (before + images as f64)) as f32 },
        }
    }

    /// Refuses what is no number of images.
    pub fn check(&self) -> Result<(), AdaptError> {
        let found = f64::from(self.source_images);
        let ok = found >= 0.0 && found.is_finite();
        AdaptError::unless(ok, "number of source images", found, "a number of at least 0")
    }
}

/// Batch-norm adaptation with statistics gathered over the whole stream.
///
/// *Idea.* One batch measures the activations' statistics roughly; all batches so far measure them better, as long as the shift stays
/// the same.
/// *Formula.* `mean <- w * mean + (1 - w) * batch` with `w = (N + seen) / (N + seen + n)`, likewise the variance; then the batch
/// is predicted with the result.
/// *Reference.* The cumulative variant of Schneider et al., NeurIPS 2020.
/// *Departures from the reference.* Deeper layers see activations normalised with the gathered statistics, not with each batch's
/// own, so that one forward pass is enough. Spread between the batches' means does not enter the variance.
#[derive(Debug)]
pub struct BnCumulative {
    config: BnCumulativeConfig,
    seen: f64,
    kept: Kept,
}

impl BnCumulative {
    /// An adapter with these settings.
    pub fn new(config: BnCumulativeConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self { config, seen: 0.0, kept: Kept::default() })
    }
}

impl Adapter for BnCumulative {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        if !net.affine_table().has_batch_norm() {
            return Err(AdaptError::NoStatistics { method: "bn_cumulative" });
        }
        net.set_norm_mode(self.config.mode_after(self.seen, batch.images()))?;
        self.kept.keep(net.forward(batch)?);
        net.absorb_statistics()?;
        self.seen += batch.images() as f64;
        Ok(StepOutput::unchanged(self.kept.logits()))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        net.reset_statistics()?;
        self.seen = 0.0;
        Ok(())
    }
}

impl Method for BnCumulativeConfig {
    fn name(&self) -> &'static str {
        "bn_cumulative"
    }

    fn norm_mode(&mut self) -> NormMode {
        BnCumulativeConfig::norm_mode(self)
    }

    fn replaces_statistics(&self) -> bool {
        true
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(BnCumulative::new(*self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_engine;

    #[test]
    fn the_first_batch_is_predicted_with_its_own_statistics() {
        let (mut net, batch) = small_engine();
        net.set_norm_mode(NormMode::Batch).unwrap();
        let own = net.forward(&batch).unwrap().values().to_vec();
        let mut method = BnCumulative::new(BnCumulativeConfig::default()).unwrap();
        let found = method.step(&mut net, &batch).unwrap();
        assert_eq!(found.logits.values(), own);
    }

    #[test]
    fn the_same_batch_again_changes_little_and_another_changes_more() {
        let (mut net, batch) = small_engine();
        let mut method = BnCumulative::new(BnCumulativeConfig::default()).unwrap();
        let distance = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum() };
        let first = method.step(&mut net, &batch).unwrap().logits.values().to_vec();
        let again = method.step(&mut net, &batch).unwrap().logits.values().to_vec();
        let moved: Vec<f32> = batch.values().iter().map(|v| 2.0 * v + 1.0).collect();
        let shape = [batch.images(), batch.height(), batch.width(), batch.channels()];
        let moved = Batch::new(shape, moved).unwrap();
        let other = method.step(&mut net, &moved).unwrap().logits.values().to_vec();
        // The second time the batch's variance is the unbiased one.
        assert!(distance(&first, &again) < 0.1 * distance(&first, &other));
        method.reset(&mut net).unwrap();
        let anew = method.step(&mut net, &batch).unwrap().logits.values().to_vec();
        assert_eq!(anew, first, "a reset forgets the stream");
    }

    #[test]
    fn a_reset_restores_the_sources_statistics() {
        let (mut net, batch) = small_engine();
        let source = net.forward(&batch).unwrap().values().to_vec();
        let mut method = BnCumulative::new(BnCumulativeConfig { source_images: 16.0 }).unwrap();
        method.step(&mut net, &batch).unwrap();
        net.set_norm_mode(NormMode::Running).unwrap();
        assert_ne!(net.forward(&batch).unwrap().values(), source);
        method.reset(&mut net).unwrap();
        assert_eq!(net.forward(&batch).unwrap().values(), source);
    }

    #[test]
    fn a_negative_number_of_images_is_refused() {
        assert!(BnCumulative::new(BnCumulativeConfig { source_images: -1.0 }).is_err());
    }
}
