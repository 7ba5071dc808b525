use crate::adapter::Kept;
use crate::method::Method;
use crate::{AdaptError, Adapter, StepOutput};
use flipcast_executor::{Executor, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// [`Source`] has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {}

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
}

impl Method for SourceConfig {
    fn name(&self) -> &'static str {
        "source"
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Source::new()))
    }
}
