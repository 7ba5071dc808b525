//! `flipcast demo`: estimates beside the truth, on shifts the calibration has not seen.

pub(super) mod assets;
mod report;
mod rows;

use super::files::check_writable;
use super::scoring::CellProgress;
use super::{DeviceArgs, thread_count};
use crate::output::print;
use crate::progress::{ProgressArgs, duration};
use anyhow::{Context, Result};
use flipcast_corrupt::CorruptionSet;
use flipcast_corrupt::registry::names;
use flipcast_estimate::ClassShares;
use flipcast_images::dataset::{Dataset, Subset};
use flipcast_record::write_atomically;
use flipcast_run::open::{DataRequest, ModelRequest};
use flipcast_run::{
    Calibration, CellJob, CellRequest, CleanImages, HELD_OUT, ImageMemory, Ledger, MEMORY_LIMIT, Samples, Setting,
    Watcher, in_flight,
};
use rows::Row;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Probability with which intervals are meant to hold the truth.
const LEVEL: f64 = 0.9;

/// Show estimates beside the truth on shifts a small built-in model never saw.
///
/// A ResNet trained on Fashion-MNIST comes with the program, together with 3,000 test images and a calibration made on
/// other images with other shifts. Every corruption is shown at one severity, 1 to 5 in turn; then samples such as
/// production has: few images, some classes more often than others.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where the report is written
    #[arg(long, value_name = "FILE", default_value = "flipcast-demo.html")]
    out: PathBuf,
    /// Keep the model, the images and the calibration in this folder, to try other commands on them
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let threads = thread_count(args.threads)?;
    let device = args.device.device(threads)?;
    check_writable(&args.out)?;
    let folder = assets::unpack(args.keep.as_deref())?;
    let model = ModelRequest::new(&folder.weights()).open()?;
    let calibration = Calibration::load(&folder.calibration())?;
    let setting = Setting { model: &model, protocol: &calibration.protocol, device };
    let mut watcher = CellProgress::new(args.progress.line("demo"));
    let (clean, memory) = (CleanImages::default(), ImageMemory::new(MEMORY_LIMIT));
    let mut images = Vec::new();
    for Shown { name, shift, sample } in shown() {
        let spec = match shift.as_str() {
            "clean" => folder.images(),
            shift => format!("{}@{shift}", folder.images()),
        };
        let data = DataRequest::new(&spec).open(&model)?;
        calibration.check_fits(&model, &data.preprocess, &data.scope)?;
        let dataset = match sample {
            Some((shares, images)) => drawn(&data.dataset, model.num_classes(), shares, images)?,
            None => data.dataset.clone(),
        };
        images.push((name, dataset, data));
    }
    let cannot = |name: &str| format!("cannot show `{name}`");
    let rows: Result<Vec<Option<Row>>> = in_flight(
        images.iter().enumerate(),
        |(number, (name, dataset, data))| {
            let mut request = CellRequest { data: name.clone(), dataset: dataset.clone(), ..data.request() };
            request.config.threads = threads;
            let basis = Some(&calibration.basis);
            let job = CellJob { setting, kind: "demo", request, basis, samples: Samples::None };
            let prepared = job.prepare(&clean, &memory, &Ledger::default()).with_context(|| cannot(name))?;
            Ok((number, job, prepared))
        },
        |(number, job, prepared)| {
            let name = &job.request.data;
            watcher.cell(name, number, images.len());
            let observed = job.observe(prepared, &mut watcher).with_context(|| cannot(name))?;
            Ok((job, observed))
        },
        |(job, observed)| {
            let name = job.request.data.clone();
            let cell = job.score(observed, &mut Ledger::default()).with_context(|| cannot(&name))?;
            Ok(Row::new(name, &cell, calibration.estimate(&cell, LEVEL)))
        },
    );
    let rows: Vec<Row> = rows?.into_iter().flatten().collect();
    drop(watcher);
    let page = report::render(&rows, &calibration, LEVEL)?;
    write_atomically(&args.out, page.as_bytes())?;
    print(&rows::to_text(&rows, LEVEL))?;
    let time = duration(started.elapsed());
    print(&format!("\n{time}; report written to {}\n", args.out.display()))?;
    folder.close(args.keep.is_some())
}

/// What one row shows.
struct Shown {
    name: String,
    /// A corruption and its severity, or `clean`.
    shift: String,
    /// Class shares and number of the images, where these are not all.
    sample: Option<(ClassShares, usize)>,
}

/// The clean images, one severity of every corruption of CIFAR-10-C that the model was not calibrated with, and samples such as production has.
fn shown() -> Vec<Shown> {
    let mut unseen = names(CorruptionSet::CifarC);
    unseen.retain(|name| !HELD_OUT.contains(name));
    let shifted = unseen.into_iter().enumerate();
    let shifted = shifted.map(|(i, shift)| format!("{shift}:{}", i % 5 + 1));
    let all = std::iter::once("clean".to_owned()).chain(shifted);
    let mut shown: Vec<Shown> = all.map(|shift| Shown { name: shift.clone(), shift, sample: None }).collect();
    let samples = [
        ("clean", "200 images", ClassShares::Sample, 200),
        ("snow:2", "200 images", ClassShares::Sample, 200),
        ("motion_blur:3", "3 of 10 classes", ClassShares::Subset30, usize::MAX),
        ("fog:2", "long-tailed shares", ClassShares::Zipf, 1000),
    ];
    shown.extend(samples.map(|(shift, what, shares, images)| Shown {
        name: format!("{shift}, {what}"),
        shift: shift.to_owned(),
        sample: Some((shares, images)),
    }));
    shown
}

/// Images of `dataset` with other class shares, or fewer.
fn drawn(dataset: &Arc<dyn Dataset>, classes: usize, shares: ClassShares, images: usize) -> Result<Arc<dyn Dataset>> {
    let mut labels = Vec::new();
    for index in 0..dataset.len() {
        labels.push(dataset.label(index)?.class().context("the demo's images have labels")? as usize);
    }
    let rows = shares.draw(&labels, classes, images.min(dataset.len()), 0)?;
    Ok(Arc::new(Subset::new(dataset.clone(), rows)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::preprocess::{Normalise, Resize};

    #[test]
    fn a_calibration_fits_images_of_another_size_but_not_of_another_scale() {
        let folder = assets::unpack(None).unwrap();
        let model = ModelRequest::new(&folder.weights()).open().unwrap();
        let calibration = Calibration::load(&folder.calibration()).unwrap();
        let data = DataRequest::new(&folder.images()).open(&model).unwrap();
        let mut preprocess = data.preprocess.clone();
        preprocess.resize = Resize::ShortSide(40);
        calibration.check_fits(&model, &preprocess, &data.scope).unwrap();
        preprocess.normalise = Normalise::imagenet();
        let refused = calibration.check_fits(&model, &preprocess, &data.scope);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("the normalisation"), "{text}");
    }
}
