//! `flipcast calibrate`: labelled clean images become the artefact that estimates need.

use super::files::Files;
use super::inputs::{DataArgs, ModelArgs, PreprocessArgs};
use super::models::restored_text;
use super::outputs::LabelledLogitsArgs;
use super::scoring::{ScoringArgs, flip_protocol, parse_marginal};
use super::thread_count;
use crate::failure::Advised;
use crate::interrupt::end_on_signal;
use crate::output::print;
use crate::progress::duration;
use crate::table::{counted, grouped, render};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use flipcast_corrupt::Storage;
use flipcast_estimate::AccuracyFit;
use flipcast_ground::is_special;
use flipcast_models::{Model, RestoredNorms};
use flipcast_record::write_atomically;
use flipcast_run::advise::learn_advice;
use flipcast_run::open::{LabelMatchError, LabelRule, OpenError, OpenedData};
use flipcast_run::{
    Basis, Calibration, CalibrationCost, CalibrationJob, CalibrationShift, CleanImages, Fits, FlipProtocol, Ledger,
    OutputsCalibration, RESTORE_IMAGES, RestoreOptions, RunError, ScoreOptions, Setting, TrainingCrop, calibrate,
    check_kinds, clean_cell, make_cells, measure_cost, restore_norms,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Below this many images the errors of the fits are mostly chance.
const FEW_IMAGES: usize = 200;
/// More images than this are told how to be fewer.
const ENOUGH_IMAGES: usize = 1000;
/// A run of more seconds comes with advice on how to make it shorter.
const LONG_SECONDS: f64 = 600.0;

/// Learn from labelled images how this model's accuracy shows in its outputs.
///
/// --data are clean images with labels. Looks at them and at 18 kinds of shift in one or two severities, made in memory, draws samples of all with other
/// class shares and fewer images, and fits what every estimator needs. The result belongs to these weights, this preprocessing and this protocol. What it will take is
/// measured and told first. Every finished cell is kept beside the result, so that an interrupted run goes on where it was.
///
/// The fits of an earlier version's calibration are made again from its cells, without a look at an image, by `flipcast calibrate refit`.
///
/// Without a network, --logits and --truth calibrate from outputs alone, for `flipcast estimate --logits`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    model: Option<ModelArgs>,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    #[command(flatten)]
    images: Option<DataArgs>,
    #[command(flatten)]
    outputs: LabelledLogitsArgs,
    /// Where the artefact is written
    #[arg(long, value_name = "FILE", default_value = "calibration.json")]
    out: PathBuf,
    /// Count flips without adapting (`--protocol statistics`), several times faster; for networks with batch norms. Says
    /// nothing about the adapted model. Flips alone then err by 2.70 points in place of 2.69 (CIFAR-100, ResNet-26) and by
    /// 1.56 in place of 1.56 (Tiny-ImageNet, ResNet-18); with the 1,000 steps of `--protocol paper` by 1.22 on the latter
    #[arg(long, conflicts_with = "protocol")]
    quick: bool,
    /// How flips are counted: flipcast, statistics, paper, code, limited-memory or limited-data
    #[arg(long, default_value = "flipcast")]
    protocol: String,
    /// Divide logits by a temperature fitted on the clean images
    #[arg(long)]
    temperature: bool,
    /// The classes' shares that transport assumes: uniform, em, bbse, subset:0,1,... or given:5,1,...
    #[arg(long, default_value = "uniform")]
    marginal: String,
    /// What is done to the images: `family` (18 kinds of flipcast's own), `held-out` (four of ImageNet-C, as in the paper),
    /// corruptions such as `fog:3`, or several of these parted by commas. Two kinds are needed, --also counted; intervals
    /// need at least nine
    #[arg(long, value_name = "LIST", default_value = "family")]
    shifts: String,
    /// Other labelled images, such as those of another camera or season: each is a kind of shift too
    #[arg(long, value_name = "DATA")]
    also: Vec<String>,
    /// How corrupted images are stored before the model sees them: none or jpeg85; as in the published set for their
    /// size if not given
    #[arg(long, value_name = "STEP")]
    storage: Option<Storage>,
    /// Learn too what methods of adaptation gain, for `flipcast advise`: tries about twenty of them on up to 2,048 images of every shift, which may take longer than the
    /// rest
    #[arg(long)]
    advise: bool,
    /// Leave a network as it is whose batch norms were folded into its convolutions; otherwise they are restored from the
    /// clean images, in a file beside the network
    #[arg(long)]
    no_restore: bool,
    /// Restore such norms from images cut as the network's training cut them, as `flipcast models restore` does: `padded:4` or `resized:0.08`
    #[arg(long, value_name = "CROP", conflicts_with = "no_restore")]
    training_crop: Option<TrainingCrop>,
    #[command(flatten)]
    scoring: ScoringArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Make the fits of a calibration again from its cells, as this version of the program makes them
    Refit(RefitArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct RefitArgs {
    /// What `flipcast calibrate` wrote, of this version or an earlier one
    #[arg(value_name = "CALIBRATION")]
    earlier: PathBuf,
    /// Where the new artefact is written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if let Some(Action::Refit(args)) = &args.action {
        return refit(args);
    }
    match (&args.model, &args.images) {
        _ if args.outputs.logits.is_some() => calibrate_outputs(args),
        (Some(model), Some(images)) => calibrate_network(args, model, images),
        _ => bail!("neither --logits nor --model and --data are given"),
    }
}

/// Makes the fits of an earlier calibration again.
fn refit(RefitArgs { earlier, out }: &RefitArgs) -> Result<()> {
    let files = Files::default().reads("the calibration", Some(earlier));
    files.writes("--out", "calibration.json", Some(out)).check()?;
    let calibration = Calibration::refit(earlier).map_err(|error| match error {
        RunError::OtherKind { .. } => anyhow::Error::new(Advised {
            problem: format!("`{}` is a calibration of outputs alone, expected one of a network", earlier.display()),
            hint:
                "make it again from its files of logits and labels, which takes seconds: `flipcast calibrate --logits`"
                    .to_owned(),
        }),
        error => error.into(),
    })?;
    write_atomically(out, calibration.to_json()?.as_bytes())?;
    let Calibration { model, basis, source, accuracy, .. } = &calibration;
    print(&summary(&model.name, basis, Some(source), accuracy.as_ref()))?;
    finish(basis, out)
}

/// Calibrates from files of logits.
fn calibrate_outputs(args: &Args) -> Result<()> {
    let scoring = &args.scoring;
    end_on_signal("nothing is kept".to_owned())?;
    let mut watcher = scoring.watcher("calibrate");
    let calibration =
        args.outputs.calibrate(&args.marginal, args.temperature, scoring.seed, &args.out, &mut watcher)?;
    drop(watcher);
    let OutputsCalibration { basis, fits, accuracy, .. } = &calibration;
    print(&summary("outputs alone", basis, fits.as_ref(), accuracy.as_ref()))?;
    finish(basis, &args.out)
}

/// Calibrates a model on images.
fn calibrate_network(args: &Args, model_args: &ModelArgs, images: &DataArgs) -> Result<()> {
    let mut scoring = args.scoring.clone();
    let threads = thread_count(scoring.threads)?;
    let devices = scoring.device.devices(threads)?;
    if scoring.record.is_none() && !is_special(&args.out) {
        scoring.record = Some(args.out.with_extension("cells.jsonl"));
    }
    scoring.end_on_interrupt()?;
    let protocol = if args.quick { "statistics" } else { &args.protocol };
    // A misspelt name should not wait for the weights.
    FlipProtocol::named(protocol)?;
    let shifts = CalibrationShift::parse_list(&args.shifts)?;
    let mut also: Vec<&String> = Vec::new();
    for data in &args.also {
        if !also.contains(&data) {
            also.push(data);
        }
    }
    check_kinds(&shifts, also.iter().map(|data| data.as_str()))?;
    let files = Files::default().reads_model(model_args).reads_data(images.data.iter().chain(&args.also));
    let files = files.writes("--out", "calibration.json", Some(&args.out));
    files.writes("--record", "cells.jsonl", scoring.record.as_deref()).check()?;
    let model = model_args.open(&args.preprocess, &scoring.progress)?;
    if images.labels == LabelRule::None {
        return Err(Advised {
            problem: "a calibration compares predictions with labels, but `--labels none` ignores them".to_owned(),
            hint: "leave the option out, or match classes by number with `--labels index`".to_owned(),
        }
        .into());
    }
    let data = open_labelled(images, images.only()?, &model, &scoring)?;
    if data.spec.corruption.is_some() {
        return Err(Advised {
            problem: format!("--data is `{}`, with a corruption, but a calibration is made on clean images", data.spec),
            hint: "give the images alone; their corruptions are made while calibrating".to_owned(),
        }
        .into());
    }
    let model = match args.no_restore {
        true => model,
        false => restore_folded(model, model_args.weight_file(), (&data, args.training_crop), &scoring, threads)?,
    };
    if args.quick && !model.graph().has_batch_norm() {
        return Err(Advised {
            problem: format!("`{}` has no batch norms, so that nothing flips without adapting", model.name()),
            hint: "leave `--quick` out; such a network is adapted in a few small steps".to_owned(),
        }
        .into());
    }
    let protocol = flip_protocol(protocol, &model, scoring.seed)?;
    let others: Vec<_> =
        also.iter().map(|data| open_labelled(images, data, &model, &scoring)).collect::<Result<_>>()?;
    let job = CalibrationJob {
        shifts,
        others: others.iter().map(|data| scoring.request(data)).collect(),
        setting: Setting { model: &model, protocol: &protocol, device: devices[0] },
        clean: scoring.request(&data),
        options: ScoreOptions {
            marginal: parse_marginal(&args.marginal, model.num_classes())?,
            temperature: args.temperature,
        },
        storage: args.storage,
    };
    let cannot = || format!("cannot calibrate `{}` on `{}`", model.name(), data.spec);
    let mut ledger = scoring.ledger()?;
    let cost = measure_cost(&job, &ledger).with_context(cannot)?;
    scoring.progress.note(&describe_cost(&cost, scoring.record.as_deref()));
    if devices.len() > 1 {
        if scoring.record.is_none() {
            // What the devices make is looked up again below.
            ledger = Ledger::in_memory();
        }
        let watcher = scoring.watcher("calibrate");
        let clean =
            clean_cell(&job, &CleanImages::default(), &mut ledger, &mut watcher.clone()).with_context(cannot)?;
        let cells = job.further_cells(&clean.basis)?.into_iter().map(|(_, _, cell)| cell).collect::<Vec<_>>();
        make_cells(&devices, &cells, scoring.memory << 20, &ledger, || watcher.clone()).with_context(cannot)?;
    }
    let mut calibration = calibrate(&job, &mut ledger, &mut scoring.watcher("calibrate")).with_context(cannot)?;
    if args.advise {
        let learned = learn_advice(&job, &calibration.basis, &mut ledger, &mut scoring.watcher("advise"));
        calibration.advice = Some(learned.with_context(cannot)?);
    }
    let text = calibration.to_json()?;
    write_atomically(&args.out, text.as_bytes())?;
    let Calibration { basis, source, accuracy, advice, .. } = &calibration;
    print(&summary(model.name(), basis, Some(source), accuracy.as_ref()))?;
    if let Some(advice) = advice {
        print(&format!(
            "\nthe gain of {} is told to {:.2} points on kinds of shift unseen\n",
            format_args!("{} ways to adapt", advice.candidates.len() - 1),
            100.0 * advice.whole.mae(),
        ))?;
    }
    if !model.graph().has_batch_norm() {
        print(
            "\nno batch norm, hence no running statistics: both anchors of flips coincide, and nothing flips before the first step\n",
        )?;
    }
    finish(basis, &args.out)
}

/// Opens images whose labels are needed, so that to ignore them is no advice.
fn open_labelled(images: &DataArgs, spec: &str, model: &Model, scoring: &ScoringArgs) -> Result<OpenedData> {
    images.open(spec, model, scoring.seed, &scoring.progress).map_err(|error| {
        let OpenError::Labels { source, .. } = &error else {
            return error.into();
        };
        let hint = match source {
            LabelMatchError::OtherNumbers { .. } => "match the classes by name: `--labels auto`",
            LabelMatchError::NoNames { .. } => {
                "give the model's card the class names, or map the classes: `--class-map FILE`"
            }
            LabelMatchError::UnknownNames { .. } => {
                "map the classes: `--class-map FILE`; if only the names differ, match by number: `--labels index`"
            }
            LabelMatchError::OtherOutputs { .. } | LabelMatchError::ClassMap(_) | LabelMatchError::Space(_) => {
                return error.into();
            }
        };
        anyhow::Error::new(Advised { problem: source.to_string(), hint: hint.to_owned() }).context(error.to_string())
    })
}

/// Says what is to be said about the number of images, and where the artefact is.
fn finish(basis: &Basis, out: &Path) -> Result<()> {
    if let Some(warning) = too_few(basis.reference.images) {
        print(&format!("\n{warning}\n"))?;
    }
    print(&format!("\nwritten to {}\n", out.display()))
}

/// What is to be said of so few images, before and after the work.
fn too_few(images: usize) -> Option<String> {
    let found = counted(images, "clean image");
    (images < FEW_IMAGES).then(|| {
        format!("only {found}: chance decides much of what is learned; {FEW_IMAGES} are few, a thousand a start")
    })
}

/// `model` with the batch norms that its exporter folded away, if there are any: gathered on the clean images and kept beside it.
fn restore_folded(
    model: Model,
    weights: &Path,
    (clean, crop): (&OpenedData, Option<TrainingCrop>),
    scoring: &ScoringArgs,
    threads: usize,
) -> Result<Model> {
    let place = RestoredNorms::place_beside(weights);
    if model.folded_layers().is_empty() {
        let Some(crop) = crop else {
            return Ok(model);
        };
        let before = if place.exists() { RestoredNorms::load(&place)?.crop } else { None };
        if before == Some(crop.to_string()) {
            return Ok(model);
        }
        return Err(Advised {
            problem: format!(
                "`{}` has no folded batch norms left to restore from images cut as `{crop}`",
                model.name()
            ),
            hint: "leave `--training-crop` out, or restore them anew with `flipcast models restore`".to_owned(),
        }
        .into());
    }
    let options = RestoreOptions { layers: None, images: RESTORE_IMAGES, seed: scoring.seed, threads, crop };
    let norms = restore_norms(&model, clean, options, &mut scoring.watcher("restore"))?;
    write_atomically(&place, &norms.to_bytes())?;
    scoring.progress.note(&restored_text(&norms, &place));
    Ok(model.with_restored_norms(&norms)?)
}

/// What is to be done and how long it takes, before it begins.
fn describe_cost(cost: &CalibrationCost, record: Option<&Path>) -> String {
    let mut text = format!("{} of {}", counted(cost.cells + cost.known, "cell"), counted(cost.images, "image"));
    if cost.known > 0 {
        text += &format!(", {} of them known", grouped(cost.known));
    }
    if cost.cells > 0 {
        text += &format!(": {}", counted(cost.predictions, "prediction"));
        if cost.steps > 0 {
            text += &format!(" and {} of {}", counted(cost.steps, "step"), counted(cost.step_images, "image"));
        }
        text += &format!(", about {}", duration(Duration::from_secs_f64(cost.seconds)));
        if cost.seconds > LONG_SECONDS {
            let fewer = if cost.images > ENOUGH_IMAGES { "`--limit 1000` takes fewer images, " } else { "" };
            text += &format!("; {fewer}`--quick` adapts nothing");
        }
    }
    if let Some(warning) = too_few(cost.images) {
        text += &format!("\n{warning}");
    }
    if let Some(record) = record {
        text += &format!("\ncells are kept in {}", record.display());
    }
    text
}

/// What was learned about the classifier called `name`, for a reader.
fn summary(name: &str, basis: &Basis, fits: Option<&Fits>, accuracy: Option<&AccuracyFit>) -> String {
    let mut text = format!(
        "{}: {:.2}% of {} right, confidence {:.2}%, calibration error {:.2} points (temperature {:.3})\n\n",
        name,
        100.0 * basis.reference.accuracy,
        counted(basis.reference.images, "clean image"),
        100.0 * basis.reference.mean_confidence,
        100.0 * basis.reference.ece,
        basis.temperature.value,
    );
    let Some(fits) = fits else {
        return text + "too few kinds of shift to tell how far estimates err: intervals will span everything\n";
    };
    let mut rows = Vec::new();
    let points = |x: f64| format!("{:.2}", 100.0 * x);
    for (name, fit) in &fits.by_score {
        let direct = fits.direct.get(name);
        rows.push(vec![
            name.clone(),
            direct.map_or_else(|| "-".to_owned(), |errors| points(errors.mae())),
            points(fit.errors.mae()),
            points(fit.errors.worst()),
        ]);
    }
    text += "errors in points of accuracy on kinds of shift the fit had not seen, all images of a cell\n";
    text += &render(&["estimator", ">as it is", ">calibrated", ">worst"], &rows);
    match accuracy {
        Some(fit) => {
            let errors = fit.errors();
            let all = errors.mae(0).map_or_else(|| "-".to_owned(), points);
            let large =
                errors.mae(1000).map_or_else(String::new, |mae| format!(" ({} from 1,000 images on)", points(mae)));
            text += &format!(
                "\nthe combined estimate errs by {all} points on {} with other class shares and sizes{large}, kinds of shift unseen\n",
                counted(errors.samples(), "sample"),
            );
        }
        None => {
            text += "\ntoo few images or kinds of shift for a combined estimate that holds with other class shares\n"
        }
    }
    text
}
