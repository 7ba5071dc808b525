//! What `adapt`, `calibrate` and `estimate` work on: a model, and images with or without labels.

use crate::failure::Advised;
use anyhow::{Context, Result};
use clap::ValueEnum;
use flipcast_corrupt::{CorruptionStep, Corruptor, DataSpec};
use flipcast_images::dataset::{Dataset, OpenOptions, Split, open_with};
use flipcast_images::labelspace::ClassSpace;
use flipcast_images::loader::{LoaderConfig, OnBadImage};
use flipcast_images::preprocess::Preprocess;
use flipcast_images::registry::{CountRule, open_named};
use flipcast_models::{LoadRequest, Model};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod labels;

/// Which model: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// A weight file; or, with --weights, the name of an architecture or of published weights
    #[arg(long)]
    pub model: String,
    /// The weight file, where --model is a name such as `resnet50.tv_in1k`
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Number of classes, where it differs from the architecture's usual one
    #[arg(long, value_name = "N")]
    pub classes: Option<usize>,
}

/// What to do about an image that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BadImages {
    /// Leave it out and say how many were left out
    Skip,
    /// Stop at the first one
    Fail,
}

impl From<BadImages> for OnBadImage {
    fn from(choice: BadImages) -> Self {
        match choice {
            BadImages::Skip => Self::Skip,
            BadImages::Fail => Self::Fail,
        }
    }
}

/// How the dataset's classes become the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Labels {
    /// By name where both have names, otherwise by number
    Auto,
    /// By number, whatever the names are
    Index,
    /// Not at all: labels are ignored
    None,
}

/// Which images, one dataset after the other: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct DataArgs {
    /// Images, perhaps with a corruption (`DIR@gaussian_noise:3`); may be given several times
    #[arg(long, required = true)]
    pub data: Vec<String>,
    /// The published dataset whose root --data is
    #[arg(long)]
    dataset: Option<String>,
    /// Which split of it
    #[arg(long)]
    split: Option<String>,
    /// How the dataset's classes become the model's, to show the truth
    #[arg(long, value_enum, default_value = "auto")]
    labels: Labels,
}

impl DataArgs {
    /// What is asked of `spec`, one of the data, whose corruption has the seed `seed`.
    pub fn request<'a>(&'a self, spec: &'a str, seed: u64) -> DataRequest<'a> {
        DataRequest { spec, dataset: self.dataset.as_deref(), split: self.split.as_deref(), labels: self.labels, seed }
    }
}

/// Which images.
#[derive(Clone, Copy, Debug)]
pub struct DataRequest<'a> {
    /// A path or shard pattern, and perhaps a corruption: `PATH@gaussian_noise:3`.
    pub spec: &'a str,
    /// The published dataset whose root the path is.
    pub dataset: Option<&'a str>,
    /// Its split, or `train` or `test` where both are stored side by side.
    pub split: Option<&'a str>,
    /// How labels are understood.
    pub labels: Labels,
    /// Seed of the corruption.
    pub seed: u64,
}

impl<'a> DataRequest<'a> {
    /// The images at `spec`, about which nothing else is known.
    pub fn new(spec: &'a str) -> Self {
        Self { spec, dataset: None, split: None, labels: Labels::Auto, seed: 0 }
    }
}

/// An opened dataset and how its images reach the model.
pub struct OpenedData {
    /// What was asked for.
    pub spec: DataSpec,
    /// The samples.
    pub dataset: Arc<dyn Dataset>,
    /// When a prediction is right; `None` when labels are absent or ignored.
    pub class_space: Option<ClassSpace>,
    /// The weights' rule as it applies to these images, corruption left aside.
    pub preprocess: Preprocess,
    /// Pixels cut off every side.
    pub border: usize,
    /// Seed of the corruption.
    pub seed: u64,
}

impl OpenedData {
    /// A loader's settings for these images; batch size, threads, order and limit are still the defaults.
    pub fn loader_config(&self) -> LoaderConfig {
        let config = LoaderConfig { border: self.border, ..LoaderConfig::new(self.preprocess.clone()) };
        match self.spec.corruption {
            None => config,
            Some(request) => CorruptionStep::join(config, request, Arc::new(Corruptor::new(self.seed))),
        }
    }
}

/// Loads the model `args` name.
pub fn open_model(args: &ModelArgs) -> Result<Model> {
    let path = match &args.weights {
        Some(path) => path.as_path(),
        None => Path::new(&args.model),
    };
    if args.weights.is_none() && !path.exists() && is_model_name(&args.model) {
        return Err(Advised {
            problem: format!("`{}` is the name of a model, but a weight file was expected", args.model),
            hint: format!("add the file: `--model {} --weights FILE`", args.model),
        }
        .into());
    }
    let request = LoadRequest {
        architecture: args.weights.is_some().then_some(args.model.as_str()),
        classes: args.classes,
        ..LoadRequest::new(path)
    };
    Model::load(request).with_context(|| match &args.weights {
        Some(path) => format!("cannot load `{}` as `{}`", path.display(), args.model),
        None => format!("cannot load `{}`", args.model),
    })
}

fn is_model_name(name: &str) -> bool {
    flipcast_models::WeightTag::find(name).is_ok() || flipcast_models::Architecture::find(name).is_ok()
}

/// Opens the images `request` names for `model`, whose preprocessing must be known.
pub fn open_data(request: DataRequest<'_>, model: &Model) -> Result<OpenedData> {
    let spec: DataSpec = request.spec.parse().with_context(|| format!("cannot understand `{}`", request.spec))?;
    let rule = model.require_preprocess().with_context(|| format!("cannot prepare images for `{}`", model.name()))?;
    let cannot_open = || format!("cannot open `{}`", spec.path);
    let (dataset, preprocess, border, published_space) = match request.dataset {
        Some(name) => {
            let root = Path::new(&spec.path);
            let split = request.split.unwrap_or_default();
            let named = open_named(name, root, split, CountRule::Published).with_context(cannot_open)?;
            let pixels = named.info.pixels;
            let space = Some(named.info.class_space).filter(|space| !space.is_empty());
            (named.dataset, pixels.adapt(rule), pixels.border(), space)
        }
        None => {
            let dataset = open_plain(&spec.path, request.split).with_context(cannot_open)?;
            (dataset, rule.clone(), 0, None)
        }
    };
    let class_space = labels::class_space(&*dataset, published_space, model, request.labels)
        .with_context(|| format!("cannot use the labels of `{}` with `{}`", spec.path, model.name()))?;
    Ok(OpenedData { spec, dataset: Arc::from(dataset), class_space, preprocess, border, seed: request.seed })
}

/// The dataset at `path`, or the split of it that is asked for: a folder or array below it, or `train` or `test`.
fn open_plain(path: &str, split: Option<&str>) -> Result<Box<dyn Dataset>> {
    let mut options = OpenOptions::default();
    let Some(split) = split else {
        return Ok(open_with(path, &options)?);
    };
    let below = Path::new(path).join(split);
    let array = Path::new(path).join(format!("{split}.npy"));
    let place = match split {
        _ if below.exists() => below,
        _ if array.exists() => array,
        "train" | "test" => {
            options.split = match split {
                "train" => Split::Train,
                _ => Split::Test,
            };
            PathBuf::from(path)
        }
        _ => {
            return Err(Advised {
                problem: format!(
                    "`{path}` has no split `{split}`: neither a folder nor an array of that name is below it"
                ),
                hint: "use `train` or `test` where both are stored side by side, or name the dataset with `--dataset`"
                    .to_owned(),
            }
            .into());
        }
    };
    Ok(open_with(&place.to_string_lossy(), &options)?)
}
