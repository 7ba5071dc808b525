//! `flipcast estimate`: how accurate is the model on images nobody labelled?

mod labels;
mod merge;
mod shard;

use self::labels::{LabelArgs, Told};
use self::shard::ShardArgs;
use super::files::Files;
use super::inputs::{DataArgs, ModelArgs, PreprocessArgs};
use super::outputs::{self, LogitsArgs};
use super::scoring::{ScoringArgs, check_level, parse_marginal};
use super::thread_count;
use crate::failure::Advised;
use crate::interrupt::end_on_signal;
use crate::output::print;
use crate::table::{counted, grouped, percent, render};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use flipcast_estimate::{Estimate, Flag};
use flipcast_ground::nearest_quoted;
use flipcast_images::dataset::DataError;
use flipcast_images::preprocess::Preprocess;
use flipcast_images::table::write_npy;
use flipcast_models::Model;
use flipcast_run::{
    Calibration, Cell, CellEstimates, CellJob, CleanImages, EstimateSource, Estimates, FlipProtocol, ImageGuesses,
    ImageMemory, Ledger, PAPER_FITS, PaperFit, Samples, Setting, Watcher, in_flight, make_cells,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Estimate a model's accuracy on images without labels.
///
/// Prints, for the source model and for the model adapted to the images, what every estimator says, with intervals and
/// warnings. Where the images have labels the truth stands beside it; no estimate uses them unless --use-labels says so. A few
/// labels of your own (--labelled) add an estimate that assumes nothing about the shift.
///
/// Without a network, --logits estimates from outputs alone, with a calibration that was made so.
///
/// Images too many for one machine are estimated in shards: --shard I/N --part FILE on each, then `flipcast estimate merge`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    model: Option<ModelArgs>,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    /// What `flipcast calibrate` wrote for this model; or one of the paper's own
    /// fits: `paper-resnet50`, `paper-cifar100`, `paper-cifar10`
    #[arg(long, value_name = "FILE", required = true)]
    calibration: Option<PathBuf>,
    #[command(flatten)]
    images: Option<DataArgs>,
    #[command(flatten)]
    outputs: LogitsArgs,
    /// The protocol the calibration must have been made with
    #[arg(long)]
    protocol: Option<String>,
    #[command(flatten)]
    shown: Shown,
    /// Write the source model's logits, one row per image in the order in which they are stored (npy)
    #[arg(long, value_name = "FILE")]
    logits_out: Option<PathBuf>,
    #[command(flatten)]
    shards: ShardArgs,
    #[command(flatten)]
    few_labels: LabelArgs,
    #[command(flatten)]
    scoring: ScoringArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Join the parts of all shards to the estimate of the whole
    Merge(merge::Args),
}

/// What is estimated and how it is shown.
#[derive(Clone, Debug, clap::Args)]
struct Shown {
    /// The classes' shares among these images, where they differ from the calibration's: uniform, em, bbse,
    /// subset:0,1,... or given:5,1,...
    #[arg(long)]
    marginal: Option<String>,
    /// Probability with which the intervals are meant to hold the truth
    #[arg(long, default_value_t = 0.9)]
    level: f64,
    /// Print one JSON object per dataset
    #[arg(long)]
    json: bool,
    /// Print every estimator, not the main ones alone
    #[arg(long)]
    all: bool,
}

/// The estimators a reader sees first.
const MAIN: [&str; 9] =
    ["combined", "wf", "wf_batch", "statistics_flips", "cot", "cot_calibrated", "atc_mc", "ac", "doc"];

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if let Some(Action::Merge(args)) = &args.action {
        return merge::run(args);
    }
    let calibration = args.calibration.as_deref().context("--calibration is required")?;
    files(args).check()?;
    match (&args.model, &args.images, &args.outputs.logits, args.shards.asked()) {
        (_, _, Some(logits), _) => estimate_outputs(args, calibration, logits),
        (Some(model), Some(images), None, Some(shard)) => shard::run(args, calibration, model, images, shard),
        (Some(model), Some(images), None, None) => estimate_network(args, calibration, model, images),
        _ => bail!("neither --logits nor --model and --data are given"),
    }
}

/// What is read and written.
fn files(args: &Args) -> Files<'_> {
    let files = Files::default().reads("the calibration", args.calibration.as_deref());
    let files = args.model.iter().fold(files, Files::reads_model);
    let files = files.reads_data(args.images.iter().flat_map(|images| &images.data));
    let files = args.shards.add_to(args.few_labels.add_to(args.outputs.add_to(files)));
    let files = files.writes("--logits-out", "logits.npy", args.logits_out.as_deref());
    files.writes("--record", "runs.jsonl", args.scoring.record.as_deref())
}

/// Estimates from a file of logits.
fn estimate_outputs(args: &Args, calibration: &Path, logits: &Path) -> Result<()> {
    end_on_signal("nothing is kept".to_owned())?;
    check_level(args.shown.level)?;
    check_calibration(calibration)?;
    let (cell, estimates) =
        args.outputs.estimate(logits, calibration, args.shown.marginal.as_deref(), args.shown.level)?;
    let spec = logits.display().to_string();
    print(&match args.shown.json {
        true => outputs::to_json(&spec, &cell, &estimates, args.shown.level).to_string() + "\n",
        false => to_text(&spec, &cell, &estimates, &Told::default(), &args.shown),
    })
}

/// Estimates with a model and images.
fn estimate_network(args: &Args, artefact: &Path, model: &ModelArgs, data: &DataArgs) -> Result<()> {
    let threads = thread_count(args.scoring.threads)?;
    let devices = args.scoring.device.devices(threads)?;
    args.scoring.end_on_interrupt()?;
    check_level(args.shown.level)?;
    let published = artefact.to_str().and_then(PaperFit::find);
    let calibration = match published {
        Some(_) => None,
        None => {
            check_calibration(artefact)?;
            Some(Calibration::load(artefact)?)
        }
    };
    if args.logits_out.is_some() {
        data.only()?;
    }
    let labels = args.few_labels.job(data, calibration.is_some(), &args.scoring)?;
    let protocol = match &calibration {
        Some(calibration) => calibration.protocol.clone(),
        None => FlipProtocol::named(args.protocol.as_deref().unwrap_or("code"))?,
    };
    check_protocol(args.protocol.as_deref(), &protocol)?;
    let model = model.open(&args.preprocess, &args.scoring.progress)?;
    if let Some(fit) = published {
        fit.check(&model)?;
    }
    let marginal = args.shown.marginal.as_deref();
    let marginal = marginal.map(|text| parse_marginal(text, model.num_classes()));
    let marginal = marginal.transpose()?;
    // Estimates are made from cells that the ledger holds.
    let ledger = match args.scoring.record {
        Some(_) => args.scoring.ledger()?,
        None => Ledger::in_memory(),
    };
    let setting = Setting { model: &model, protocol: &protocol, device: devices[0] };
    let images = data.open_all(&model, &args.scoring)?;
    if let Some(calibration) = &calibration {
        let note = |text: &str| args.scoring.progress.note(text);
        images.iter().for_each(|(spec, data)| note_sizing(calibration, &model, (spec, &data.preprocess), note));
    }
    let source = match (&calibration, published) {
        (Some(calibration), _) => EstimateSource::Calibration(calibration, marginal.as_ref()),
        (None, published) => {
            EstimateSource::Paper(published.context("without a calibration there is a published fit")?)
        }
    };
    let basis = calibration.as_ref().map(|calibration| {
        let mut basis = calibration.basis.clone();
        basis.options.marginal = marginal.clone().unwrap_or(basis.options.marginal);
        basis
    });
    let temperature = basis.as_ref().map_or(1.0, |basis| basis.temperature.value);
    let (clean, memory) = (CleanImages::default(), ImageMemory::new(args.scoring.memory << 20));
    let mut watcher = args.scoring.watcher("estimate");
    let mut telling = watcher.clone();
    let mut kept = ledger.clone();
    let failed = |spec: &str| format!("cannot estimate the accuracy on `{spec}`");
    let job = |number: usize| -> Result<CellJob> {
        let (_, data) = &images[number];
        if let Some(calibration) = &calibration {
            calibration.check_fits(&model, &data.preprocess, &data.scope)?;
        }
        let request = args.scoring.request(data);
        Ok(CellJob { setting, kind: "estimate", request, basis: basis.as_ref(), samples: Samples::None })
    };
    if devices.len() > 1 {
        let cells: Vec<CellJob> = (0..images.len()).map(job).collect::<Result<_>>()?;
        make_cells(&devices, &cells, args.scoring.memory << 20, &ledger, || watcher.clone())
            .with_context(|| format!("cannot estimate the accuracy on {}", counted(images.len(), "dataset")))?;
    }
    // While one dataset is observed, the next is read, and what is known of the one before is printed.
    let done = in_flight(
        images.iter().enumerate(),
        |(number, (spec, _))| {
            let job = job(number)?;
            let prepared = job.prepare(&clean, &memory, &ledger).with_context(|| failed(spec))?;
            Ok((number, spec, job, prepared))
        },
        |(number, spec, job, prepared)| {
            watcher.cell(spec, number, images.len());
            let observed = job.observe(prepared, &mut watcher).with_context(|| failed(spec))?;
            Ok((number, spec, job, observed))
        },
        |(number, spec, job, observed)| {
            telling.cell(spec, number, images.len());
            let make = || -> Result<(String, Result<(), DataError>)> {
                job.score(observed, &mut kept)?;
                let request = &job.request;
                let (cell, estimates) = setting.estimate(source, request, args.shown.level, &mut kept, &mut telling)?;
                let mut guesses = ImageGuesses::new(&setting, request, temperature);
                let mut kept_logits = Ok(());
                if let Some(path) = &args.logits_out {
                    let outputs = guesses.outputs(&mut telling)?;
                    kept_logits = write_npy(path, outputs.logits(), outputs.classes());
                }
                let names = || request.scope.alternative_names(&model);
                let told =
                    labels.tell(guesses, names, source, (&estimates, args.shown.level), &mut kept, &mut telling)?;
                if args.shown.json {
                    let mut object = to_json(spec, &cell, &estimates, &protocol, args.shown.level)?;
                    told.add_to(&mut object);
                    return Ok((object.to_string() + "\n", kept_logits));
                }
                Ok((to_text(spec, &cell, &estimates, &told, &args.shown), kept_logits))
            };
            let (text, kept_logits) = make().with_context(|| failed(spec))?;
            telling.print(&text)?;
            // The estimates are told even where there is no room for the logits.
            Ok(kept_logits?)
        },
    );
    done.map(drop)
}

/// Refuses a file that is not there, with the names that resemble it: files of its folder, and the paper's fits. Where one of these would do, it was
/// looked for before.
pub(super) fn check_calibration(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    if path.to_str().and_then(PaperFit::find).is_some() {
        return Err(Advised {
            problem: format!(
                "`{}` is one of the paper's fits, but a calibration of this model is needed",
                path.display()
            ),
            hint: "`flipcast calibrate` makes one".to_owned(),
        }
        .into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let files: Vec<String> = files.filter(|name| name.ends_with(".json")).collect();
    let known = files.iter().map(String::as_str).chain(PAPER_FITS.iter().map(|fit| fit.name));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Err(Advised {
        problem: format!("the calibration `{}` does not exist", path.display()),
        hint: format!("names like it are {}; `flipcast calibrate` makes one for a model", nearest_quoted(&name, known)),
    }
    .into())
}

/// Says where the images of `spec` are brought to size otherwise than those of the calibration.
pub(super) fn note_sizing(
    calibration: &Calibration,
    model: &Model,
    (spec, preprocess): (&str, &Preprocess),
    note: impl Fn(&str),
) {
    if let Some(text) = calibration.sizing_note(model, preprocess) {
        note(&format!("note: `{spec}`: {text}"));
    }
}

fn check_protocol(asked: Option<&str>, made_with: &FlipProtocol) -> Result<()> {
    let Some(asked) = asked.filter(|asked| *asked != made_with.name) else {
        return Ok(());
    };
    Err(Advised {
        problem: format!("the calibration was made with protocol `{}`, but `{asked}` was asked for", made_with.name),
        hint: format!("calibrate with `--protocol {asked}`, or leave the option out"),
    }
    .into())
}

fn to_json(spec: &str, cell: &Cell, estimates: &CellEstimates, protocol: &FlipProtocol, level: f64) -> Result<Value> {
    Ok(json!({
        "data": spec,
        "images": cell.images,
        "skipped": cell.skipped,
        "level": level,
        "estimates": estimates.source,
        "truth": cell.accuracy,
        "explanation": estimates.explanation,
        "adapted": {
            "estimates": estimates.adapted,
            "truth": cell.adapted_accuracy,
            "images": cell.probe_images,
        },
        "adaptation": cell.adaptation,
        "seconds": cell.seconds,
        "protocol": protocol,
    }))
}

fn to_text(spec: &str, cell: &Cell, estimates: &CellEstimates, told: &Told, shown: &Shown) -> String {
    let mut text = format!("{spec}: {}", counted(cell.images, "image"));
    if cell.skipped > 0 {
        text += &format!(", {} unreadable", grouped(cell.skipped));
    }
    text + "\n" + &tables(cell, estimates, shown) + "\n" + &told.to_text(shown.level)
}

/// What is estimated of both models, and what flags mean.
fn tables(cell: &Cell, estimates: &CellEstimates, shown: &Shown) -> String {
    let mut text = String::new();
    let mut flags = BTreeSet::new();
    let parts = [
        ("source model", &estimates.source, cell.accuracy),
        ("adapted model", &estimates.adapted, cell.adapted_accuracy),
    ];
    for (what, estimates, truth) in parts.into_iter().filter(|(_, e, _)| !e.is_empty()) {
        text += &part(what, estimates, truth, shown, &mut flags);
    }
    for sentence in &estimates.explanation {
        text += &format!("  {sentence}\n");
    }
    text + &tell_flags(flags)
}

/// What each flag means, a line each.
pub(super) fn tell_flags(flags: impl IntoIterator<Item = Flag>) -> String {
    let tell = |flag: Flag| format!("  {}: {}\n", flag.name(), flag.text());
    flags.into_iter().map(tell).collect()
}

/// The table of one of the two numbers.
fn part(what: &str, estimates: &Estimates, truth: Option<f64>, shown: &Shown, flags: &mut BTreeSet<Flag>) -> String {
    let mut names: Vec<&str> = MAIN.into_iter().filter(|n| estimates.contains_key(*n)).collect();
    if shown.all {
        let others = estimates.keys().map(String::as_str).filter(|n| !MAIN.contains(n));
        names.extend(others);
    }
    let mut rows = Vec::new();
    for name in names {
        let Estimate { accuracy, low, high, flags: raised } = &estimates[name];
        flags.extend(raised.iter().copied());
        let raised: Vec<&str> = raised.iter().map(|flag| flag.name()).collect();
        rows.push(vec![
            name.to_owned(),
            percent(*accuracy),
            format!("{} to {}", percent(*low), percent(*high)),
            truth.map_or_else(String::new, |truth| format!("{:+.1}", 100.0 * (accuracy - truth))),
            raised.join(", "),
        ]);
    }
    let truth = truth.map_or_else(String::new, |truth| format!(", truth {}", percent(truth)));
    let interval = format!(">{:.0}% interval", 100.0 * shown.level);
    let header = ["estimator", ">accuracy", interval.as_str(), ">error", "flags"];
    format!("\n{what}{truth}\n{}", render(&header, &rows))
}
