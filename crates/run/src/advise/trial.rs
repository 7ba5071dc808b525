//! A candidate on its way through the images.

use super::Candidate;
use crate::images::Images;
use crate::source_pass::accuracy;
use crate::{Device, RunError, Scope};
use flipcast_estimate::Outputs;
use flipcast_graph::Purpose;
use flipcast_images::Label;
use flipcast_images::loader::Order;
use flipcast_models::Model;

/// Images of a step.
pub const TRIAL_BATCH: usize = 64;

/// Candidates on images: what the source model answers, and everything that is needed to try the others.
pub struct Trial<'a> {
    images: &'a Images,
    scope: &'a Scope,
    device: Device,
    temperature: f64,
    seed: u64,
    batch: usize,
    /// Indices of the images in the order in which they come.
    order: Vec<usize>,
    /// Their labels, which no estimate uses.
    pub labels: Vec<Label>,
    /// What the source model answers.
    pub source: Outputs,
}

/// What candidates share.
pub struct TrialSetting<'a> {
    /// The source model.
    pub model: &'a Model,
    /// Which outputs count.
    pub scope: &'a Scope,
    /// Where networks run.
    pub device: Device,
    /// The temperature of clean images.
    pub temperature: f64,
    /// Seed of methods that draw random numbers.
    pub seed: u64,
}

/// Predicts at most `limit` of `images` in `order` with the source model. Images behind the last full batch are left out.
///
/// # Errors
/// When there is no image, or one cannot be read.
pub fn start_trials<'a>(
    setting: &TrialSetting<'a>,
    images: &'a Images,
    order: Order,
    limit: usize,
) -> Result<Trial<'a>, RunError> {
    let TrialSetting { model, scope, device, temperature, seed } = *setting;
    let limit = limit.min(images.len());
    let batch = TRIAL_BATCH.min(limit);
    if batch < 2 {
        return Err(RunError::Setting {
            setting: "number of images",
            found: limit,
            expected: "at least 2 to adapt to",
        });
    }
    let mut net = device.network(model, Purpose::Predict, batch)?;
    let mut pass = images.pass(order, Some(limit), batch)?;
    let (mut indices, mut labels, mut logits) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(loaded) = pass.next_batch()? {
        if loaded.batch.images() == batch {
            logits.extend_from_slice(net.forward(&loaded.batch)?.values());
            indices.extend(loaded.indices);
            labels.extend(loaded.labels);
        }
        pass.recycle(loaded.batch);
    }
    if indices.is_empty() {
        return Err(RunError::NoImages);
    }
    let source = scope.project(logits)?.scaled(temperature);
    Ok(Trial { images, scope, device, temperature, seed, batch, order: indices, labels, source })
}

impl Trial<'_> {
    /// Images of the trial.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none; never, since such a trial is refused.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Images of a step.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// What `candidate` answers to the first `count` images, batch after batch, each before it adapts to it; `model` is that of
    /// [`models_of`](super::models_of).
    ///
    /// # Errors
    /// When the network fails.
    pub fn run(&self, candidate: &Candidate, model: &Model, count: usize) -> Result<Outputs, RunError> {
        let count = count.min(self.len());
        let mut adapter = candidate.config.build(self.seed)?;
        let purpose = if candidate.is_forward_only() { Purpose::Predict } else { Purpose::Adapt };
        let mut net = self.device.network(model, purpose, self.batch)?;
        let mut pass = self.images.pass_over(&self.order[..count], self.batch)?;
        let mut logits = Vec::with_capacity(count * model.num_classes());
        while let Some(loaded) = pass.next_batch()? {
            let output = adapter.step(&mut *net, &loaded.batch)?;
            logits.extend_from_slice(output.logits.values());
            pass.recycle(loaded.batch);
        }
        // A rate that is far too large ends in values that are no numbers: such answers know nothing.
        logits.iter_mut().filter(|z| !z.is_finite()).for_each(|z| *z = 0.0);
        Ok(self.scope.project(logits)?.scaled(self.temperature))
    }

    /// The first `count` answers of the source model.
    pub fn source_of(&self, count: usize) -> Result<Outputs, RunError> {
        let classes = self.source.classes();
        Ok(Outputs::new(self.source.logits()[..count.min(self.len()) * classes].to_vec(), classes)?)
    }

    /// The share of the first `count` images that `outputs` answer rightly, if all their labels are known.
    pub fn accuracy(&self, outputs: &Outputs, count: usize) -> Option<f64> {
        accuracy(outputs, self.labels[..count.min(self.len())].iter(), self.scope)
    }

    /// Whether logits `row` are right for `label`; `None` if that is not known.
    pub(super) fn is_right(&self, row: &[f32], label: &Label) -> Option<bool> {
        self.scope.is_correct(row, label)
    }
}
