//! What a study asks of its caller: models and images.

use crate::{DataRef, ModelEntry};
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use flipcast_run::Scope;
use std::path::Path;
use std::sync::Arc;

/// Why something could not be opened.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

/// Opened images and how they reach the model.
pub struct OpenedImages {
    /// The samples.
    pub dataset: Arc<dyn Dataset>,
    /// How they are loaded, corruption included.
    pub config: LoaderConfig,
    /// The weights' rule for them, corruption left aside.
    pub preprocess: Preprocess,
    /// Which outputs count, and what labels mean.
    pub scope: Scope,
}

/// Opens what a plan names. A study asks from several threads at once.
pub trait Opener: Sync {
    /// The model of `entry`, whose weights are at `weights`.
    fn open_model(&self, entry: &ModelEntry, weights: &Path) -> Result<Model, OpenError>;
    /// The images of `data`, which lie at `path`; `seed` is that of the corruption.
    fn open_images(&self, data: &DataRef, path: &str, model: &Model, seed: u64) -> Result<OpenedImages, OpenError>;
}
