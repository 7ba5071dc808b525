//! `flipcast calibrate` and `flipcast estimate` from files of logits, without a network.

use super::files::Files;
use super::scoring::parse_marginal;
use crate::failure::Advised;
use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use flipcast_estimate::Outputs;
use flipcast_images::table::{read_labels, read_logits};
use flipcast_record::write_atomically;
use flipcast_run::{Cell, CellEstimates, LabelledOutputs, OutputsCalibration, RunError, ScoreOptions, Watcher};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

// An option that requires another is let through where something given conflicts with that other one, so conflicts are told on both sides.

/// Logits to calibrate on: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct LabelledLogitsArgs {
    /// Logits of clean images, one row per image, in place of --model and --data, for a classifier that is not at hand: npy, npz, Parquet or CSV
    #[arg(long, value_name = "FILE", requires = "truth", conflicts_with_all = [
        "model", "weights", "classes", "mean", "std", "scale", "resize", "crop", "interpolation", "data", "dataset", "split", "any_size", "labels",
        "class_map", "limit", "on_bad_image", "memory", "quick", "protocol", "shifts", "also", "storage", "advise", "no_restore", "training_crop",
        "record", "device", "precision",
    ])]
    pub logits: Option<PathBuf>,
    /// Labels of the images of --logits, counted from 0: npy, npz, Parquet or CSV
    #[arg(long, value_name = "FILE", requires = "logits", conflicts_with_all = ["model", "data"])]
    truth: Option<PathBuf>,
    /// A second look at the images of --logits: their logits under the statistics of their batch (shuffled images, with batch
    /// norms), or those of another model. Every --also-logits then needs them too
    #[arg(long, value_name = "FILE", requires = "logits", conflicts_with_all = ["model", "data"])]
    second_logits: Option<PathBuf>,
    /// Further labelled cells, such as `fog:3=fog3.npy,labels.npy`, and a third file where there are second looks. What stands
    /// before a colon is the kind of shift; intervals need two kinds, and are good from nine on
    #[arg(long, value_name = "NAME=LOGITS,LABELS", requires = "logits", conflicts_with_all = ["model", "data"])]
    also_logits: Vec<String>,
}

/// Logits to estimate from: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct LogitsArgs {
    /// Logits of images without labels, one row per image, in place of --model and --data: npy, npz, Parquet or CSV. The
    /// calibration must be one that was made from logits
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "model", "weights", "classes", "mean", "std", "scale", "resize", "crop", "interpolation", "data", "dataset", "split", "any_size", "labels",
        "class_map", "limit", "on_bad_image", "memory", "protocol", "labelled", "use_labels", "ask", "ask_out", "by_class", "logits_out", "shard",
        "part", "sample", "record", "device", "precision",
    ])]
    pub logits: Option<PathBuf>,
    /// A second look at the images of --logits, where the calibration had one
    #[arg(long, value_name = "FILE", requires = "logits", conflicts_with_all = ["model", "data"])]
    second_logits: Option<PathBuf>,
    /// Labels of the images of --logits, to show the truth beside the estimates; no estimate uses them
    #[arg(long, value_name = "FILE", requires = "logits", conflicts_with_all = ["model", "data"])]
    truth: Option<PathBuf>,
}

impl LabelledLogitsArgs {
    /// Calibrates and writes the artefact to `out`.
    pub fn calibrate(
        &self,
        marginal: &str,
        temperature: bool,
        seed: u64,
        out: &Path,
        watcher: &mut dyn Watcher,
    ) -> Result<OutputsCalibration> {
        let files = Files::default().reads("the logits", self.logits.as_deref());
        let files = files.reads("the labels", self.truth.as_deref());
        let files = files.reads("the second look", self.second_logits.as_deref());
        let also = self.also_logits.iter().filter_map(|spec| Some(spec.split_once('=')?.1)).flat_map(|s| s.split(','));
        let files = also.fold(files, |files, file| files.reads("one of the cells", Some(Path::new(file))));
        files.writes("--out", "calibration.json", Some(out)).check()?;
        let (logits, truth) = (self.logits.as_deref(), self.truth.as_deref());
        let (logits, truth) = logits.zip(truth).context("--logits comes with --truth")?;
        let clean = open_labelled([logits, truth], self.second_logits.as_deref(), LabelledOutputs::clean)?;
        let also = |spec: &String| {
            let (name, files) = spec.split_once('=').ok_or_else(|| bad_cell(spec))?;
            let shifted = |outputs, labels| LabelledOutputs::shifted(name, outputs, labels);
            match files.split(',').map(Path::new).collect::<Vec<_>>().as_slice() {
                [logits, truth] => open_labelled([logits, truth], None, shifted),
                [logits, truth, second] => open_labelled([logits, truth], Some(second), shifted),
                _ => Err(bad_cell(spec).into()),
            }
        };
        let shifted: Vec<LabelledOutputs> = self.also_logits.iter().map(also).collect::<Result<_>>()?;
        let options = ScoreOptions { marginal: parse_marginal(marginal, clean.classes())?, temperature };
        let calibration = OutputsCalibration::fit(&clean, &shifted, options, seed, watcher)
            .with_context(|| format!("cannot calibrate on `{}`", logits.display()))?;
        write_atomically(out, calibration.to_json()?.as_bytes())?;
        Ok(calibration)
    }
}

impl LogitsArgs {
    /// `files` with those of the logits.
    pub fn add_to<'a>(&'a self, files: Files<'a>) -> Files<'a> {
        let files = files.reads("the logits", self.logits.as_deref()).reads("the labels", self.truth.as_deref());
        files.reads("the second look", self.second_logits.as_deref())
    }

    /// What the logits of `path` say, by the artefact at `calibration`.
    pub fn estimate(
        &self,
        path: &Path,
        calibration: &Path,
        marginal: Option<&str>,
        level: f64,
    ) -> Result<(Cell, CellEstimates)> {
        let calibration = OutputsCalibration::load(calibration)?;
        let outputs = open_logits(path)?;
        let second = self.second_logits.as_deref().map(open_logits).transpose()?;
        let marginal = marginal.map(|text| parse_marginal(text, calibration.classes())).transpose()?;
        let failed = || format!("cannot estimate the accuracy from `{}`", path.display());
        let mut cell = calibration.cell(&outputs, second.as_ref(), marginal.as_ref()).with_context(failed)?;
        if let Some(truth) = &self.truth {
            let labels = read_labels(truth)?;
            let unfit = || format!("the labels of `{}` do not fit `{}`", truth.display(), path.display());
            cell.accuracy = Some(outputs.accuracy(&labels).with_context(unfit)?);
        }
        let estimates = calibration.estimate_cell(&cell, level);
        Ok((cell, estimates))
    }
}

/// What goes with what, where an option about logits is given beside one about a network and images.
pub fn tip(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let names = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.as_str()],
        Some(ContextValue::Strings(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let named = [ContextKind::InvalidArg, ContextKind::PriorArg].into_iter().flat_map(names);
    let flags = named.filter_map(|name| name.split_whitespace().next());
    let about_logits = |flag: &&str| ["--logits", "--truth", "--second-logits", "--also-logits"].contains(flag);
    let (about_logits, others): (Vec<&str>, Vec<&str>) = flags.partition(about_logits);
    let (logits, other) = about_logits.first().zip(others.first())?;
    Some(match (*logits, *other) {
        ("--logits", "--model" | "--data") => "give `--logits`, or `--model` and `--data`".to_owned(),
        ("--logits", other) => {
            format!("`{other}` goes with `--model` and `--data`; a file of logits is taken as it is")
        }
        (logits, _) => format!("`{logits}` goes with `--logits`"),
    })
}

/// One object about the logits at `spec`; `best` names the estimate to look at first.
pub fn to_json(spec: &str, cell: &Cell, estimates: &CellEstimates, level: f64) -> Value {
    json!({
        "data": spec,
        "images": cell.images,
        "level": level,
        "best": estimates.best().map(|(name, _)| name),
        "estimates": estimates.source,
        "truth": cell.accuracy,
    })
}

fn open_logits(path: &Path) -> Result<Outputs> {
    let table = read_logits(path)?;
    let cannot = || format!("cannot use the logits in `{}`", path.display());
    let outputs = Outputs::new(table.values, table.columns).with_context(cannot)?;
    outputs.check_logits().with_context(cannot)?;
    Ok(outputs)
}

fn open_labelled(
    [logits, truth]: [&Path; 2],
    second: Option<&Path>,
    make: impl FnOnce(Outputs, Vec<usize>) -> Result<LabelledOutputs, RunError>,
) -> Result<LabelledOutputs> {
    let unfit = || format!("the labels of `{}` do not fit `{}`", truth.display(), logits.display());
    let labelled = make(open_logits(logits)?, read_labels(truth)?).with_context(unfit)?;
    match second {
        Some(path) => {
            let unfit = || format!("`{}` is no second look at the images of `{}`", path.display(), logits.display());
            labelled.with_second(open_logits(path)?).with_context(unfit)
        }
        None => Ok(labelled),
    }
}

fn bad_cell(spec: &str) -> Advised {
    Advised {
        problem: format!("--also-logits is `{spec}`, expected NAME=LOGITS,LABELS or NAME=LOGITS,LABELS,SECOND"),
        hint: "name what was done to the images and give their files: `--also-logits fog:3=fog3.npy,labels.npy`"
            .to_owned(),
    }
}
