use crate::adapter::Kept;
use crate::{AdaptError, Adapter, StepOutput, entropies};
use flipcast_exec::{Executor, NormMode};
use flipcast_tensor::Batch;

/// No adaptation: the model as it was trained.
///
/// *Idea.* The baseline every method is compared with.
/// *Formula.* Running statistics, source scales and shifts.
/// *Departures from the reference.* None.
#[derive(Debug, Default)]
pub struct Source {
    kept: Kept,
}

impl Source {
    /// The unadapted model.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Adapter for Source {
    fn step(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
    ) -> Result<StepOutput<'_>, AdaptError> {
        net.set_norm_mode(NormMode::Running)?;
        self.kept.keep(net.forward(batch)?);
        let logits = self.kept.logits();
        let entropies = entropies(logits);
        let mean_entropy = entropies.iter().sum::<f64>() / entropies.len() as f64;
        Ok(StepOutput {
            logits,
            mean_entropy,
            reliable: batch.images(),
            used: 0,
            reset: false,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) {
        net.reset_affine();
    }

    fn norm_mode(&self) -> NormMode {
        NormMode::Running
    }
}
