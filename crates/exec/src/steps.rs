//! Whole steps that an executor makes by itself: forward, loss, backward and optimiser without a word with the host.

use crate::{ExecError, Logits};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// A loss of predictions alone, with the settings of the method that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepLoss {
    /// Tent: the mean entropy.
    Entropy,
    /// ETA, EATA and RDumb: the mean weighted entropy of the images that are reliable and not redundant.
    SelectedEntropy {
        /// Images with a higher entropy, in nats, are left out.
        entropy_margin: f64,
        /// Images with a higher cosine with the average prediction are left out; `None` keeps them.
        cosine_margin: Option<f64>,
    },
    /// RPL: the generalised cross-entropy with the predicted class.
    Robust {
        /// Its power.
        q: f64,
    },
    /// CPL: the conjugate of the PolyLoss.
    Conjugate {
        /// Weight of the linear term.
        epsilon: f64,
    },
}

/// An optimiser and its settings, as PyTorch defines them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepOptimiser {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        lr: f32,
        /// Share of the last velocity that is kept.
        momentum: f32,
        /// Look ahead along the velocity.
        nesterov: bool,
    },
    /// Adam with bias correction.
    Adam {
        /// Learning rate.
        lr: f32,
        /// Decay of the mean gradient and of its mean square.
        betas: [f32; 2],
        /// Added to the root of the mean square.
        eps: f32,
    },
}

/// What every step of a run does.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRequest {
    /// What is minimised.
    pub loss: StepLoss,
    /// What moves the affine vector.
    pub optimiser: StepOptimiser,
    /// Zeros for parameters that may not change; `None` lets all of them.
    pub mask: Option<Arc<[f32]>>,
    /// Weights of a pull to the source: the gradient of parameter `j` gets `pull_j (theta_j - theta0_j)` before the mask.
    pub pull: Option<Arc<[f64]>>,
}

/// A run of steps: what they do, and whose memory they share. An executor keeps the memory (momentum, step count, average
/// prediction) apart for every run, for as long as the run lives.
#[derive(Debug)]
pub struct StepRun {
    request: StepRequest,
    identity: Arc<()>,
    optimiser_resets: u64,
    average_resets: u64,
}

impl StepRun {
    /// A run that has made no step.
    pub fn new(request: StepRequest) -> Self {
        Self { request, identity: Arc::new(()), optimiser_resets: 0, average_resets: 0 }
    }

    /// What its steps do.
    pub fn request(&self) -> &StepRequest {
        &self.request
    }

    /// Replaces the weights of the pull of a run that has one.
    pub fn set_pull(&mut self, pull: Arc<[f64]>) {
        if self.request.pull.is_some() {
            self.request.pull = Some(pull);
        }
    }

    /// Makes the next step the optimiser's first.
    pub fn forget_optimiser(&mut self) {
        self.optimiser_resets += 1;
    }

    /// Forgets the average prediction.
    pub fn forget_average(&mut self) {
        self.average_resets += 1;
    }

    /// What tells the run from others, and whether it still lives.
    pub fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    /// How often the optimiser's memory was forgotten. Memory that was made or cleared at a smaller count is out of date.
    pub fn optimiser_resets(&self) -> u64 {
        self.optimiser_resets
    }

    /// How often the average was forgotten, likewise.
    pub fn average_resets(&self) -> u64 {
        self.average_resets
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepResult {
    /// Mean entropy of the batch, in nats.
    pub mean_entropy: f64,
    /// Images that passed the first filter.
    pub reliable: usize,
    /// Images that the loss was of; with none of them nothing moved.
    pub used: usize,
}

/// What a step gives.
#[derive(Clone, Copy, Debug)]
pub struct DeviceStep<'a> {
    /// The logits from before the update.
    pub logits: Logits<'a>,
    /// What the loss counted.
    pub result: StepResult,
}

/// An executor that makes whole steps.
pub trait DeviceSteps {
    /// Predicts the batch with the current affine vector and norm mode, then moves the vector as `run` says. A step of which
    /// the loss uses no image changes nothing, and neither does one that fails for a NaN or an infinity.
    fn step(&mut self, run: &StepRun, batch: &Batch) -> Result<DeviceStep<'_>, ExecError>;
}
