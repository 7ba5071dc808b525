//! What most commands work on, a model and images: one set of arguments, flattened everywhere.

use super::numbers::parse_count;
use crate::failure::Advised;
use anyhow::Result;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use flipcast_images::loader::OnBadImage;
use flipcast_images::registry::CountRule;
use flipcast_models::Model;
use flipcast_run::open::{DataRequest, LabelRule, ModelRequest, OpenError, OpenedData};
use std::path::{Path, PathBuf};

/// Which model: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// A weight file, exported program or ONNX file; or, with --weights, the name of an architecture or of published weights
    #[arg(long)]
    pub model: String,
    /// The weight file, where --model is a name such as `resnet50.tv_in1k`
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Number of classes, where it differs from the architecture's usual one
    #[arg(long, value_name = "N")]
    pub classes: Option<usize>,
}

impl ModelArgs {
    /// The weight file.
    pub fn weight_file(&self) -> &Path {
        self.weights.as_deref().unwrap_or(Path::new(&self.model))
    }

    /// Loads the model, and notes on stderr what a user should know about it.
    pub fn open(&self) -> Result<Model, OpenError> {
        let architecture = self.weights.is_some().then_some(self.model.as_str());
        let model = ModelRequest { weights: self.weight_file(), architecture, classes: self.classes }.open()?;
        for note in model.notes() {
            eprintln!("note: {note}");
        }
        Ok(model)
    }
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

/// Which images: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct DataArgs {
    /// Images: a folder, archive, list, array, Parquet file or shard pattern; `PATH@gaussian_noise:3` also corrupts each, as
    /// published, and `PATH@gaussian_noise:3,storage=none` without the JPEG step of published ImageNet sets. Where a
    /// command takes several datasets, give it several times
    #[arg(long, required = true)]
    pub data: Vec<String>,
    /// Take --data as the root of this published dataset; `flipcast data list` shows them
    #[arg(long, value_name = "DATASET")]
    pub dataset: Option<String>,
    /// The dataset's split, or `train` or `test` where both are stored side by side
    #[arg(long)]
    pub split: Option<String>,
    /// Take a published dataset with another number of images than was published
    #[arg(long, requires = "dataset")]
    pub any_size: bool,
    /// How the dataset's classes become the model's. Labels show the truth; no estimate and no adaptation uses them
    #[arg(long, value_name = "RULE", default_value = "auto", value_parser = label_rules())]
    pub labels: LabelRule,
    /// Use at most N images of a dataset, an even sample of all of it drawn by --seed; of a stream, the first
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<usize>,
}

impl DataArgs {
    /// The one dataset of a command that takes no more.
    pub fn only(&self) -> Result<&str> {
        match self.data.as_slice() {
            [spec] => Ok(spec),
            several => Err(Advised {
                problem: format!("--data is given {} times, expected once", several.len()),
                hint: "run the command once for every dataset".to_owned(),
            }
            .into()),
        }
    }

    /// What is asked of `spec`, one of the data.
    fn request<'a>(&'a self, spec: &'a str, seed: u64) -> DataRequest<'a> {
        DataRequest {
            dataset: self.dataset.as_deref(),
            split: self.split.as_deref(),
            count: if self.any_size { CountRule::Any } else { CountRule::Published },
            labels: self.labels,
            limit: self.limit,
            seed,
            ..DataRequest::new(spec)
        }
    }

    /// Opens `spec`, one of the data, and says what is worth telling about it.
    pub fn open(&self, spec: &str, model: &Model, seed: u64) -> Result<OpenedData, OpenError> {
        let opened = self.request(spec, seed).open(model)?;
        for note in opened.notes() {
            eprintln!("note: `{spec}`: {note}");
        }
        Ok(opened)
    }

    /// Opens all data, so that a misspelt path is noticed before any work is done.
    pub fn open_all(&self, model: &Model, seed: u64) -> Result<Vec<(&str, OpenedData)>, OpenError> {
        self.data.iter().map(|spec| Ok((spec.as_str(), self.open(spec, model, seed)?))).collect()
    }
}

/// The names of the label rules.
fn label_rules() -> impl TypedValueParser<Value = LabelRule> {
    let rules = [
        PossibleValue::new("auto").help("By name where both have names, otherwise by number"),
        PossibleValue::new("index").help("By number, whatever the names are"),
        PossibleValue::new("none").help("Not at all: labels are ignored"),
    ];
    PossibleValuesParser::new(rules).map(|name| match name.as_str() {
        "index" => LabelRule::Index,
        "none" => LabelRule::None,
        _ => LabelRule::Auto,
    })
}
