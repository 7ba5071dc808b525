//! `flipcast bench --cell`: whole cells, from files of images to scores, and where their time goes.

use super::scoring::flip_protocol;
use crate::output::print;
use anyhow::{Context, Result, ensure};
use flipcast_corrupt::blocks::jpeg::encode;
use flipcast_images::dataset::{InMemory, Payload, Sample};
use flipcast_images::preprocess::{Normalise, Preprocess, PreprocessChange};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::open::{DataRequest, ModelRequest, OpenedData};
use flipcast_run::{
    CalibrationJob, CalibrationShift, CellJob, CellRequest, CleanImages, Device, ImageMemory, Ledger, Setting,
    Unwatched, clean_cell, in_flight,
};
use flipcast_tensor::{ByteChange, ByteRecipe, ChangeError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Different made-up pictures; they are repeated until there are enough.
const PICTURES: usize = 48;
/// Quality of the files they are stored in.
const QUALITY: u8 = 90;

/// What cells are timed on: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct CellArgs {
    /// Time whole cells, as a calibration makes them: images decoded and corrupted, every pass of the network, every estimator. First
    /// one after the other, with the share of each part, then in flight
    #[arg(long)]
    pub cell: bool,
    /// How many cells
    #[arg(long, default_value_t = 4, requires = "cell", value_name = "N")]
    cells: usize,
    /// Images of a cell
    #[arg(long, default_value_t = 1000, requires = "cell", value_name = "N")]
    images: usize,
    /// What is done to the images, as for `calibrate`; repeated until there are enough
    #[arg(long, default_value = "family", requires = "cell", value_name = "LIST")]
    shifts: String,
    /// How flips are counted, as for `calibrate`
    #[arg(long, default_value = "flipcast", requires = "cell")]
    protocol: String,
    /// Trained weights in place of random ones of --model
    #[arg(long, requires = "cell", value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Labelled images in place of made-up ones
    #[arg(long, requires = "cell", value_name = "DATA")]
    data: Option<String>,
}

/// What to run, and where.
pub struct Place<'a> {
    /// A weight file, or an architecture, which gets random weights where none are given.
    pub model: &'a str,
    /// How the weight file's images are prepared otherwise than it says.
    pub change: &'a PreprocessChange,
    pub classes: usize,
    pub device: Device,
    /// Threads that read and corrupt images.
    pub threads: usize,
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    model: String,
    device: String,
    threads: usize,
    images: usize,
    classes: usize,
    cells: Vec<CellTimes>,
    /// All cells one after the other.
    one_by_one_seconds: f64,
    /// CPU time of all threads meanwhile, where the system tells.
    one_by_one_cpu_seconds: Option<f64>,
    /// All cells in flight.
    in_flight_seconds: f64,
    /// CPU time of all threads meanwhile.
    in_flight_cpu_seconds: Option<f64>,
}

/// Seconds of one cell.
#[derive(Serialize)]
struct CellTimes {
    name: String,
    /// Reading, decoding and sizing images.
    decoding: f64,
    /// What was done to them on the host.
    corrupting: f64,
    /// The network's passes: source, flips and second look.
    network: f64,
    estimators: f64,
    /// CPU time of all threads, where the system tells.
    cpu_preparing: Option<f64>,
    cpu_network: Option<f64>,
    cpu_estimators: Option<f64>,
}

/// Makes the cells and prints the report.
pub fn run(args: &CellArgs, place: &Place) -> Result<()> {
    ensure!(args.cells > 0 && args.images > 0, "--cells and --images are expected to be at least 1");
    let file = Some(Path::new(place.model)).filter(|file| file.exists());
    let model = match args.weights.as_deref().or(file) {
        Some(path) => ModelRequest { preprocess: Some(place.change), ..ModelRequest::new(path) }.open()?,
        None => random_model(place.model, place.classes)?,
    };
    let mut data = open(args.data.as_deref(), args.images, &model)?;
    data.config.threads = place.threads;
    let protocol = flip_protocol(&args.protocol, &model, 0)?;
    let setting = Setting { model: &model, protocol: &protocol, device: place.device };
    let job = CalibrationJob {
        shifts: CalibrationShift::parse_list(&args.shifts)?,
        ..CalibrationJob::new(setting, data.request())
    };
    ensure!(!job.shifts.is_empty(), "--shifts is empty, expected at least one");
    let clean = CleanImages::default();
    // The clean cell is what others are scored with, and warms everything up.
    let basis = clean_cell(&job, &clean, &mut Ledger::default(), &mut Unwatched)?.basis;
    let corrupting = Arc::new(AtomicU64::new(0));
    let mut jobs = Vec::new();
    for shift in job.shifts.iter().cycle().take(args.cells) {
        let request = timed(job.shifted(shift)?, &corrupting);
        jobs.push((shift.name.clone(), job.cell(request, &basis)));
    }
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let cells = jobs.iter().map(|(name, cell)| time_alone(name, cell, &clean, place.threads, &corrupting));
    let cells = cells.collect::<Result<Vec<_>>>()?;
    let (one_by_one_seconds, one_by_one_cpu_seconds) = (started.elapsed().as_secs_f64(), since(cpu_before));
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    fly(&jobs, &clean, job.clean.memory_limit)?;
    let report = Report {
        model: model.name().to_owned(),
        device: match place.device {
            Device::Cpu { .. } => "cpu".to_owned(),
            Device::Cuda { index, precision } => format!("cuda:{index} {}", precision.name()),
        },
        threads: place.threads,
        images: data.dataset.len(),
        classes: model.num_classes(),
        cells,
        one_by_one_seconds,
        one_by_one_cpu_seconds,
        in_flight_seconds: started.elapsed().as_secs_f64(),
        in_flight_cpu_seconds: since(cpu_before),
    };
    if place.json { print(&(serde_json::to_string(&report)? + "\n")) } else { print(&render(&report)) }
}

/// One cell, stage by stage.
fn time_alone(
    name: &str,
    job: &CellJob,
    clean: &CleanImages,
    threads: usize,
    corrupting: &AtomicU64,
) -> Result<CellTimes> {
    let memory = ImageMemory::new(job.request.memory_limit);
    corrupting.store(0, Ordering::Relaxed);
    let clocks = || (Instant::now(), cpu_seconds());
    let begun = clocks();
    let prepared = job.prepare(clean, &memory, &Ledger::default())?;
    let ready = clocks();
    // Threads that load images are all busy at once.
    let corrupting = corrupting.load(Ordering::Relaxed) as f64 / 1e9 / threads as f64;
    let observed = job.observe(prepared, &mut Unwatched)?;
    let seen = clocks();
    job.score(observed, &mut Ledger::default())?;
    let scored = clocks();
    let seconds = |from: (Instant, Option<f64>), to: (Instant, Option<f64>)| (to.0 - from.0).as_secs_f64();
    let cpu = |from: (Instant, Option<f64>), to: (Instant, Option<f64>)| Some(to.1? - from.1?);
    let preparing = seconds(begun, ready);
    let corrupting = corrupting.min(preparing);
    Ok(CellTimes {
        name: name.to_owned(),
        decoding: preparing - corrupting,
        corrupting,
        network: seconds(ready, seen),
        estimators: seconds(seen, scored),
        cpu_preparing: cpu(begun, ready),
        cpu_network: cpu(ready, seen),
        cpu_estimators: cpu(seen, scored),
    })
}

/// All cells in flight.
fn fly(jobs: &[(String, CellJob)], clean: &CleanImages, memory_limit: usize) -> Result<()> {
    let memory = ImageMemory::new(memory_limit);
    let done: Result<Vec<_>, flipcast_run::RunError> = in_flight(
        jobs.iter().map(|(_, job)| job),
        |job| Ok((job, job.prepare(clean, &memory, &Ledger::default())?)),
        |(job, prepared)| Ok((job, job.observe(prepared, &mut Unwatched)?)),
        |(job, observed)| job.score(observed, &mut Ledger::default()),
    );
    done?;
    Ok(())
}

fn random_model(architecture: &str, classes: usize) -> Result<Model> {
    let model =
        Model::random(architecture, classes, 1).with_context(|| format!("cannot make a random `{architecture}`"))?;
    let side = model.input_size().height;
    let preprocess = match side {
        0..=64 => Preprocess::normalise_only(Normalise::cifar10()),
        _ => Preprocess::torchvision(side * 8 / 7, side),
    };
    Ok(model.with_preprocess(preprocess))
}

/// The images asked for, or made-up ones: photographs are larger than what a network takes, small pictures are as large.
fn open(data: Option<&str>, images: usize, model: &Model) -> Result<OpenedData> {
    if let Some(spec) = data {
        return Ok(DataRequest { limit: Some(images), ..DataRequest::new(spec) }.open(model)?);
    }
    let side = model.input_size().height;
    let (width, height) = if side <= 64 { (side, side) } else { (500, 375) };
    let files = (0..PICTURES.min(images)).map(|number| {
        let byte = |at: usize| {
            let (x, y, channel) = (at / 3 % width, at / 3 / width, at % 3);
            let wave = ((x * (number + 3)) as f64 / 41.0).sin() + ((y * (channel + 2)) as f64 / 29.0).cos();
            // A little noise, as photographs have.
            (128.0 + 50.0 * wave) as u8 ^ (at.wrapping_mul(2_654_435_761) >> 29 & 7) as u8
        };
        let rgb = (0..3 * width * height).map(byte).collect();
        let picture = Image::new(width, height, rgb).context("as many bytes as pixels ask for")?;
        Ok(encode(&picture, QUALITY)?)
    });
    let files = files.collect::<Result<Vec<Vec<u8>>>>()?;
    let sample = |number: usize| Sample {
        id: number.to_string(),
        payload: Payload::Encoded(files[number % files.len()].clone()),
        label: Label::Class((number % model.num_classes()) as u32),
    };
    Ok(OpenedData::new("made-up", InMemory::from_samples((0..images).map(sample)), model)?)
}

/// `request` with a clock at its corruption.
fn timed<'a>(mut request: CellRequest<'a>, nanoseconds: &Arc<AtomicU64>) -> CellRequest<'a> {
    request.config.change = request.config.change.map(|change| -> Arc<dyn ByteChange> {
        Arc::new(TimedChange { change, nanoseconds: Arc::clone(nanoseconds) })
    });
    request
}

/// A change of images, and the time that all threads together spent on it.
#[derive(Debug)]
struct TimedChange {
    change: Arc<dyn ByteChange>,
    nanoseconds: Arc<AtomicU64>,
}

impl ByteChange for TimedChange {
    fn change(&self, index: usize, extents: [usize; 3], bytes: &mut Vec<u8>) -> Result<(), ChangeError> {
        let started = Instant::now();
        let changed = self.change.change(index, extents, bytes);
        self.nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        changed
    }

    fn recipe(&self, extents: [usize; 3]) -> Option<ByteRecipe> {
        self.change.recipe(extents)
    }

    fn storage(&self) -> Option<&'static str> {
        self.change.storage()
    }
}

fn since(before: Option<f64>) -> Option<f64> {
    Some(cpu_seconds()? - before?)
}

/// CPU time of all threads so far, those that ended included, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string(Path::new("/proc/self/stat")).ok()?;
    // Fields 14 and 15, in hundredths; the name before them may hold spaces but ends with the last bracket.
    let fields = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    Some(fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

fn render(report: &Report) -> String {
    let Report { model, device, threads, images, classes, cells, .. } = report;
    let sum = |part: &dyn Fn(&CellTimes) -> f64| cells.iter().map(part).sum::<f64>();
    let parts = [
        ("decoding", sum(&|cell| cell.decoding)),
        ("corrupting", sum(&|cell| cell.corrupting)),
        ("network", sum(&|cell| cell.network)),
        ("estimators", sum(&|cell| cell.estimators)),
    ];
    let all = report.one_by_one_seconds;
    let network = parts[2].1;
    let mut text = format!(
        "{} cells of {images} images, {model} with {classes} classes, {device}, {threads} threads\n",
        cells.len()
    );
    for (name, seconds) in parts {
        text += &format!("{name:<11}{seconds:>9.2} s {:>6.1}%\n", 100.0 * seconds / all);
    }
    let line = |name: &str, seconds: f64, cpu: Option<f64>| {
        let cpu = cpu.map_or_else(String::new, |cpu| format!(", {cpu:.2} s of CPU time"));
        let over = 100.0 * (seconds / network - 1.0);
        format!("{name:<11}{seconds:>9.2} s, {over:+.1}% over the network's passes{cpu}\n")
    };
    text += &line("one by one", all, report.one_by_one_cpu_seconds);
    text + &line("in flight", report.in_flight_seconds, report.in_flight_cpu_seconds)
}
