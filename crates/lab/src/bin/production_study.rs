//! How estimates do on data like production's: other class shares, fewer images, corruptions no calibration saw.
//!
//! A random half of labelled images calibrates; the other half, clean and corrupted, is sampled with seven kinds of class shares and six
//! sizes. One line of CSV for every sample, on standard output:
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin production_study -- \
//!     --weights resnet26.cifar100.safetensors --data cifar100_test.tar --bar cifar-c-bar --seed 0 > samples.csv
//! ```
//!
//! `--device cuda` uses the first GPU (`tf32`), `--architecture` names the network where the file does not. `--limit N` takes so many images in all, `--severities 3,5` these severities,
//! `--samples few` one size for each kind of class shares, as calibrations draw them, `--sizes 10,20` samples of so many images. `--signals FILE` writes every sample's signals and truths as JSON lines, those of the calibration first;
//! `order_study` takes them.

use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::estimate::ClassShares;
use flipcast::images::dataset::Subset;
use flipcast::run::{CellSample, HELD_OUT, corrupted};
use flipcast::{CalibrationJob, CellRequest, Dataset, FlipProtocol, Ledger, Setting, Unwatched, calibrate};
use flipcast_ground::SplitMix64;
use flipcast_lab::{StudyArguments, StudyLine};
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

const SIZES: [usize; 6] = [50, 100, 200, 300, 1000, usize::MAX];
const SEVERITIES: [u8; 3] = [1, 3, 5];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let StudyArguments { model, opened, bar, seed, device } = StudyArguments::open(&arguments)?;
    let mut order: Vec<usize> = (0..opened.dataset.len()).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    let option = |name| StudyArguments::option(&arguments, name);
    if let Some(limit) = option("--limit") {
        order.truncate(limit.parse()?);
    }
    let severities: Vec<u8> = match option("--severities") {
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => SEVERITIES.to_vec(),
    };
    let few = option("--samples") == Some("few");
    let sizes: Vec<usize> = match option("--sizes") {
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => SIZES.to_vec(),
    };
    let half = |indices: &[usize]| -> Result<Arc<dyn Dataset>, Box<dyn Error>> {
        let mut indices = indices.to_vec();
        indices.sort_unstable();
        Ok(Arc::new(Subset::new(opened.dataset.clone(), indices)?))
    };
    let (first, second) = order.split_at(order.len() / 2);

    // Flips are not part of what is studied, so that nothing adapts.
    let name = if model.graph().has_batch_norm() { "statistics" } else { "flipcast" };
    let protocol = FlipProtocol { seed, ..FlipProtocol::for_network(name, model.graph())? };
    let setting = || Setting { model: &model, protocol: &protocol, device };
    let memory_limit = 8 << 30;
    let clean = CellRequest { dataset: half(first)?, memory_limit, ..opened.request() };
    let job = CalibrationJob::new(setting(), clean);
    let calibration = calibrate(&job, &mut Ledger::default(), &mut Unwatched)?;
    let fit = calibration.accuracy.as_ref().ok_or("too few images to calibrate with")?;
    let adapted_fit = calibration.adapted_accuracy.as_ref().ok_or("the second look's accuracy cannot be fitted")?;
    eprintln!("calibrated, {:?} off on samples of unseen kinds", fit.errors().mae(0));
    // Nothing adapts, so that the adapted model is the second look. Without batch norms it is not, and its truth is not known here.
    let begins_from_second = adapted_fit.begins_from_second_look();
    let mut signals_file = match option("--signals") {
        Some(path) => Some(std::io::BufWriter::new(std::fs::File::create(path)?)),
        None => None,
    };
    let mut keep = |part: &str, name: &str, group: &str, sample: &CellSample| -> Result<(), Box<dyn Error>> {
        if let Some(file) = &mut signals_file {
            let line = serde_json::json!({"part": part, "name": name, "group": group, "sample": sample});
            writeln!(file, "{line}")?;
            file.flush()?;
        }
        Ok(())
    };
    for cell in &calibration.cells {
        let seen = &cell.cell;
        if let (Some(signals), Some(accuracy), Some(second_accuracy)) =
            (seen.signals, seen.accuracy, seen.second_accuracy)
        {
            let whole = CellSample { shares: ClassShares::Sample, signals, accuracy, second_accuracy };
            keep("calibration", &cell.name, &cell.group, &whole)?;
        }
        for sample in &seen.samples {
            keep("calibration", &cell.name, &cell.group, sample)?;
        }
    }

    let mut shifts = vec![("clean".to_owned(), 0, None)];
    for (set, prefix) in [(CorruptionSet::ImageNetC, String::new()), (bar, format!("{bar}/"))] {
        for name in names(set).into_iter().filter(|name| !HELD_OUT.contains(name)) {
            let at = |severity: u8| {
                let shift = format!("{prefix}{name}");
                let spec = format!("{shift}:{severity}");
                (shift, severity, Some(spec))
            };
            shifts.extend(severities.iter().map(|&severity| at(severity)));
        }
    }
    let all: Vec<(ClassShares, usize)> =
        ClassShares::ALL.into_iter().flat_map(|shares| sizes.iter().map(move |&size| (shares, size))).collect();
    let test = CellRequest { dataset: half(second)?, memory_limit, ..opened.request() };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", StudyLine::HEADER)?;
    for (number, (shift, severity, spec)) in shifts.into_iter().enumerate() {
        let plan: Vec<(ClassShares, usize)> = match few {
            // Sizes in turn, beginning at another one for every shift.
            true => ClassShares::ALL
                .into_iter()
                .enumerate()
                .map(|(at, shares)| (shares, sizes[(at + number) % sizes.len()]))
                .collect(),
            false => all.clone(),
        };
        let shifted = |dataset: Arc<dyn Dataset>| -> Result<CellRequest, Box<dyn Error>> {
            let request = CellRequest { dataset, config: test.config.clone(), data: shift.clone(), ..test };
            Ok(match &spec {
                Some(spec) => corrupted(&request, spec)?,
                None => request,
            })
        };
        let request = shifted(test.dataset.clone())?;
        for sample in setting().samples(&request, &calibration.basis, &plan, &mut Unwatched)? {
            let truths = [sample.accuracy, if begins_from_second { sample.second_accuracy } else { f64::NAN }];
            keep("test", &format!("{shift}:{severity}"), &shift, &sample)?;
            let line = StudyLine {
                seed,
                shift: &shift,
                severity,
                shares: sample.shares.name(),
                order: "drawn",
                signals: &sample.signals,
                truths,
                bursts: false,
            };
            writeln!(out, "{}", line.text(fit, adapted_fit))?;
        }
        eprintln!("{shift}:{severity}");
    }
    Ok(())
}
