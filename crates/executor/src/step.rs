//! Whole adaptation steps: what they do, and how the host does it.

use crate::loss::{self, Predictions, Selection};
use crate::{ExecError, Executor, Logits, Optimizer, OptimizerConfig, OptimizerMemory};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// A loss of the logits alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepLoss {
    /// The mean entropy of all images.
    MeanEntropy,
    /// The mean weighted entropy of the images that are reliable and not redundant.
    SelectedEntropy {
        /// Images with a higher entropy, in nats, are left out.
        entropy_margin: f64,
        /// Images with a higher cosine with the average prediction are left out; `None` keeps them.
        cosine_margin: Option<f64>,
    },
    /// The mean generalised cross-entropy with the predicted class.
    GeneralizedCrossEntropy {
        /// Its power `q`.
        power: f64,
    },
    /// The mean conjugate of the PolyLoss.
    ConjugatePoly {
        /// Weight of the linear term.
        epsilon: f64,
    },
    /// The mean entropy of opinions: of the classes and of not knowing, with the lengths of the logits held.
    OpinionEntropy,
}

/// What every step of a run does.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRequest {
    /// What is minimised.
    pub loss: StepLoss,
    /// What moves the affine vector.
    pub optimizer: OptimizerConfig,
    /// Zeros for parameters that may not change; `None` lets all of them.
    pub mask: Option<Arc<[f32]>>,
    /// Weights of a pull to the source: the gradient of parameter `j` gets `pull_j (theta_j - theta0_j)` before the mask.
    pub pull: Option<Arc<[f64]>>,
}

impl StepRequest {
    /// A step that may move every parameter and is not pulled to the source.
    pub fn new(loss: StepLoss, optimizer: OptimizerConfig) -> Self {
        Self { loss, optimizer, mask: None, pull: None }
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

/// What a run of steps remembers on the host, so that another can go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepMemory {
    /// The optimizer's.
    pub optimizer: OptimizerMemory,
    /// The average prediction; empty where the loss has none, or no image was used yet.
    pub average: Vec<f64>,
}

/// A run of steps: what they do, what they remember (momentum, step count, average prediction) and the logits of the last.
///
/// On the host the memory is here. An executor that makes steps by itself keeps it apart for every run, for as long as the
/// run lives ([`StepRun::identity`]), and clears it as the run's counters tell.
#[derive(Debug)]
pub struct StepRun {
    request: StepRequest,
    identity: Arc<()>,
    optimizer_resets: u64,
    average_resets: u64,
    logits: Vec<f32>,
    classes: usize,
    optimizer: Optimizer,
    selection: Selection,
    predictions: Predictions,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl StepRun {
    /// A run that has made no step.
    pub fn new(request: StepRequest) -> Self {
        Self {
            identity: Arc::new(()),
            optimizer_resets: 0,
            average_resets: 0,
            logits: Vec::new(),
            classes: 0,
            optimizer: Optimizer::new(request.optimizer),
            selection: Selection::default(),
            predictions: Predictions::default(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
            request,
        }
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

    /// Makes the next step the optimizer's first.
    pub fn forget_optimizer(&mut self) {
        self.optimizer.reset();
        self.optimizer_resets += 1;
    }

    /// Forgets the average prediction.
    pub fn forget_average(&mut self) {
        self.selection.forget();
        self.average_resets += 1;
    }

    /// What it remembers on the host. An executor that makes steps by itself remembers more.
    pub fn memory(&self) -> StepMemory {
        StepMemory { optimizer: self.optimizer.memory().clone(), average: self.selection.average().to_vec() }
    }

    /// Goes on from what another run remembered on the host.
    pub fn set_memory(&mut self, memory: StepMemory) {
        self.optimizer.set_memory(memory.optimizer);
        self.selection.set_average(memory.average);
    }

    /// What tells the run from others, and whether it still lives.
    pub fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    /// How often the optimizer's memory was forgotten. Memory that was made or cleared at a smaller count is out of date.
    pub fn optimizer_resets(&self) -> u64 {
        self.optimizer_resets
    }

    /// How often the average was forgotten, likewise.
    pub fn average_resets(&self) -> u64 {
        self.average_resets
    }

    /// The logits of the last step, from before its update.
    pub fn logits(&self) -> Logits<'_> {
        Logits::new(&self.logits, self.classes)
    }

    /// Keeps the logits of a step, for executors that make it by themselves.
    pub fn keep_logits(&mut self, logits: Logits<'_>) {
        self.logits.clear();
        self.logits.extend_from_slice(logits.values());
        self.classes = logits.classes();
    }

    /// A step made of the executor's forward and backward pass, with loss and optimizer on the host. `penalize` sees the
    /// affine vector and the gradient, which it may add to, before the mask; it is not called where no image is used.
    pub fn step_on_host(
        &mut self,
        net: &mut (impl Executor + ?Sized),
        batch: &Batch,
        penalize: impl FnOnce(&[f32], &mut [f32]),
    ) -> Result<StepResult, ExecError> {
        self.keep_logits(net.forward(batch)?);
        let result = self.evaluate_loss();
        if result.used == 0 {
            return Ok(result);
        }
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        if let Some(pull) = &self.request.pull {
            add_pull(pull, net.affine(), net.source_affine(), &mut self.gradient);
        }
        penalize(net.affine(), &mut self.gradient);
        if let Some(mask) = &self.request.mask {
            for (g, _) in self.gradient.iter_mut().zip(mask.iter()).filter(|(_, open)| **open == 0.0) {
                *g = 0.0;
            }
        }
        self.optimizer.step(net.affine_mut(), &self.gradient);
        Ok(result)
    }

    /// Fills the logit gradient from the logits that were kept.
    fn evaluate_loss(&mut self) -> StepResult {
        let logits = Logits::new(&self.logits, self.classes);
        let images = logits.images();
        let whole = |mean_entropy| StepResult { mean_entropy, reliable: images, used: images };
        match self.request.loss {
            StepLoss::MeanEntropy => whole(loss::mean_entropy_gradient(logits, &mut self.logit_gradient)),
            StepLoss::OpinionEntropy => {
                loss::opinion_entropy_gradient(logits, &mut self.logit_gradient);
                whole(loss::mean_entropy(logits))
            }
            StepLoss::GeneralizedCrossEntropy { power } => {
                self.predictions.see(logits);
                loss::generalized_cross_entropy(&self.predictions, power, &mut self.logit_gradient);
                whole(self.predictions.mean_entropy())
            }
            StepLoss::ConjugatePoly { epsilon } => {
                self.predictions.see(logits);
                loss::conjugate_poly_loss(&self.predictions, epsilon, &mut self.logit_gradient);
                whole(self.predictions.mean_entropy())
            }
            StepLoss::SelectedEntropy { entropy_margin, cosine_margin } => {
                self.predictions.see(logits);
                self.selection.select(&self.predictions, entropy_margin, cosine_margin);
                let kept = self.selection.kept();
                loss::weighted_entropy_gradient(&self.predictions, kept, entropy_margin, &mut self.logit_gradient);
                StepResult {
                    mean_entropy: self.predictions.mean_entropy(),
                    reliable: self.selection.reliable(),
                    used: kept.len(),
                }
            }
        }
    }
}

/// Adds `pull_j (theta_j - theta0_j)`, the slope of a penalty on leaving the source, to a gradient.
fn add_pull(pull: &[f64], affine: &[f32], source: &[f32], gradient: &mut [f32]) {
    let moved = affine.iter().zip(source);
    for ((g, pull), (&now, &then)) in gradient.iter_mut().zip(pull).zip(moved) {
        *g = (f64::from(*g) + pull * (f64::from(now) - f64::from(then))) as f32;
    }
}
