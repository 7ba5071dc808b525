use crate::adapter::Kept;
use crate::{AdaptError, Adapter, StepOutput};
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
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        net.set_norm_mode(NormMode::Running)?;
        self.kept.keep(net.forward(batch)?);
        Ok(StepOutput::unchanged(self.kept.logits()))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        NormMode::Running
    }
}
