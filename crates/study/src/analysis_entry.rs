//! Analyses in a plan.

use crate::StudyError;
use flipcast_adapt::{MethodConfig, Recipe};
use flipcast_run::analysis::{OmissionRule, Restriction};
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnalysisKind {
    /// When adaptation helps and when it hurts.
    Phases,
    /// What remains of the gain without images that were right or certain.
    Omission,
    /// Flips beside silhouettes.
    Flips,
    /// Embeddings along the way.
    Map,
}

/// An analysis of every split of some datasets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalysisEntry {
    /// What the plan calls it.
    pub name: String,
    /// What is looked at.
    pub kind: AnalysisKind,
    /// The dataset entries; all without a list.
    pub datasets: Option<Vec<Spanned<String>>>,
    /// Only splits whose name holds this text, such as `@gaussian_noise:3`.
    pub only: Option<String>,
    /// The models; all without a list.
    pub models: Option<Vec<Spanned<String>>>,
    /// The calibration whose clean images tell where the classes lie.
    pub calibration: Option<Spanned<String>>,
    /// The method: a name, for its published settings, or all settings.
    #[serde(default = "default_method")]
    pub method: toml::Value,
    /// The data whose published settings a method by name takes.
    pub recipe: Option<Recipe>,
    /// Steps of adaptation.
    #[serde(default = "default_steps")]
    pub steps: usize,
    /// Images of a step.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Images that share batch statistics when they are only predicted.
    #[serde(default = "default_chunk")]
    pub chunk: usize,
    /// Images that are looked at: embeddings, points of a map, or of the holdout.
    #[serde(default = "default_images")]
    pub images: usize,
    /// Clusters; without a number one per class.
    pub clusters: Option<usize>,
    /// Which classes count as one.
    #[serde(default)]
    pub restriction: Restriction,
    /// Omission: leave out images whose label is among so many largest outputs, one record each.
    #[serde(default)]
    pub top_k: Vec<usize>,
    /// Omission: leave out images of at most this entropy, one record each.
    #[serde(default)]
    pub entropy: Vec<f64>,
    /// Omission: steps between two looks at the holdout.
    #[serde(default = "default_every")]
    pub every: usize,
    /// Map: classes that are drawn.
    #[serde(default = "default_classes")]
    pub classes: usize,
}

fn default_method() -> toml::Value {
    toml::Value::String("tent".to_owned())
}
fn default_steps() -> usize {
    1000
}
fn default_batch_size() -> usize {
    64
}
fn default_chunk() -> usize {
    100
}
fn default_images() -> usize {
    2000
}
fn default_every() -> usize {
    10
}
fn default_classes() -> usize {
    16
}

impl AnalysisEntry {
    /// How it adapts.
    pub(crate) fn method(&self) -> Result<MethodConfig, StudyError> {
        let wrong =
            |source: Box<dyn std::error::Error + Send + Sync>| StudyError::setting("analysis", &self.name, source);
        match &self.method {
            toml::Value::String(name) => {
                let recipe = self.recipe.unwrap_or(Recipe::ImageNet);
                MethodConfig::published(name, recipe).map_err(|error| wrong(error.into()))
            }
            settings => MethodConfig::deserialize(settings.clone()).map_err(|error| wrong(error.into())),
        }
    }

    /// The rules of an omission, one per record; nothing for other kinds.
    pub(crate) fn rules(&self) -> Vec<OmissionRule> {
        let top_k = self.top_k.iter().map(|&k| OmissionRule::TopK(k));
        let entropy = self.entropy.iter().map(|&e| OmissionRule::Entropy(e));
        top_k.chain(entropy).collect()
    }

    /// What changes its results, rules and images aside.
    pub(crate) fn settings(&self) -> Result<serde_json::Value, StudyError> {
        Ok(serde_json::json!({
            "kind": self.kind,
            "method": self.method()?,
            "steps": self.steps,
            "batch_size": self.batch_size,
            "chunk": self.chunk,
            "images": self.images,
            "clusters": self.clusters,
            "restriction": self.restriction,
            "every": self.every,
            "classes": self.classes,
        }))
    }

    /// Refuses what does not go together.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        self.method()?;
        let is_omission = self.kind == AnalysisKind::Omission;
        if is_omission == self.rules().is_empty() {
            let problem = "`top_k` or `entropy` says what an omission leaves out, and belongs to nothing else";
            return Err(StudyError::entry("analysis", &self.name, problem));
        }
        Ok(())
    }
}
