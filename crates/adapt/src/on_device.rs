//! Steps that the executor makes by itself, where it does.

use crate::adapter::Kept;
use crate::{AdaptError, OptimiserConfig, ParamRule};
use flipcast_exec::{Executor, StepLoss, StepRequest, StepResult, StepRun};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// What a method asks of an executor.
pub(crate) struct Ask<'a> {
    pub loss: StepLoss,
    pub optimiser: OptimiserConfig,
    pub param_rule: &'a ParamRule,
    /// Weights of a pull to the source.
    pub pull: Option<&'a Arc<[f64]>>,
}

/// A method's run of steps on an executor that makes them by itself. Momentum and averages then live with the executor, and
/// the method's own stay empty.
#[derive(Debug, Default)]
pub(crate) struct OnDevice {
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    steps: StepRun,
    /// Classes and parameters of the network it was made for.
    extents: [usize; 2],
}

impl OnDevice {
    /// One step, with the logits from before it kept in `kept`; `None` if `net` leaves steps to the host. The norm mode is
    /// the caller's to set.
    pub fn step(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        kept: &mut Kept,
        ask: Ask<'_>,
    ) -> Result<Option<StepResult>, AdaptError> {
        if net.steps().is_none() {
            return Ok(None);
        }
        let extents = [net.num_classes(), net.affine_table().len()];
        let run = self.run.take().filter(|run| run.extents == extents);
        let run = self.run.insert(run.unwrap_or_else(|| Run { steps: StepRun::new(ask.request(net)), extents }));
        if let Some(pull) = ask.pull {
            run.steps.set_pull(Arc::clone(pull));
        }
        let Some(steps) = net.steps() else {
            return Ok(None);
        };
        let step = steps.step(&run.steps, batch)?;
        kept.keep(step.logits);
        Ok(Some(step.result))
    }

    /// Makes the next step the optimiser's first.
    pub fn forget_optimiser(&mut self) {
        if let Some(run) = &mut self.run {
            run.steps.forget_optimiser();
        }
    }

    /// Forgets the average prediction.
    pub fn forget_average(&mut self) {
        if let Some(run) = &mut self.run {
            run.steps.forget_average();
        }
    }
}

impl Ask<'_> {
    fn request(&self, net: &dyn Executor) -> StepRequest {
        StepRequest {
            loss: self.loss,
            optimiser: self.optimiser.on_device(),
            mask: self.param_rule.open(net),
            pull: self.pull.cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
