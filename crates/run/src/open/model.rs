use super::OpenError;
use flipcast_images::preprocess::PreprocessChange;
use flipcast_models::{Architecture, LoadRequest, Model, WeightTag};
use std::path::Path;

/// Which model: a weight file, and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelRequest<'a> {
    /// The weight file.
    pub weights: &'a Path,
    /// The architecture, or the published weights, that the file holds; without a name the file says so itself.
    pub architecture: Option<&'a str>,
    /// Number of classes, where it differs from the architecture's usual one.
    pub classes: Option<usize>,
    /// How images are prepared, where the caller knows better than the card or the name of the weights.
    pub preprocess: Option<&'a PreprocessChange>,
}

impl<'a> ModelRequest<'a> {
    /// The weight file at `weights`, about which nothing else is known.
    pub fn new(weights: &'a Path) -> Self {
        Self { weights, architecture: None, classes: None, preprocess: None }
    }

    /// Loads the model.
    pub fn open(&self) -> Result<Model, OpenError> {
        if self.architecture.is_none() && !self.weights.exists() {
            let name = self.weights.to_string_lossy();
            if WeightTag::find(&name).is_ok() || Architecture::find(&name).is_ok() {
                return Err(OpenError::NameWithoutFile { name: name.into_owned() });
            }
        }
        let request = LoadRequest {
            architecture: self.architecture,
            classes: self.classes,
            preprocess: self.preprocess,
            ..LoadRequest::new(self.weights)
        };
        Model::load(request).map_err(|source| OpenError::Model {
            path: self.weights.to_owned(),
            architecture: self.architecture.map(str::to_owned),
            source: source.into(),
        })
    }
}
