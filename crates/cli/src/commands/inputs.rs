//! What most commands work on, a model and images: one set of arguments, flattened everywhere.

use super::numbers::parse_count;
use super::scoring::ScoringArgs;
use crate::failure::Advised;
use crate::progress::ProgressArgs;
use anyhow::Result;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use flipcast_ground::{Hint, with_causes};
use flipcast_images::loader::OnBadImage;
use flipcast_images::preprocess::{Interpolation, PreprocessChange, Resize, Size};
use flipcast_images::registry::CountRule;
use flipcast_models::Model;
use flipcast_run::open::{ClassMap, ClassMapError, DataRequest, LabelRule, ModelRequest, OpenError, OpenedData};
use std::path::{Path, PathBuf};

/// Which model: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// A weight file, exported program, ONNX file or hub folder; or, with --weights, the name of an architecture or of published weights
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

    /// Loads the model, whose images are prepared as `preprocess` says, and notes on stderr what a user should know about it.
    pub fn open(&self, preprocess: &PreprocessArgs, progress: &ProgressArgs) -> Result<Model, OpenError> {
        let architecture = self.weights.is_some().then_some(self.model.as_str());
        let change = preprocess.change();
        let request = ModelRequest {
            architecture,
            classes: self.classes,
            preprocess: Some(&change),
            ..ModelRequest::new(self.weight_file())
        };
        let model = request.open()?;
        for note in model.notes() {
            progress.note(&format!("note: {note}"));
        }
        Ok(model)
    }
}

/// How images are prepared, where the caller knows better than the model card or the name of the weights: flatten into a command's
/// arguments beside [`ModelArgs`], which a group of arguments cannot hold where it is optional.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Preprocessing, in place of what the weights' card or name says")]
pub struct PreprocessArgs {
    /// What is taken from red, green and blue, in 0 to 1; one number stands for all three
    #[arg(long, value_name = "R,G,B", value_parser = parse_triple, allow_hyphen_values = true)]
    mean: Option<Triple>,
    /// What they are then divided by
    #[arg(long, value_name = "R,G,B", value_parser = parse_triple)]
    std: Option<Triple>,
    /// What bytes are divided by before --mean and --std: 255 if not given, 1 where these are about bytes
    #[arg(long, value_name = "X")]
    scale: Option<f32>,
    /// Scale images first: `256` for the short side, `224x224` for width and height, `none`
    #[arg(long, value_name = "SIZE", value_parser = parse_resize)]
    resize: Option<Resize>,
    /// Cut so many pixels from the middle: `224` for a square, `224x192` for width and height, `none`
    #[arg(long, value_name = "SIZE", value_parser = parse_crop)]
    crop: Option<Crop>,
    /// How images are scaled: nearest, box, bilinear, bicubic or lanczos
    #[arg(long, value_name = "KIND", value_parser = parse_interpolation)]
    interpolation: Option<Interpolation>,
}

impl PreprocessArgs {
    /// The settings that were given.
    pub fn change(&self) -> PreprocessChange {
        PreprocessChange {
            mean: self.mean.map(|Triple(values)| values),
            std: self.std.map(|Triple(values)| values),
            scale: self.scale,
            resize: self.resize,
            crop: self.crop.map(|Crop(size)| size),
            interpolation: self.interpolation,
        }
    }
}

/// One value for each of red, green and blue.
#[derive(Clone, Copy, Debug)]
struct Triple([f32; 3]);

/// A part of an image; all of it without a size.
#[derive(Clone, Copy, Debug)]
struct Crop(Option<Size>);

fn parse_triple(text: &str) -> Result<Triple, String> {
    let values: Result<Vec<f32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match values.as_deref() {
        Ok(&[value]) => Ok(Triple([value; 3])),
        Ok(&[red, green, blue]) => Ok(Triple([red, green, blue])),
        _ => Err("expected one number or three, parted by commas, such as `0.485,0.456,0.406`".to_owned()),
    }
}

/// A number, or a width and a height.
fn parse_sides(text: &str) -> Option<(usize, Option<usize>)> {
    match text.split_once('x') {
        Some((width, height)) => Some((width.parse().ok()?, Some(height.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn parse_resize(text: &str) -> Result<Resize, String> {
    match (text, parse_sides(text)) {
        ("none", _) => Ok(Resize::None),
        (_, Some((side, None))) => Ok(Resize::ShortSide(side)),
        (_, Some((width, Some(height)))) => Ok(Resize::Exact(Size { width, height })),
        (_, None) => {
            Err("expected the short side, such as `256`, width and height, such as `224x224`, or `none`".into())
        }
    }
}

fn parse_crop(text: &str) -> Result<Crop, String> {
    match (text, parse_sides(text)) {
        ("none", _) => Ok(Crop(None)),
        (_, Some((width, height))) => Ok(Crop(Some(Size { width, height: height.unwrap_or(width) }))),
        (_, None) => Err("expected a side, such as `224`, width and height, such as `224x192`, or `none`".to_owned()),
    }
}

fn parse_interpolation(text: &str) -> Result<Interpolation, String> {
    let expected = || format!("expected one of {}", Interpolation::NAMES.map(|(name, _)| name).join(", "));
    Interpolation::find(text).ok_or_else(expected)
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
    #[arg(long, requires = "dataset", conflicts_with = "class_map")]
    pub any_size: bool,
    /// How the dataset's classes become the model's. Labels show the truth; no estimate and no adaptation uses them
    #[arg(long, value_name = "RULE", default_value = "auto", value_parser = label_rules())]
    pub labels: LabelRule,
    /// What the dataset's classes are of the model's, where they are others: a CSV file of `data class,model class`, by name or number, an empty model class to leave images out; or a published class space such as `16-class-imagenet`
    #[arg(long, value_name = "FILE|NAME", value_parser = parse_class_map, conflicts_with_all = ["dataset", "labels"])]
    pub class_map: Option<ClassMap>,
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
            class_map: self.class_map.as_ref(),
            limit: self.limit,
            seed,
            ..DataRequest::new(spec)
        }
    }

    /// Opens `spec`, one of the data, and says what is worth telling about it.
    pub fn open(&self, spec: &str, model: &Model, seed: u64, progress: &ProgressArgs) -> Result<OpenedData, OpenError> {
        let opened = self.request(spec, seed).open(model)?;
        for note in opened.notes() {
            progress.note(&format!("note: `{spec}`: {note}"));
        }
        Ok(opened)
    }

    /// Opens all data, so that a misspelt path is noticed before any work is done.
    pub fn open_all(&self, model: &Model, scoring: &ScoringArgs) -> Result<Vec<(&str, OpenedData)>, OpenError> {
        let open = |spec: &String| self.open(spec, model, scoring.seed, &scoring.progress);
        self.data.iter().map(|spec| Ok((spec.as_str(), open(spec)?))).collect()
    }
}

/// Reads the table or finds the class space.
fn parse_class_map(text: &str) -> Result<ClassMap, String> {
    ClassMap::find(text).map_err(|error: ClassMapError| match error.hint() {
        Some(hint) => format!("{}; {hint}", with_causes(&error)),
        None => with_causes(&error),
    })
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
