use super::{ClassMap, DecisionRule, LabelMatchError, LabelRule, OpenError, labels};
use crate::adapt::DataIdentity;
use crate::{CellRequest, MEMORY_LIMIT, Scope};
use flipcast_corrupt::{CorruptionRequest, CorruptionStep, DataSpec};
use flipcast_images::dataset::{
    DataError, Dataset, OpenOptions, Split, are_numbers, is_address, local_path, open_with, take_evenly,
};
use flipcast_images::labelspace::Rule;
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::Preprocess;
use flipcast_images::registry::{CountRule, open_named};
use flipcast_models::{Model, ModelError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which images, and what is known about them.
#[derive(Clone, Copy, Debug)]
pub struct DataRequest<'a> {
    /// A path or shard pattern, and perhaps a corruption: `PATH@gaussian_noise:3`.
    pub spec: &'a str,
    /// The published dataset whose root the path is.
    pub dataset: Option<&'a str>,
    /// Its split, or `train` or `test` where both are stored side by side.
    pub split: Option<&'a str>,
    /// Whether a published dataset may have another number of images than was published.
    pub count: CountRule,
    /// How labels are understood.
    pub labels: LabelRule,
    /// What the dataset's classes are of the model's, where they are others; goes before `labels` and `decision`.
    pub class_map: Option<&'a ClassMap>,
    /// Which outputs a decision is made between.
    pub decision: DecisionRule,
    /// Use at most this many images: an even sample of the dataset, drawn by the seed; of a stream, the first.
    pub limit: Option<usize>,
    /// Seed of the corruption and of the sample.
    pub seed: u64,
}

/// Opened images and how they reach the model.
#[derive(Clone)]
pub struct OpenedData {
    /// What was asked for; a sample is part of its path.
    pub spec: DataSpec,
    /// The images, the limit applied.
    pub dataset: Arc<dyn Dataset>,
    /// How they are loaded, corruption included; batch size, threads and order are still the defaults.
    pub config: LoaderConfig,
    /// The weights' rule as it applies to these images, corruption left aside.
    pub preprocess: Preprocess,
    /// Which outputs count, and what labels mean.
    pub scope: Scope,
    /// How many images were drawn, where the limit left some out.
    pub sample: Option<usize>,
    /// Seed of the corruption and of the sample.
    pub seed: u64,
}

impl<'a> DataRequest<'a> {
    /// All images at `spec`, about which nothing else is known.
    pub fn new(spec: &'a str) -> Self {
        Self {
            spec,
            dataset: None,
            split: None,
            count: CountRule::Published,
            labels: LabelRule::Auto,
            class_map: None,
            decision: DecisionRule::Published,
            limit: None,
            seed: 0,
        }
    }

    /// Opens the images for `model`, whose preprocessing must be known.
    pub fn open(&self, model: &Model) -> Result<OpenedData, OpenError> {
        let spec: DataSpec =
            self.spec.parse().map_err(|source| OpenError::Spec { spec: self.spec.to_owned(), source })?;
        let rule = preprocess_of(model)?;
        let cannot_open = |source| OpenError::Data { path: spec.path.clone(), source };
        let (dataset, preprocess, border, published_space) = match self.dataset {
            Some(name) => {
                let split = self.split.unwrap_or_default();
                let named = open_named(name, Path::new(&spec.path), split, self.count).map_err(cannot_open)?;
                let pixels = named.info.pixels;
                let space = Some(named.info.class_space).filter(|space| !space.is_empty());
                (named.dataset, pixels.adapt(rule), pixels.border(), space)
            }
            None => {
                let (place, options) = self.place(&spec.path)?;
                (open_with(&place, &options).map_err(cannot_open)?, rule.clone(), 0, None)
            }
        };
        let dataset: Arc<dyn Dataset> = Arc::from(dataset);
        let (dataset, scope) = match self.class_map.filter(|_| self.labels != LabelRule::None) {
            Some(map) => {
                let (dataset, space) = map.apply(dataset, model).map_err(|source| OpenError::Labels {
                    data: spec.path.clone(),
                    model: model.name().to_owned(),
                    source: LabelMatchError::ClassMap(Box::new(source)),
                })?;
                (dataset, Scope::new(model.num_classes(), Some(space)))
            }
            None => {
                let scope = self.scope(&*dataset, published_space, model, &spec.path)?;
                (dataset, scope)
            }
        };
        let mut config =
            LoaderConfig { border, usual_size: Some(model.input_size()), ..LoaderConfig::new(preprocess.clone()) };
        if let Some(corruption) = spec.corruption {
            config = CorruptionStep::join_published(config, &dataset, corruption, self.seed);
        }
        let opened = OpenedData { spec, dataset, config, preprocess, scope, sample: None, seed: self.seed };
        match self.limit {
            Some(limit) => opened.limited_to(limit),
            None => Ok(opened),
        }
    }

    /// When a prediction of `model` is right on `dataset`, which errors call `data`.
    fn scope(
        &self,
        dataset: &dyn Dataset,
        published_space: Option<&str>,
        model: &Model,
        data: &str,
    ) -> Result<Scope, OpenError> {
        let space = labels::class_space(dataset, published_space, model, self.labels, self.decision);
        let cannot = |source| OpenError::Labels { data: data.to_owned(), model: model.name().to_owned(), source };
        Ok(Scope::new(model.num_classes(), space.map_err(cannot)?))
    }

    /// Where the split of the dataset at `path` lies: a folder or array below it, or `train` or `test` within it.
    fn place(&self, path: &str) -> Result<(String, OpenOptions), OpenError> {
        let mut options = OpenOptions::default();
        let Some(split) = self.split else {
            return Ok((path.to_owned(), options));
        };
        if is_address(path) {
            return Ok((format!("{}/{split}", path.trim_end_matches('/')), options));
        }
        let path = local_path(path);
        let below = Path::new(path).join(split);
        let array = Path::new(path).join(format!("{split}.npy"));
        let place = match split {
            _ if below.exists() => below,
            _ if array.exists() => array,
            "train" | "test" => {
                options.split = if split == "train" { Split::Train } else { Split::Test };
                PathBuf::from(path)
            }
            _ => return Err(OpenError::NoSplit { path: path.to_owned(), split: split.to_owned() }),
        };
        Ok((place.to_string_lossy().into_owned(), options))
    }
}

impl OpenedData {
    /// Images at hand, such as those of an [`InMemory`](flipcast_images::dataset::InMemory), for `model`. Records call them
    /// `name`; labels become the model's classes by [`LabelRule::Auto`].
    pub fn new(name: &str, dataset: impl Dataset + 'static, model: &Model) -> Result<Self, OpenError> {
        let preprocess = preprocess_of(model)?.clone();
        let spec = DataSpec { path: name.to_owned(), corruption: None };
        let request = DataRequest::new(name);
        let scope = request.scope(&dataset, None, model, name)?;
        let config = LoaderConfig { usual_size: Some(model.input_size()), ..LoaderConfig::new(preprocess.clone()) };
        Ok(Self { spec, dataset: Arc::new(dataset), config, preprocess, scope, sample: None, seed: 0 })
    }

    /// What is worth telling about them: files that are not read, and how class folders called by numbers are understood.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::from_iter(self.dataset.ignored().summary());
        let classes = self.dataset.classes();
        if let Some(space) = self.scope.class_space().filter(|_| !classes.is_empty() && are_numbers(classes)) {
            let rule = match space.labels().rule() {
                Rule::Index => "as class numbers, counted from 0",
                _ => "as names of the model's classes",
            };
            notes.push(format!("class folders that are called by numbers are taken {rule}"));
        }
        notes
    }

    /// What a cell of these images asks for. Records call them by path, sample and corruption.
    pub fn request(&self) -> CellRequest<'_> {
        CellRequest {
            data: self.spec.record_name(),
            dataset: self.dataset.clone(),
            config: self.config.clone(),
            preprocess: &self.preprocess,
            scope: &self.scope,
            seed: self.seed,
            memory_limit: MEMORY_LIMIT,
        }
    }

    /// What tells these images apart from others, wherever they lie. Reads a few of them.
    pub fn identity(&self) -> DataIdentity {
        // The storage step is a field of its own in protocols.
        let corruption = self.spec.corruption.map(|request| CorruptionRequest { storage: None, ..request });
        DataIdentity::of(&*self.dataset, corruption.map(|request| (request.to_string(), self.seed)))
    }

    fn limited_to(mut self, limit: usize) -> Result<Self, OpenError> {
        if self.dataset.is_stream() || limit == 0 {
            self.config.limit = Some(limit);
        } else if limit < self.dataset.len() {
            let sample = take_evenly(self.dataset, limit, self.seed)
                .map_err(|source: DataError| OpenError::Data { path: self.spec.path.clone(), source })?;
            self.dataset = Arc::new(sample);
            self.spec.path += &format!("#sample:{limit}:{}", self.seed);
            self.sample = Some(limit);
        }
        Ok(self)
    }
}

fn preprocess_of(model: &Model) -> Result<&Preprocess, OpenError> {
    let cannot = |source: ModelError| OpenError::Preprocess { model: model.name().to_owned(), source: source.into() };
    model.require_preprocess().map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::dataset::InMemory;
    use flipcast_images::preprocess::Normalise;

    #[test]
    fn class_folders_called_by_numbers_are_explained() {
        let model = Model::random("cifar_resnet20", 3, 1).expect("a known architecture");
        let model = model.with_preprocess(Preprocess::normalise_only(Normalise::cifar10()));
        let named =
            model.clone().with_class_names(["01", "02", "03"].map(str::to_owned).to_vec()).expect("three names");
        let notes = |classes: &[&str], model: &Model| {
            let data = InMemory::default().with_classes(classes.iter().copied());
            OpenedData::new("x", data, model).expect("classes fit").notes().join("; ")
        };
        assert!(notes(&["", "01", "02"], &model).contains("as class numbers"));
        assert!(notes(&["", "01", "02"], &named).contains("as names"));
        assert_eq!(notes(&["a", "b", "c"], &model), "");
    }
}
