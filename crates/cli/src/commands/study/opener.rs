//! Models and images of a plan, opened as the other commands open theirs.

use crate::commands::inputs::{BadImages, DataRequest, Labels, ModelArgs, open_data, open_model};
use flipcast_images::labelspace::{ClassSpace, Decision};
use flipcast_images::loader::LoaderConfig;
use flipcast_models::Model;
use flipcast_run::Scope;
use flipcast_study::{DataRef, DecisionRule, LabelRule, ModelEntry, OpenError, OpenedImages, Opener};
use std::path::Path;
use std::sync::Arc;

/// Opens files of this machine.
pub struct Files {
    /// What to do about images that cannot be read.
    pub on_bad_image: BadImages,
    /// Threads that load the images of one cell.
    pub threads: usize,
}

impl Opener for Files {
    fn open_model(&self, entry: &ModelEntry, weights: &Path) -> Result<Model, OpenError> {
        let path = weights.to_string_lossy().into_owned();
        let args = match &entry.architecture {
            Some(name) => ModelArgs { model: name.clone(), weights: Some(weights.to_owned()), classes: entry.classes },
            None => ModelArgs { model: path, weights: None, classes: entry.classes },
        };
        Ok(open_model(&args)?)
    }

    fn open_images(&self, data: &DataRef, path: &str, model: &Model, seed: u64) -> Result<OpenedImages, OpenError> {
        let spec = match &data.corruption {
            Some(corruption) => format!("{path}@{corruption}"),
            None => path.to_owned(),
        };
        let request = DataRequest {
            dataset: data.dataset.as_deref(),
            split: data.split.as_deref(),
            labels: match data.labels {
                LabelRule::Auto => Labels::Auto,
                LabelRule::Index => Labels::Index,
                LabelRule::None => Labels::None,
            },
            seed,
            ..DataRequest::new(&spec)
        };
        let opened = open_data(request, model)?;
        let space = match (&opened.class_space, data.decision) {
            (Some(space), DecisionRule::Full) => {
                let labels = Arc::new(space.labels().clone());
                Some(ClassSpace::new(labels, Decision::Full)?)
            }
            (space, _) => space.clone(),
        };
        let config =
            LoaderConfig { on_bad_image: self.on_bad_image.into(), threads: self.threads, ..opened.loader_config() };
        Ok(OpenedImages {
            scope: Scope::new(model.num_classes(), space),
            config,
            preprocess: opened.preprocess,
            dataset: opened.dataset,
        })
    }
}
