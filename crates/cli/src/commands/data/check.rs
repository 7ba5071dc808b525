use super::pass::{Options, read_all};
use super::report::{Report, SplitReport, describe, problems};
use crate::commands::thread_count;
use crate::failure::{Advised, Fired};
use crate::output::print;
use crate::progress::ProgressArgs;
use anyhow::{Context, Result};
use clap::ValueEnum;
use flipcast_corrupt::{CorruptionRequest, DataSpec};
use flipcast_images::check::{class_spaces, open_splits};
use flipcast_images::dataset::{DataError, Dataset, OpenOptions, Split};
use flipcast_images::loader::{LoadError, OnBadImage};
use flipcast_images::registry::{Count, CountRule, find, open_named};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// A folder, archive, list, array, Parquet file or shard pattern, or `-` for a list on standard input;
    /// `PATH@gaussian_noise:3` also corrupts each image
    #[arg(value_name = "PATH")]
    data: String,
    /// Take PATH as the root of this published dataset; `flipcast data list` shows them
    #[arg(long, value_name = "DATASET")]
    name: Option<String>,
    /// Only this split: one of the dataset's, a folder or array below PATH, or `train` or `test`
    #[arg(long)]
    split: Option<String>,
    /// What to do when an image cannot be read; the exit code is 1 either way
    #[arg(long, value_enum, default_value_t = BadImages::Skip)]
    on_bad_image: BadImages,
    /// Threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    progress: ProgressArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum BadImages {
    /// Look at all images and list the unreadable ones
    Skip,
    /// Stop at the first one
    Fail,
}

/// A split that was opened and is to be read.
struct Opened {
    name: String,
    dataset: Box<dyn Dataset>,
    published_images: Option<usize>,
    class_spaces: Vec<String>,
    border: usize,
}

pub fn run(args: &Args) -> Result<()> {
    let spec: DataSpec = args.data.parse().with_context(|| format!("cannot understand `{}`", args.data))?;
    let (opened, missing_splits) = match &args.name {
        Some(name) => open_published(name, &spec.path, args.split.as_deref()),
        None => open_any(&spec.path, args.split.as_deref()).map(|opened| (opened, Vec::new())),
    }
    .with_context(|| format!("cannot open `{}`", spec.path))?;
    let mut splits = Vec::new();
    for split in opened {
        splits.push(read(split, args, spec.corruption)?);
    }
    let report = Report {
        path: spec.path.clone(),
        dataset: args.name.as_deref().map(find).transpose()?.map(|d| d.name),
        corruption: spec.corruption.map(|request| request.to_string()),
        images: splits.iter().map(|split| split.images).sum(),
        unreadable: splits.iter().map(|split| split.unreadable).sum(),
        splits,
        missing_splits,
    };
    print(&if args.json { serde_json::to_string(&report)? + "\n" } else { describe(&report) })?;
    match problems(&report).as_slice() {
        [] => Ok(()),
        found => Err(Fired(found.join("; ")).into()),
    }
}

/// Every dataset at `path`: itself, or the splits below it.
fn open_any(path: &str, split: Option<&str>) -> Result<Vec<Opened>> {
    let mut open = OpenOptions::default();
    let mut path = path.to_owned();
    if let Some(split) = split {
        let below = Path::new(&path).join(split);
        let array = Path::new(&path).join(format!("{split}.npy"));
        if below.exists() {
            path = below.to_string_lossy().into_owned();
        } else if array.exists() {
            path = array.to_string_lossy().into_owned();
        } else {
            open.split = match split {
                "train" => Split::Train,
                "test" => Split::Test,
                _ => return Err(no_split(&path, split)),
            };
        }
    }
    let opened = open_splits(&path, &open)?.into_iter().map(|split| Opened {
        class_spaces: class_spaces(split.dataset.classes()).into_iter().map(str::to_owned).collect(),
        dataset: split.dataset,
        name: split.name,
        published_images: None,
        border: 0,
    });
    Ok(opened.collect())
}

fn no_split(path: &str, split: &str) -> anyhow::Error {
    Advised {
        problem: format!("`{path}` has no split `{split}`: neither a folder nor an array of that name is below it"),
        hint: "use `train` or `test` where both are stored side by side, or name the dataset with `--name`".to_owned(),
    }
    .into()
}

/// The splits of a published dataset that are there, and the names of those that are not.
fn open_published(name: &str, path: &str, split: Option<&str>) -> Result<(Vec<Opened>, Vec<String>)> {
    let info = find(name)?;
    let wanted = match split {
        Some(split) => vec![split.to_owned()],
        None => info.splits.names(),
    };
    let (mut opened, mut missing, mut first) = (Vec::new(), Vec::new(), None);
    for split in wanted {
        match open_named(name, Path::new(path), &split, CountRule::Any) {
            Ok(named) => opened.push(Opened {
                name: split,
                dataset: named.dataset,
                published_images: match info.images {
                    Count::Exactly(n) | Count::First(n) => Some(n),
                    Count::Reported(_) | Count::Unknown => None,
                },
                class_spaces: (!info.class_space.is_empty()).then(|| info.class_space.to_owned()).into_iter().collect(),
                border: info.pixels.border(),
            }),
            Err(DataError::Io { path, source }) if source.kind() == ErrorKind::NotFound => {
                missing.push(split);
                first.get_or_insert(DataError::Io { path, source });
            }
            Err(error) => return Err(error.into()),
        }
    }
    match first {
        Some(error) if opened.is_empty() => Err(error.into()),
        _ => Ok((opened, missing)),
    }
}

fn read(split: Opened, args: &Args, corruption: Option<CorruptionRequest>) -> Result<SplitReport> {
    let dataset: Arc<dyn Dataset> = Arc::from(split.dataset);
    let options = Options {
        threads: thread_count(args.threads)?,
        on_bad_image: match args.on_bad_image {
            BadImages::Skip => OnBadImage::Skip,
            BadImages::Fail => OnBadImage::Fail,
        },
        border: split.border,
        corruption,
    };
    let progress = args.progress.line(format!("checking {}", split.name).trim_end());
    let pass = read_all(dataset.clone(), &options, progress).map_err(|error| match error {
        error @ LoadError::BadImages { .. } => {
            anyhow::Error::new(error).context(Fired(format!("`{}` is damaged", args.data)))
        }
        error => anyhow::Error::new(error).context(format!("cannot read `{}`", args.data)),
    })?;
    Ok(SplitReport {
        name: split.name,
        layout: dataset.layout().to_string(),
        images: dataset.len(),
        published_images: split.published_images,
        labelled: pass.labelled,
        classes: dataset.classes().iter().filter(|name| !name.is_empty()).cloned().collect(),
        class_spaces: split.class_spaces,
        sizes: pass.sizes,
        ignored: dataset.ignored().count(),
        ignored_summary: dataset.ignored().summary(),
        unreadable: pass.unreadable,
        unreadable_named: pass.named,
    })
}
