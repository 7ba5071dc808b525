//! `flipcast estimate` with a few labels, and the tables by class.

use crate::commands::files::Files;
use crate::commands::inputs::DataArgs;
use crate::commands::numbers::parse_count;
use crate::commands::scoring::{CellProgress, ScoringArgs};
use crate::failure::Advised;
use crate::table::{counted, percent, render};
use anyhow::{Context, Result};
use flipcast_estimate::{Estimate, join_with_labels};
use flipcast_run::{
    ByClassResult, CellEstimates, EstimateSource, FewLabelsResult, ImageGuesses, LabelFile, LabelSource, Ledger,
    write_asked,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Classes and confusions that a table shows; `--json` has all.
const SHOWN: usize = 10;

/// A few labels, and tables by class: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct LabelArgs {
    /// Labels of a few images, drawn at random or asked for by --ask: a CSV file with the columns `image` and `label` (a class's
    /// name or number), or `image` and `right` (1 or 0)
    #[arg(long, value_name = "FILE", conflicts_with = "use_labels")]
    labelled: Option<PathBuf>,
    /// Use N labels that are in the data, of images drawn by --seed: to see what labelling N images would tell
    #[arg(long, value_name = "N", value_parser = parse_count)]
    use_labels: Option<usize>,
    /// Choose N images to label and write them to --ask-out, for --labelled
    #[arg(long, value_name = "N", requires = "ask_out", value_parser = parse_count)]
    ask: Option<usize>,
    /// Where --ask writes the images to label (CSV)
    #[arg(long, value_name = "FILE", requires = "ask")]
    ask_out: Option<PathBuf>,
    /// Print what is expected of every class: its share, the precision of answers with it, what it is confused with
    #[arg(long)]
    by_class: bool,
}

/// What was asked for, checked before any work.
pub struct LabelJob<'a> {
    args: &'a LabelArgs,
    file: Option<LabelFile>,
    scoring: &'a ScoringArgs,
}

/// What a few labels and the classes tell about one dataset.
#[derive(Default)]
pub struct Told {
    few_labels: Option<FewLabelsResult>,
    /// Labels and calibration together, where they do not contradict each other.
    joined: Option<Estimate>,
    by_class: Option<(ByClassResult, Vec<String>)>,
}

impl LabelArgs {
    /// `files` with those of labels.
    pub fn add_to<'a>(&'a self, files: Files<'a>) -> Files<'a> {
        let files = files.reads("the file of labels", self.labelled.as_deref());
        files.writes("--ask-out", "ask.csv", self.ask_out.as_deref())
    }

    /// Reads the labels and refuses what cannot be done.
    pub fn job<'a>(&'a self, data: &DataArgs, has_calibration: bool, scoring: &'a ScoringArgs) -> Result<LabelJob<'a>> {
        if self.labelled.is_some() || self.ask.is_some() {
            data.only()?;
        }
        if let Some(path) = &self.ask_out {
            refuse_labels(path)?;
        }
        if self.by_class && !has_calibration {
            return Err(Advised {
                problem: "--by-class needs a calibration of this model, but one of the paper's fits is given"
                    .to_owned(),
                hint: "`flipcast calibrate` makes one".to_owned(),
            }
            .into());
        }
        let read = |path: &PathBuf| {
            let file =
                LabelFile::load(path).with_context(|| format!("cannot use the labels in `{}`", path.display()))?;
            if file.left_out() > 0 {
                scoring.progress.note(&format!(
                    "note: `{}`: {} without a label before the last one that has one; the estimate holds if chance alone \
                     left them out",
                    path.display(),
                    counted(file.left_out(), "image")
                ));
            }
            anyhow::Ok(file)
        };
        Ok(LabelJob { args: self, file: self.labelled.as_ref().map(read).transpose()?, scoring })
    }
}

/// Refuses to ask in a file that somebody has filled in, or that holds something else: labels are work that nobody does twice.
fn refuse_labels(path: &Path) -> Result<()> {
    let holds_something = path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
    let found = match holds_something.then(|| LabelFile::load(path)) {
        None => return Ok(()),
        Some(Ok(file)) if file.labels() == 0 => return Ok(()),
        Some(Ok(file)) => counted(file.labels(), "label"),
        Some(Err(_)) => "something else than images to label".to_owned(),
    };
    Err(Advised {
        problem: format!("`--ask-out` is `{}`, which holds {found} and would be overwritten", path.display()),
        hint: "give another name, or remove the file first; `--labelled FILE` uses labels".to_owned(),
    }
    .into())
}

impl LabelJob<'_> {
    /// Asks, and tells what labels and classes say about the images of `guesses`, of which `estimates` are known.
    pub fn tell(
        &self,
        mut guesses: ImageGuesses,
        names: impl FnOnce() -> Vec<String>,
        source: EstimateSource,
        (estimates, level): (&CellEstimates, f64),
        ledger: &mut Ledger,
        watcher: &mut CellProgress,
    ) -> Result<Told> {
        let mut told = Told::default();
        if let (Some(labels), Some(path)) = (self.args.ask, &self.args.ask_out) {
            let asked = guesses.choose_images(labels, self.scoring.seed, watcher)?;
            write_asked(path, &asked)?;
            self.scoring.progress.note(&format!(
                "{} to label written to `{}`",
                counted(asked.len(), "image"),
                path.display()
            ));
        }
        let labels = match (&self.file, self.args.use_labels) {
            (Some(file), _) => Some(LabelSource::File(file)),
            (None, Some(labels)) => Some(LabelSource::Known { labels, seed: self.scoring.seed }),
            (None, None) => None,
        };
        if let Some(labels) = labels {
            let found = guesses.with_labels(labels, level, ledger, watcher)?;
            let combined = estimates.source.get("combined");
            told.joined = combined.and_then(|combined| join_with_labels(combined, &found.powered.estimate));
            told.few_labels = Some(found);
        }
        if let (true, EstimateSource::Calibration(calibration, _)) = (self.args.by_class, source) {
            let powered = told.few_labels.as_ref().map(|found| &found.powered.estimate);
            let best = powered.or_else(|| estimates.source.get("combined"));
            let best = best.context("there is no combined estimate, which tables by class rest on")?;
            let by_class = guesses.by_class(best, &calibration.basis, level, ledger, watcher)?;
            told.by_class = Some((by_class, names()));
        }
        Ok(told)
    }
}

impl Told {
    /// Adds what was asked for to the object of a dataset.
    pub fn add_to(&self, object: &mut Value) {
        if let Some(found) = &self.few_labels {
            object["few_labels"] = json!(found);
            object["few_labels"]["joined"] = json!(self.joined);
        }
        if let Some((found, names)) = &self.by_class {
            object["by_class"] = json!(found);
            object["by_class"]["names"] = json!(names);
        }
    }

    /// The same as text.
    pub fn to_text(&self, level: f64) -> String {
        let few_labels = self.few_labels.as_ref().map(|found| few_labels_text(found, self.joined.as_ref(), level));
        let by_class = self.by_class.as_ref().map(|(found, names)| by_class_text(found, names, level));
        few_labels.into_iter().chain(by_class).collect()
    }
}

fn interval(low: f64, high: f64) -> String {
    format!("{} to {}", percent(low), percent(high))
}

fn few_labels_text(found: &FewLabelsResult, joined: Option<&Estimate>, level: f64) -> String {
    let row = |name: &str, estimate: &Estimate, effective: String| {
        let error = found.accuracy.map(|truth| format!("{:+.1}", 100.0 * (estimate.accuracy - truth)));
        let accuracy = percent(estimate.accuracy);
        vec![name.to_owned(), accuracy, interval(estimate.low, estimate.high), error.unwrap_or_default(), effective]
    };
    let powered = &found.powered;
    let mut rows = vec![
        row("with labels", &powered.estimate, format!("{:.0}", powered.effective_labels.min(found.images as f64))),
        row("labels alone", &powered.labels_alone, found.labels.to_string()),
    ];
    rows.extend(joined.map(|joined| row("labels and calibration", joined, String::new())));
    let strata = if found.strata > 1 { format!(", from {} strata", found.strata) } else { String::new() };
    let heading = format!("source model, {} ({} right{strata})", counted(found.labels, "label"), found.right);
    let interval = format!(">{:.0}% interval", 100.0 * level);
    let header = ["estimator", ">accuracy", interval.as_str(), ">error", ">effective labels"];
    format!("{heading}\n{}\n", render(&header, &rows))
}

fn by_class_text(found: &ByClassResult, names: &[String], level: f64) -> String {
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let interval_name = format!(">{:.0}% interval", 100.0 * level);
    let header = ["class", ">share", interval_name.as_str(), ">answers", ">precision", interval_name.as_str()];
    let row = |&class: &usize| {
        let class = &found.by_class.classes[class];
        let precision = class.precision.as_ref();
        vec![
            name(class.class),
            percent(class.share),
            interval(class.share_low, class.share_high),
            class.answered.to_string(),
            precision.map_or_else(String::new, |precision| percent(precision.accuracy)),
            precision.map_or_else(String::new, |precision| interval(precision.low, precision.high)),
        ]
    };
    let table = |classes: &[usize]| render(&header, &classes.iter().take(SHOWN).map(row).collect::<Vec<_>>());
    let classes = &found.by_class.classes;
    let mut by_share: Vec<usize> = (0..classes.len()).collect();
    by_share.sort_by(|&a, &b| classes[b].share.total_cmp(&classes[a].share).then(a.cmp(&b)));
    let precision = |class: usize| classes[class].precision.as_ref().map(|precision| precision.accuracy);
    let mut by_precision: Vec<(f64, usize)> = (0..classes.len()).filter_map(|c| Some((precision(c)?, c))).collect();
    by_precision.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let worst: Vec<usize> = by_precision.into_iter().map(|(_, class)| class).collect();
    let mut text = format!("classes that occur most\n{}\n", table(&by_share));
    if !worst.is_empty() {
        text += &format!("classes whose answers are right least often\n{}\n", table(&worst));
    }
    let confusions = found.by_class.confusions.iter().take(SHOWN).map(|confusion| {
        let share = percent(confusion.probability);
        vec![name(confusion.answered), name(confusion.class), format!("{:.1}", confusion.images), share]
    });
    let confusions: Vec<Vec<String>> = confusions.collect();
    if !confusions.is_empty() {
        let header = ["answered", "but is", ">images expected", ">of these answers"];
        text += &format!("confusions expected most\n{}\n", render(&header, &confusions));
    }
    text
}
