//! One pass of the source model, with its running statistics, over every image.

use crate::images::Images;
use crate::{Device, RunError, Scope, Watcher};
use flipcast_estimate::{Embeddings, Outputs};
use flipcast_graph::Purpose;
use flipcast_images::Label;
use flipcast_images::loader::Order;
use flipcast_models::Model;

/// Images of a batch; the statistics are the model's own, so that it changes nothing but speed.
const BATCH: usize = 64;

/// What the source model says about a dataset, and what is known about the answers.
#[derive(Clone, Debug)]
pub struct SourcePass {
    /// Each image's index in the dataset.
    pub indices: Vec<usize>,
    /// Each image's label, which no estimate uses.
    pub labels: Vec<Label>,
    /// Logits over the alternatives.
    pub outputs: Outputs,
    /// The input of the head.
    pub embeddings: Embeddings,
}

/// What the source model says about a few images.
pub(crate) struct PredictedBatch<'a> {
    /// Each image's index in the dataset.
    pub indices: Vec<usize>,
    /// Each image's label.
    pub labels: Vec<Label>,
    /// The network's logits.
    pub logits: Vec<f32>,
    /// The input of the head.
    pub embeddings: &'a [f32],
}

/// Predicts all of `images` with the source model and hands over batch by batch, in stored order.
pub(crate) fn predict_source(
    model: &Model,
    images: &Images,
    device: Device,
    watcher: &mut dyn Watcher,
    mut seen: impl FnMut(PredictedBatch) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let mut net = device.network(model, Purpose::Predict, BATCH.min(images.len()))?;
    let mut pass = images.pass(Order::Stored, None, BATCH)?;
    let mut predicted = 0;
    while let Some(loaded) = pass.next_batch()? {
        let logits = net.forward(&loaded.batch)?.values().to_vec();
        let embedding = net.tap("embedding")?;
        predicted += loaded.indices.len();
        let (indices, labels) = (loaded.indices, loaded.labels);
        seen(PredictedBatch { indices, labels, logits, embeddings: embedding.values() })?;
        watcher.predicted(predicted, images.len());
        pass.recycle(loaded.batch);
    }
    if predicted == 0 {
        return Err(RunError::NoImages);
    }
    Ok(())
}

/// Predicts all of `images` with the source model.
pub fn run_source(
    model: &Model,
    images: &Images,
    scope: &Scope,
    device: Device,
    watcher: &mut dyn Watcher,
) -> Result<SourcePass, RunError> {
    let (mut indices, mut labels) = (Vec::new(), Vec::new());
    let (mut logits, mut embeddings) = (Vec::new(), Vec::new());
    predict_source(model, images, device, watcher, |batch| {
        logits.extend_from_slice(&batch.logits);
        embeddings.extend_from_slice(batch.embeddings);
        indices.extend(batch.indices);
        labels.extend(batch.labels);
        Ok(())
    })?;
    let width = embeddings.len() / indices.len();
    Ok(SourcePass { indices, labels, outputs: scope.project(logits)?, embeddings: Embeddings::new(embeddings, width)? })
}

impl SourcePass {
    /// The share of right answers, if every image's answer is known.
    pub fn accuracy(&self, scope: &Scope) -> Option<f64> {
        accuracy(&self.outputs, self.labels.iter(), scope)
    }

    /// The alternative that is right for every image, all of which need a label.
    pub(crate) fn answers(&self, scope: &Scope) -> Result<Vec<usize>, RunError> {
        let unlabelled = self.labels.iter().filter(|label| !label.is_known()).count();
        if unlabelled > 0 {
            return Err(RunError::Unlabelled { unlabelled, images: self.labels.len() });
        }
        let answer = |(index, label): (&usize, _)| {
            scope.alternative(label).ok_or(RunError::OutsideClassSpace { index: *index, classes: scope.num_classes() })
        };
        self.indices.iter().zip(&self.labels).map(answer).collect()
    }
}

/// The share of rows that are right for their labels, if every answer is known.
pub(crate) fn accuracy<'a>(outputs: &Outputs, labels: impl Iterator<Item = &'a Label>, scope: &Scope) -> Option<f64> {
    let mut right = 0;
    for (row, label) in outputs.rows().zip(labels) {
        right += usize::from(scope.is_correct(row, label)?);
    }
    Some(right as f64 / outputs.images() as f64)
}
