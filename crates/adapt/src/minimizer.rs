//! Methods whose step minimises one loss of the logits, which the executor does.

use crate::method::{Method, SharedSettings};
use crate::{AdaptError, Adapter, ParamRule, StepOutput};
use flipcast_executor::{Executor, Logits, NormMode, OptimizerConfig, StepLoss, StepMemory, StepRequest, StepRun};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// A method's run of steps on the network that it was last asked to adapt.
#[derive(Debug)]
pub(crate) struct Minimizer {
    optimizer: OptimizerConfig,
    norm_mode: NormMode,
    param_rule: ParamRule,
    run: Option<StepRun>,
    /// Classes and parameters of the network that the run was made for.
    extents: [usize; 2],
}

impl Minimizer {
    /// Of a method with these settings, before its first step.
    pub fn new(settings: &SharedSettings<'_>) -> Self {
        Self {
            optimizer: *settings.optimizer,
            norm_mode: *settings.norm_mode,
            param_rule: settings.param_rule.clone(),
            run: None,
            extents: [0; 2],
        }
    }

    /// The run of steps towards less `loss` on `net`, whose norm mode is set; a new one if the last was made for a network of other
    /// extents. `pull` holds the weights of a pull to the source.
    pub fn run_on(
        &mut self,
        net: &mut dyn Executor,
        loss: StepLoss,
        pull: Option<&Arc<[f64]>>,
    ) -> Result<&mut StepRun, AdaptError> {
        net.set_norm_mode(self.norm_mode)?;
        let extents = [net.num_classes(), net.affine_table().len()];
        let run = match self.run.take() {
            Some(run) if self.extents == extents => run,
            _ => {
                self.param_rule.check(net)?;
                StepRun::new(StepRequest {
                    mask: self.param_rule.open(net),
                    pull: pull.cloned(),
                    ..StepRequest::new(loss, self.optimizer)
                })
            }
        };
        self.extents = extents;
        let run = self.run.insert(run);
        if let Some(pull) = pull {
            run.set_pull(Arc::clone(pull));
        }
        Ok(run)
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
}

/// The settings of a method that does nothing but minimise one loss of the logits.
pub trait LossMethod: Clone + std::fmt::Debug + Send + 'static {
    /// The method's name in [`METHODS`](crate::METHODS).
    const NAME: &'static str;

    /// Refuses settings outside their range.
    fn check(&self) -> Result<(), AdaptError>;

    /// What it minimises in a network of `num_classes` classes.
    fn loss(&self, num_classes: usize) -> StepLoss;

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
        Ok(Self { minimizer: Minimizer::new(&config.clone().settings()), config })
    }
}

impl<C: LossMethod> Adapter for Minimize<C> {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        let loss = self.config.loss(net.num_classes());
        let run = self.minimizer.run_on(net, loss, None)?;
        let result = net.step(run, batch)?;
        Ok(StepOutput::new(run.logits(), result))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.minimizer.reset(net);
        if !self.config.keeps_average() {
            self.minimizer.forget_average();
        }
        Ok(())
    }

    fn memory(&self) -> Option<StepMemory> {
        Some(self.minimizer.run.as_ref().map_or_else(StepMemory::default, StepRun::memory))
    }

    fn set_memory(&mut self, net: &mut dyn Executor, memory: StepMemory) -> Result<(), AdaptError> {
        let loss = self.config.loss(net.num_classes());
        self.minimizer.run_on(net, loss, None)?.set_memory(memory);
        Ok(())
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
