//! An executor that makes steps by itself, for tests: the host's functions behind the interface of a device.

use crate::cpl::conjugate_loss;
use crate::eta::{add_pull, weighted_entropy_gradient};
use crate::predictions::Predictions;
use crate::rpl::robust_loss;
use crate::selection::Selection;
use crate::{AdamConfig, Optimiser, OptimiserConfig, SgdConfig, mean_entropy_gradient};
use flipcast_exec::{
    DeviceStep, DeviceSteps, ExecError, Executor, Logits, StepLoss, StepOptimiser, StepRequest, StepResult, StepRun,
};
use flipcast_tensor::Batch;
use flipcast_testkit::Wrapper;
use std::sync::{Arc, Weak};

/// A network of the host as a device shows it.
pub(crate) struct FakeDevice<E> {
    pub net: E,
    memories: Vec<(Weak<()>, Memory)>,
    logits: Vec<f32>,
    /// Steps it made by itself, and passes it made for the host.
    pub steps: usize,
    pub passes: usize,
}

/// What a run's steps remember.
struct Memory {
    optimiser: Optimiser,
    selection: Selection,
    resets: [u64; 2],
}

impl<E: Executor> FakeDevice<E> {
    pub fn new(net: E) -> Self {
        Self { net, memories: Vec::new(), logits: Vec::new(), steps: 0, passes: 0 }
    }

    /// Runs whose memory is kept.
    pub fn runs(&self) -> usize {
        self.memories.len()
    }

    /// The memory of `run`, as old as the run says.
    fn memory(&mut self, run: &StepRun) -> &mut Memory {
        self.memories.retain(|(run, _)| run.strong_count() > 0);
        let found = |(identity, _): &(Weak<()>, Memory)| std::ptr::eq(identity.as_ptr(), Arc::as_ptr(run.identity()));
        let resets = [run.optimiser_resets(), run.average_resets()];
        let at = match self.memories.iter().position(found) {
            Some(at) => at,
            None => {
                let memory = Memory {
                    optimiser: Optimiser::new(config(run.request().optimiser)),
                    selection: Selection::default(),
                    resets,
                };
                self.memories.push((Arc::downgrade(run.identity()), memory));
                self.memories.len() - 1
            }
        };
        let memory = &mut self.memories[at].1;
        if memory.resets[0] != resets[0] {
            memory.optimiser.reset();
        }
        if memory.resets[1] != resets[1] {
            memory.selection.forget();
        }
        memory.resets = resets;
        memory
    }
}

fn config(optimiser: StepOptimiser) -> OptimiserConfig {
    match optimiser {
        StepOptimiser::Sgd { lr, momentum, nesterov } => OptimiserConfig::Sgd(SgdConfig { lr, momentum, nesterov }),
        StepOptimiser::Adam { lr, betas, eps } => OptimiserConfig::Adam(AdamConfig { lr, betas, eps }),
    }
}

/// The gradient of a loss with respect to the logits, and what it counted.
fn loss(request: &StepRequest, selection: &mut Selection, logits: Logits<'_>, gradient: &mut Vec<f32>) -> StepResult {
    let mut predictions = Predictions::default();
    predictions.see(logits);
    let mut result =
        StepResult { mean_entropy: predictions.mean_entropy(), reliable: logits.images(), used: logits.images() };
    match request.loss {
        StepLoss::Entropy => drop(mean_entropy_gradient(logits, gradient)),
        StepLoss::Robust { q } => drop(robust_loss(&predictions, q, gradient)),
        StepLoss::Conjugate { epsilon } => {
            conjugate_loss(&predictions, epsilon, &mut Vec::new(), gradient);
        }
        StepLoss::SelectedEntropy { entropy_margin, cosine_margin } => {
            selection.select(&predictions, entropy_margin, cosine_margin);
            result.reliable = selection.reliable();
            result.used = selection.kept().len();
            weighted_entropy_gradient(&predictions, selection.kept(), entropy_margin, gradient);
        }
    }
    result
}

impl<E: Executor> DeviceSteps for FakeDevice<E> {
    fn step(&mut self, run: &StepRun, batch: &Batch) -> Result<DeviceStep<'_>, ExecError> {
        self.steps += 1;
        self.logits = self.net.forward(batch)?.values().to_vec();
        let (values, classes) = (self.logits.clone(), self.net.num_classes());
        let logits = Logits::new(&values, classes);
        let mut gradient = Vec::new();
        let request = run.request();
        let selection = &mut self.memory(run).selection;
        let result = loss(request, selection, logits, &mut gradient);
        if result.used > 0 {
            let mut gradient = self.net.backward(&gradient)?.to_vec();
            if let Some(pull) = &request.pull {
                let (affine, source) = (self.net.affine(), self.net.source_affine());
                add_pull(pull, affine, source, &mut gradient);
            }
            if let Some(mask) = &request.mask {
                let closed = gradient.iter_mut().zip(mask.iter());
                closed.filter(|(_, m)| **m == 0.0).for_each(|(g, _)| *g = 0.0);
            }
            let mut affine = self.net.affine().to_vec();
            self.memory(run).optimiser.step(&mut affine, &gradient);
            self.net.affine_mut().copy_from_slice(&affine);
        }
        let logits = Logits::new(&self.logits, classes);
        Ok(DeviceStep { logits, result })
    }
}

impl<E: Executor> Wrapper for FakeDevice<E> {
    fn inner(&self) -> &dyn Executor {
        &self.net
    }
    fn inner_mut(&mut self) -> &mut dyn Executor {
        &mut self.net
    }
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.passes += 1;
        self.net.forward(batch)
    }
    fn steps(&mut self) -> Option<&mut dyn DeviceSteps> {
        Some(self)
    }
}
