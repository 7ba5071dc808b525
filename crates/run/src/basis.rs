//! What clean labelled images teach before any shift is seen.

use crate::source_pass::SourcePass;
use crate::{RunError, Scope};
use flipcast_estimate::{CottThreshold, Marginal, MarginalReference, Outputs, Reference, Temperature, fit_temperature};
use flipcast_models::Model;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Choices that hold for calibration and estimation alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreOptions {
    /// The classes' shares that transport assumes.
    pub marginal: Marginal,
    /// Whether logits are divided by the temperature fitted on clean images.
    pub temperature: bool,
}

impl Default for ScoreOptions {
    fn default() -> Self {
        Self { marginal: Marginal::Uniform, temperature: false }
    }
}

/// Constants of the estimators, from clean labelled images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// The choices it was made with.
    pub options: ScoreOptions,
    /// Confidences and thresholds.
    pub reference: Reference,
    /// The classes' shares, and how they are confused.
    pub marginals: MarginalReference,
    /// The threshold of COTT.
    pub cott_threshold: f64,
    /// The temperature, applied or not.
    pub temperature: Temperature,
    /// The mean embedding, where a second look moves embeddings there: for networks without batch norms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding_mean: Option<Vec<f32>>,
    /// Whether images are also looked at with the statistics of the batch in the first norms alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early_look: bool,
}

/// Networks of more classes hold up without an early look: which classes a batch holds matters less there.
const FEW_CLASSES: usize = 20;

/// Whether cells of a calibration with decisions of so many classes have an early look.
pub(crate) fn calibrates_with_early_look(model: &Model, classes: usize) -> bool {
    model.graph().has_batch_norm() && classes <= FEW_CLASSES
}

impl Basis {
    /// Learns from the source model's pass over clean images, all of which need a label.
    pub fn fit(pass: &SourcePass, scope: &Scope, model: &Model, options: ScoreOptions) -> Result<Self, RunError> {
        let embedding_mean = (!model.graph().has_batch_norm()).then(|| {
            let all: Vec<usize> = (0..pass.indices.len()).collect();
            pass.embeddings.mean_of(&all)
        });
        let early_look = calibrates_with_early_look(model, pass.outputs.classes());
        Ok(Self { embedding_mean, early_look, ..Self::from_outputs(&pass.outputs, &pass.answers(scope)?, options)? })
    }

    /// Learns from a classifier's outputs for clean images and their labels, where there is nothing else.
    pub fn from_outputs(outputs: &Outputs, labels: &[usize], options: ScoreOptions) -> Result<Self, RunError> {
        let temperature = fit_temperature(outputs, labels)?;
        let scaled = options.temperature.then(|| outputs.scaled(temperature.value));
        let outputs = scaled.as_ref().unwrap_or(outputs);
        Ok(Self {
            reference: Reference::fit(outputs, labels)?,
            marginals: MarginalReference::fit(outputs, labels)?,
            cott_threshold: CottThreshold::Exact.fit(outputs, labels)?,
            temperature,
            embedding_mean: None,
            early_look: false,
            options,
        })
    }

    /// `outputs` at the temperature asked for.
    pub fn warm<'a>(&self, outputs: &'a Outputs) -> Cow<'a, Outputs> {
        match self.options.temperature {
            true => Cow::Owned(outputs.scaled(self.temperature.value)),
            false => Cow::Borrowed(outputs),
        }
    }

    /// The classes' shares among the images of `outputs`.
    pub fn shares(&self, outputs: &Outputs) -> Result<Vec<f64>, RunError> {
        Ok(self.options.marginal.resolve(outputs, &self.marginals)?)
    }
}
