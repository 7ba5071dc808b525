use crate::commands::files::Files;
use crate::commands::inputs::{BadImages, DataArgs, ModelArgs, PreprocessArgs};
use crate::commands::{DeviceArgs, thread_count};
use crate::failure::{Advised as WithHint, Fired};
use crate::interrupt::{Interrupted, StopRequest};
use crate::output::print;
use crate::progress::ProgressArgs;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flipcast_adapt::{GuardAction, GuardConfig, MethodConfig, Norms, ParamRule};
use flipcast_images::loader::{Loader, LoaderConfig, Order};
use flipcast_images::table::write_npy;
use flipcast_models::Model;
use flipcast_record::predictions::{Format, PredictionWriter};
use flipcast_record::{RecordStore, RunRecord, Timing};
use flipcast_run::adapt::{AdaptJob, AdaptSummary, Ending, SourceRule, load_affine, run as run_job, save_affine};
use flipcast_run::open::{DataRequest, LabelRule, OpenedData};
use flipcast_tensor::Batch;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

mod auto;
mod live;
pub(super) mod method;
mod text;

use auto::Advised;
use live::Live;
use method::MethodArgs;
use text::{Finished, describe};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    #[command(flatten)]
    images: DataArgs,
    /// How the model adapts: source, bn, bn_cumulative, bn_early, tent, rpl, cpl, eta, eata, rdumb, sar, cotta, roid,
    /// deyo, come or asr; auto follows `flipcast advise`, and where its answer differs from the source model's, the one that counts is the likelier right
    #[arg(long)]
    method: String,
    /// What `flipcast calibrate --advise` wrote for this model, for `--method auto`
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// What `flipcast advise --out` wrote for these images, for `--method auto`: nothing is tried again
    #[arg(long, value_name = "FILE", requires = "calibration")]
    advice: Option<PathBuf>,
    #[command(flatten)]
    settings: MethodArgs,
    /// Which norm layers adapt, in place of the method's own rule: all-norm, batch-norm, sar (all but the last stage) or
    /// list:NAME,NAME (layers, or all below modules, of these names)
    #[arg(long, value_name = "RULE")]
    params: Option<ParamRule>,
    /// Clean images, for methods that measure something on them first
    #[arg(long, value_name = "DATA")]
    clean: Option<String>,
    /// How many of the clean images are used
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "clean")]
    clean_images: usize,
    /// End after N batches
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Passes over the images; 1 if not given, or as many as --steps needs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Images per batch
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch_size: usize,
    /// The order of the images
    #[arg(long, value_enum, default_value_t = OrderChoice::Auto)]
    order: OrderChoice,
    /// Seed of the order, the corruption and the method
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What to do when the model no longer tells classes apart
    #[arg(long, value_enum, default_value_t = GuardChoice::Warn)]
    guard: GuardChoice,
    /// Do not ask the source model: faster, but flips are unknown and the guard knows less
    #[arg(long)]
    no_source: bool,
    /// Look at the clusters of the first 512 images after every N batches, and tell: entropy, how tight clusters are (silhouette), how far they have
    /// moved, and how many answers changed, since the source parameters with the statistics that the method uses. Tight and near is the phase that helps; tight and moving away the phase that harms
    #[arg(long, value_name = "N")]
    watch: Option<usize>,
    /// Start from an adapted vector that --save-affine wrote
    #[arg(long, value_name = "FILE")]
    affine: Option<PathBuf>,
    /// Write the adapted vector, a small safetensors file
    #[arg(long, value_name = "FILE")]
    save_affine: Option<PathBuf>,
    /// Write one row per prediction; `.csv`, `.jsonl` or `.parquet`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the logits behind the predictions, one row per prediction in the order in which they were made (npy)
    #[arg(long, value_name = "FILE")]
    logits_out: Option<PathBuf>,
    /// Add the result to this record file; a run that is there already is not repeated
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// What to do when an image cannot be read
    #[arg(long, value_enum, default_value_t = BadImages::Fail)]
    on_bad_image: BadImages,
    /// Threads; 0 means one per core. Predictions do not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderChoice {
    /// Shuffled, but a stream as it is stored
    Auto,
    /// As stored
    Stored,
    /// Shuffled by --seed
    Shuffled,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GuardChoice {
    /// Do not look
    Off,
    /// Say so and go on
    Warn,
    /// End the run with exit code 1
    Stop,
    /// Restore the source parameters and go on adapting
    Reset,
    /// Restore the source parameters and adapt no more
    Source,
}

pub fn run(args: &Args) -> Result<()> {
    files(args).check()?;
    let format = args.out.as_deref().map(Format::of).transpose()?;
    let threads = thread_count(args.threads)?;
    let device = args.device.device(threads)?;
    let spec = args.images.only()?;
    let model = args.model.open(&args.preprocess, &args.progress)?;
    let data = args.images.open(spec, &model, args.seed, &args.progress)?;
    let Advised { method, anchored, arbiter } = match args.method.as_str() {
        "auto" => auto::follow_advice(args, &model, &data, device)?,
        _ => {
            ensure!(args.calibration.is_none(), "--calibration is given, but only `--method auto` makes use of it");
            Advised { method: method(args, &model)?, anchored: None, arbiter: None }
        }
    };
    let start = match &args.affine {
        Some(path) => Some(load_affine(path, &model)?),
        None => None,
    };
    let clean = clean_batches(args, &model, &method)?;
    let mut store = match &args.record {
        Some(path) => Some(RecordStore::open(path)?),
        None => None,
    };
    let mut job = AdaptJob {
        model: &model,
        dataset: data.dataset.clone(),
        data: data.identity(),
        loader: LoaderConfig {
            batch_size: args.batch_size,
            threads,
            order: order(args, &data),
            on_bad_image: args.on_bad_image.into(),
            ..data.config.clone()
        },
        class_space: data.scope.class_space(),
        method: &method,
        seed: args.seed,
        epochs: args.epochs,
        steps: args.steps,
        guard: guard(args.guard, model.num_classes()),
        source: if args.no_source { SourceRule::Skip } else { SourceRule::Predict },
        start,
        anchored,
        arbiter,
        watch_every: args.watch,
        clean,
        device,
        predictions: None,
    };
    job.check()?;
    let protocol = job.protocol()?;
    let key = protocol.key();
    let recorded = store.as_ref().and_then(|store| store.get(&key));
    let writes = args.out.is_some() || args.save_affine.is_some() || args.logits_out.is_some();
    if let Some(record) = recorded.filter(|_| !writes) {
        return print_recorded(args, model.name(), record);
    }
    if let (Some(path), Some(format)) = (&args.out, format) {
        job.predictions = Some(PredictionWriter::create(path, format)?);
    }
    let stop = StopRequest::listen()?;
    let mut live = Live::new(args.progress, stop.clone(), args.logits_out.is_some());
    let outcome = run_job(job, &mut live)
        .with_context(|| format!("cannot adapt `{}` to `{}` with `{}`", model.name(), spec, method.name()))?;
    let (elapsed, logits) = live.finish();
    let summary = outcome.summary;
    let keep = || -> Result<()> {
        if let Some(store) = &mut store
            && summary.ending != Ending::Interrupted
            && !store.contains(&key)
        {
            let timing = Timing { created: now(), seconds: elapsed.as_secs_f64() };
            let record = RunRecord::new(protocol.clone(), serde_json::to_value(&summary)?, timing);
            store.append(record.with_data(spec))?;
        }
        if let (Some(path), Some(logits)) = (&args.logits_out, logits) {
            write_npy(path, &logits, model.num_classes())?;
        }
        if let Some(path) = &args.save_affine {
            save_affine(path, &model, &outcome.affine)?;
        }
        Ok(())
    };
    // The result is told even where there is no room for it.
    let kept = keep();
    let finished = Finished {
        model: model.name(),
        data: spec,
        method: method.name(),
        key: &key,
        summary: &summary,
        seconds: Some(elapsed.as_secs_f64()),
        out: outcome.partial_predictions.as_deref().or(args.out.as_deref()),
        affine: args.save_affine.as_deref().filter(|_| kept.is_ok()),
        record: args.record.as_deref().filter(|_| kept.is_ok()),
    };
    print(&finished.render(args.json)?)?;
    kept?;
    if !args.progress.quiet {
        text::note_starved(&summary, method.name());
    }
    end_of(&summary, outcome.partial_predictions.as_deref(), stop.signal().unwrap_or_default())
}

/// What is read and written.
fn files(args: &Args) -> Files<'_> {
    let files = Files::default().reads_model(&args.model).reads_data(args.images.data.iter().chain(&args.clean));
    let files = files.reads("the calibration", args.calibration.as_deref()).reads("the advice", args.advice.as_deref());
    let files = files.reads("the adapted vector", args.affine.as_deref());
    let files = files.writes("--save-affine", "affine.safetensors", args.save_affine.as_deref());
    let files = files.writes("--logits-out", "logits.npy", args.logits_out.as_deref());
    let files = files.writes("--out", "predictions.csv", args.out.as_deref());
    files.writes("--record", "runs.jsonl", args.record.as_deref())
}

/// The method asked for, with the norm layers asked for.
fn method(args: &Args, model: &Model) -> Result<MethodConfig> {
    let table = model.graph().affine_table();
    let mut method = args.settings.config(&args.method, model, args.batch_size)?;
    if let Some(rule) = &args.params {
        ensure!(method.param_rule().is_some(), "--params is given, but `{}` adapts no norm layer", method.name());
        method = method.with_param_rule(rule.clone());
    }
    let cannot = || format!("cannot adapt `{}` with `{}`", model.name(), method.name());
    method.check_network(&table).with_context(cannot)?;
    if Norms::of(&table) != Norms::Batch && method.param_rule().is_some() {
        args.progress.note(&format!(
            "note: `{}` has no batch norm, hence no running statistics: predictions do not depend on the rest of a batch, and the learning rate is \
             the one for such networks unless --recipe or --lr says otherwise",
            model.name()
        ));
    }
    Ok(method)
}

/// How the command ends once everything is written.
fn end_of(summary: &AdaptSummary, partial: Option<&Path>, signal: i32) -> Result<()> {
    let kept = partial.map_or_else(String::new, |path| format!("; the predictions so far are in `{}`", path.display()));
    let images = crate::table::grouped(summary.images);
    match summary.ending {
        Ending::Complete => Ok(()),
        Ending::Interrupted => {
            Err(Interrupted { signal, progress: format!("interrupted after {images} images{kept}") }.into())
        }
        Ending::Collapsed => {
            let last = summary.guard_events.last();
            let reasons = last.map_or_else(String::new, describe);
            Err(Fired(format!(
                "stopped after {images} images, because the model no longer tells classes apart: {reasons}{kept}"
            ))
            .into())
        }
    }
}

fn order(args: &Args, data: &OpenedData) -> Order {
    match args.order {
        OrderChoice::Auto if data.dataset.is_stream() => Order::Stored,
        OrderChoice::Stored => Order::Stored,
        OrderChoice::Auto | OrderChoice::Shuffled => Order::Shuffled { seed: args.seed },
    }
}

fn guard(choice: GuardChoice, num_classes: usize) -> GuardConfig {
    let action = match choice {
        GuardChoice::Off => return GuardConfig::off(),
        GuardChoice::Warn => GuardAction::Warn,
        GuardChoice::Stop => GuardAction::Stop,
        GuardChoice::Reset => GuardAction::Reset,
        GuardChoice::Source => GuardAction::Source,
    };
    GuardConfig { action, ..GuardConfig::for_classes(num_classes) }
}

/// The batches of clean images, where the method needs them.
fn clean_batches(args: &Args, model: &Model, method: &MethodConfig) -> Result<Vec<Batch>> {
    let Some(spec) = &args.clean else {
        if method.needs_clean() {
            return Err(WithHint {
                problem: format!("`{}` measures something on clean images, but none were given", method.name()),
                hint: "give some with `--clean DATA`, or use `eta`, which needs none".to_owned(),
            }
            .into());
        }
        return Ok(Vec::new());
    };
    ensure!(method.needs_clean(), "--clean is given, but `{}` makes no use of clean images", method.name());
    ensure!(args.clean_images > 0, "--clean-images is 0, expected at least 1");
    let clean = DataRequest { labels: LabelRule::None, ..DataRequest::new(spec) }.open(model)?;
    let config = LoaderConfig {
        batch_size: args.batch_size,
        threads: thread_count(args.threads)?,
        order: order(args, &clean),
        limit: Some(args.clean_images),
        on_bad_image: args.on_bad_image.into(),
        ..clean.config.clone()
    };
    let mut batches: Vec<Batch> = Vec::new();
    for loaded in Loader::new(clean.dataset.clone(), config)? {
        batches.push(loaded?.batch);
    }
    // A last batch of other size has other statistics.
    if batches.len() > 1 && batches.last().map(Batch::images) != Some(args.batch_size) {
        batches.pop();
    }
    ensure!(!batches.is_empty(), "`{spec}` holds no usable image, expected clean ones");
    Ok(batches)
}

fn print_recorded(args: &Args, model: &str, record: &RunRecord) -> Result<()> {
    let summary: AdaptSummary = serde_json::from_value(record.result.clone())
        .with_context(|| format!("cannot understand the recorded result `{}`", record.key))?;
    args.progress.note(&format!("note: this run is recorded as {}; it was not repeated", record.key));
    let settings = &record.protocol.get("method").and_then(|m| m.get("settings"));
    let method = settings.and_then(|s| s.get("method")?.as_str());
    let finished = Finished {
        model,
        data: args.images.only()?,
        method: method.unwrap_or_default(),
        key: &record.key,
        summary: &summary,
        seconds: Some(record.seconds),
        out: None,
        affine: None,
        record: args.record.as_deref(),
    };
    print(&finished.render(args.json)?)?;
    end_of(&summary, None, 0)
}

fn now() -> u64 {
    // A clock before 1970 is no reason to lose a result.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
