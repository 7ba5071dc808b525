//! Methods whose step minimises one loss of the logits, which the executor does.

use crate::{AdaptError, ParamRule, StepOutput};
use flipcast_executor::{Executor, Logits, NormMode, OptimizerConfig, StepLoss, StepRequest, StepResult, StepRun};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// What a method minimises, and how.
#[derive(Debug)]
pub(crate) struct Objective<'a> {
    pub loss: StepLoss,
    pub optimizer: OptimizerConfig,
    pub norm_mode: NormMode,
    pub param_rule: &'a ParamRule,
    /// Weights of a pull to the source.
    pub pull: Option<&'a Arc<[f64]>>,
}

/// A method's run of steps on the network that it was last asked to adapt.
#[derive(Debug, Default)]
pub(crate) struct Minimizer {
    run: Option<StepRun>,
    /// Classes and parameters of the network that the run was made for.
    extents: [usize; 2],
}

impl Minimizer {
    /// One step towards `objective`.
    pub fn step(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        objective: &Objective<'_>,
    ) -> Result<StepOutput<'_>, AdaptError> {
        let run = self.run_on(net, objective)?;
        let result = net.step(run, batch)?;
        Ok(StepOutput::new(run.logits(), result))
    }

    /// The same with a penalty, which sees the affine vector and adds to the gradient. It is made on the host.
    pub fn step_penalized(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        objective: &Objective<'_>,
        penalize: impl FnOnce(&[f32], &mut [f32]),
    ) -> Result<StepResult, AdaptError> {
        let run = self.run_on(net, objective)?;
        Ok(run.step_on_host(net, batch, penalize)?)
    }

    /// The logits of the last step, from before its update.
    pub fn logits(&self) -> Logits<'_> {
        self.run.as_ref().map_or(Logits::new(&[], 0), StepRun::logits)
    }

    /// Restores the source parameters and forgets the optimizer's memory.
    pub fn reset(&mut self, net: &mut dyn Executor) {
        net.reset_affine();
        if let Some(run) = &mut self.run {
            run.forget_optimizer();
        }
    }

    /// Forgets the average prediction.
    pub fn forget_average(&mut self) {
        if let Some(run) = &mut self.run {
            run.forget_average();
        }
    }

    /// The run of steps on `net`; a new one if the last was made for a network of other extents.
    fn run_on(&mut self, net: &mut dyn Executor, objective: &Objective<'_>) -> Result<&mut StepRun, AdaptError> {
        net.set_norm_mode(objective.norm_mode)?;
        let extents = [net.num_classes(), net.affine_table().len()];
        let run = match self.run.take() {
            Some(run) if self.extents == extents => run,
            _ => {
                objective.param_rule.check(net)?;
                StepRun::new(StepRequest {
                    mask: objective.param_rule.open(net),
                    pull: objective.pull.cloned(),
                    ..StepRequest::new(objective.loss, objective.optimizer)
                })
            }
        };
        self.extents = extents;
        let run = self.run.insert(run);
        if let Some(pull) = objective.pull {
            run.set_pull(Arc::clone(pull));
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests;
