use crate::adapter::Kept;
use crate::method::Method;
use crate::{AdaptError, Adapter, StepOutput};
use flipcast_executor::{Executor, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// How much of the source's statistics [`Bn`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BnConfig {
    /// Share of the running statistics: 0 is the batch alone, 1 the source alone.
    pub source_weight: f32,
}

impl BnConfig {
    /// Batch statistics alone (Nado et al., 2020).
    pub fn batch() -> Self {
        Self { source_weight: 0.0 }
    }

    /// The prior of `source_images` pseudo-images against a batch of `batch` (Schneider et al., 2020).
    pub fn prior(source_images: f32, batch: usize) -> Self {
        Self { source_weight: source_images / (source_images + batch as f32) }
    }

    /// The statistics it normalises with.
    pub fn norm_mode(&self) -> NormMode {
        match self.source_weight {
            0.0 => NormMode::Batch,
            source_weight => NormMode::Mixed { source_weight },
        }
    }

    /// Refuses weights outside [0, 1].
    pub fn check(&self) -> Result<(), AdaptError> {
        let found = f64::from(self.source_weight);
        let ok = (0.0..=1.0).contains(&self.source_weight);
        AdaptError::unless(ok, "source weight", found, "a number from 0 to 1")
    }
}

/// Batch-norm adaptation: statistics of the batch, source scales and shifts.
///
/// *Idea.* A shift of the inputs moves the activations' statistics; measuring them again undoes part of it.
/// *Formula.* `mean = w * running + (1 - w) * batch`, likewise the variance.
/// *Reference.* Nado et al. 2020 (`w = 0`, biased variance); Schneider et al. 2020 (`w = N / (N + n)`, unbiased variance).
/// *Departures from the reference.* None; the two variances differ as published.
#[derive(Debug)]
pub struct Bn {
    method: &'static str,
    mode: NormMode,
    kept: Kept,
}

impl Bn {
    /// An adapter with these settings.
    pub fn new(config: BnConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self::in_mode("bn", config.norm_mode()))
    }

    /// The adapter of a method that predicts in this mode and moves nothing.
    pub(crate) fn in_mode(method: &'static str, mode: NormMode) -> Self {
        Self { method, mode, kept: Kept::default() }
    }
}

impl Adapter for Bn {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        if !net.affine_table().has_batch_norm() {
            return Err(AdaptError::NoStatistics { method: self.method });
        }
        net.set_norm_mode(self.mode)?;
        self.kept.keep(net.forward(batch)?);
        Ok(StepOutput::unchanged(self.kept.logits()))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        Ok(())
    }
}

impl Method for BnConfig {
    fn name(&self) -> &'static str {
        "bn"
    }

    fn norm_mode(&mut self) -> NormMode {
        BnConfig::norm_mode(self)
    }

    fn replaces_statistics(&self) -> bool {
        true
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Bn::new(*self)?))
    }
}
