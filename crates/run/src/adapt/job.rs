use super::{Arbiter, DataIdentity};
use crate::{Device, RunError};
use flipcast_adapt::{GuardConfig, MethodConfig};
use flipcast_exec::NormMode;
use flipcast_images::dataset::Dataset;
use flipcast_images::labelspace::ClassSpace;
use flipcast_images::loader::LoaderConfig;
use flipcast_models::Model;
use flipcast_record::predictions::PredictionWriter;
use flipcast_tensor::Batch;
use std::sync::Arc;

/// Whether the source model predicts every batch too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceRule {
    /// It does: flips are counted, and the guard has a witness.
    Predict,
    /// It does not, which saves a forward pass.
    Skip,
}

/// Everything an adaptation run needs.
pub struct AdaptJob<'a> {
    /// The model.
    pub model: &'a Model,
    /// The images.
    pub dataset: Arc<dyn Dataset>,
    /// What tells them apart from others, for the record.
    pub data: DataIdentity,
    /// How they are loaded: batch size, order, limit, what happens to bad ones. A shuffled order is another one in every
    /// pass.
    pub loader: LoaderConfig,
    /// When a prediction is right; `None` when labels are absent or ignored.
    pub class_space: Option<&'a ClassSpace>,
    /// How the model adapts.
    pub method: &'a MethodConfig,
    /// Seed of the method's own draws.
    pub seed: u64,
    /// Passes over the images; `None` means one, or as many as `steps` need.
    pub epochs: Option<usize>,
    /// Batches after which the run ends, whatever is left.
    pub steps: Option<usize>,
    /// What watches over it, and what happens then.
    pub guard: GuardConfig,
    /// Whether the source model predicts too.
    pub source: SourceRule,
    /// The affine vector to start from, in place of the weights' own.
    pub start: Option<Vec<f32>>,
    /// The model that adapts, where its norms are anchored ([`Anchors`](crate::advise::Anchors)); `model` is still the source.
    pub anchored: Option<Model>,
    /// Chooses between the source model's answers and the adapting model's; needs [`SourceRule::Predict`].
    pub arbiter: Option<Arbiter>,
    /// Batches after which the clusters are looked at, again and again ([`StepWatcher::looked`](super::StepWatcher::looked)).
    pub watch_every: Option<usize>,
    /// Clean batches for methods that measure something before the first step.
    pub clean: Vec<Batch>,
    /// Where the network runs.
    pub device: Device,
    /// Where predictions go, if anywhere.
    pub predictions: Option<PredictionWriter>,
}

impl AdaptJob<'_> {
    /// Refuses settings that cannot work, before anything is read.
    pub fn check(&self) -> Result<(), RunError> {
        let at_least_one = [
            ("number of epochs", self.epochs),
            ("number of steps", self.steps),
            ("number of batches between looks", self.watch_every),
            ("batch size", Some(self.loader.batch_size)),
        ];
        for (setting, value) in at_least_one {
            if value == Some(0) {
                return Err(RunError::Setting { setting, found: 0, expected: "at least 1" });
            }
        }
        self.loader.check()?;
        self.guard.check()?;
        let table = self.model.graph().affine_table();
        self.method.check_network(&table)?;
        if (self.anchored.is_some() || self.arbiter.is_some()) && self.source == SourceRule::Skip {
            return Err(RunError::NeedsSource);
        }
        if let Some(start) = &self.start {
            let expected = table.len();
            if start.len() != expected {
                return Err(RunError::AffineLength { found: start.len(), expected });
            }
        }
        Ok(())
    }

    /// Passes over the images; `None` when only the number of steps is fixed.
    pub(super) fn passes(&self) -> Option<usize> {
        match (self.epochs, self.steps) {
            (Some(epochs), _) => Some(epochs),
            (None, Some(_)) => None,
            (None, None) => Some(1),
        }
    }

    /// Fewest images of a batch: 2 where they are normalised with each other's statistics alone.
    pub(super) fn smallest_batch(&self, mode: NormMode) -> usize {
        match mode {
            NormMode::Batch | NormMode::Early { .. } if self.model.graph().has_batch_norm() => 2,
            _ => 1,
        }
    }
}
