//! Methods whose step minimises one loss of the logits, which the executor does.

use crate::method::{Method, SharedSettings};
use crate::{AdaptError, Adapter, ParamRule, StepOutput};
use flipcast_executor::{Executor, Logits, NormMode, OptimizerConfig, StepLoss, StepRequest, StepResult, StepRun};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// What a method minimises, and how.
#[derive(Debug)]
pub struct Objective<'a> {
    /// The loss.
    pub loss: StepLoss,
    /// What moves the parameters.
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
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

/// The settings of a method that does nothing but minimise one loss of the logits.
pub trait LossMethod: Clone + std::fmt::Debug + Send + 'static {
    /// The method's name in [`METHODS`](crate::METHODS).
    const NAME: &'static str;

    /// Refuses settings outside their range.
    fn check(&self) -> Result<(), AdaptError>;

    /// What it minimises in a network of `num_classes` classes.
    fn objective(&self, num_classes: usize) -> Objective<'_>;

    /// The settings that all such methods have.
    fn settings(&mut self) -> SharedSettings<'_>;

    /// Whether a reset keeps the average prediction, where the loss has one.
    fn keeps_average(&self) -> bool {
        false
    }
}

/// The adapter of a method that minimises one loss of the logits: [`Tent`](crate::Tent), [`Rpl`](crate::Rpl),
/// [`Cpl`](crate::Cpl), [`Eta`](crate::Eta), [`Come`](crate::Come).
#[derive(Debug)]
pub struct Minimize<C> {
    config: C,
    minimizer: Minimizer,
}

impl<C: LossMethod> Minimize<C> {
    /// An adapter with these settings.
    pub fn new(config: C) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self { config, minimizer: Minimizer::default() })
    }
}

impl<C: LossMethod> Adapter for Minimize<C> {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        let objective = self.config.objective(net.num_classes());
        self.minimizer.step(net, batch, &objective)
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.minimizer.reset(net);
        if !self.config.keeps_average() {
            self.minimizer.forget_average();
        }
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        *self.config.clone().settings().norm_mode
    }
}

impl<C: LossMethod> Method for C {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(self.settings())
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Minimize::new(self.clone())?))
    }
}

#[cfg(test)]
mod tests;
