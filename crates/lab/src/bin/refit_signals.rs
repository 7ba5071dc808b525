//! Estimates of both looks from signals that `production_study --signals` wrote: the fits are made again, and no network is needed.
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin refit_signals -- resnet26.cifar100-0.signals.jsonl ... > samples.csv
//! ```
//!
//! Behind `--without-batch-norms` stand files of networks without batch norms, whose second look is not what adapting begins from. A file is called `NETWORK-SEED.signals.jsonl`. One line of CSV for every sample of the test, with the columns of `production_study`.

use flipcast::estimate::{AccuracyFit, AdaptedFit, SignalSample, StepsSample};
use flipcast::run::CellSample;
use flipcast_lab::StudyLine;
use serde_json::Value;
use std::error::Error;
use std::io::Write;
use std::path::Path;

/// A line of a file of signals.
struct Line {
    part: String,
    name: String,
    group: String,
    sample: CellSample,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", StudyLine::HEADER)?;
    let mut begins_from_second = true;
    for path in std::env::args().skip(1) {
        if path == "--without-batch-norms" {
            begins_from_second = false;
            continue;
        }
        let lines = read(Path::new(&path))?;
        // Whole cells have all labelled images of the calibration.
        let known = lines.iter().filter(|line| line.part == "calibration");
        let labelled = known.map(|line| line.sample.signals.images).max().unwrap_or(0);
        let source = AccuracyFit::fit(&calibration(&lines, |sample| sample.accuracy), labelled)?;
        let second = || AccuracyFit::fit_second(&calibration(&lines, |sample| sample.second_accuracy), labelled);
        let second = if begins_from_second { Some(second()?) } else { None };
        // The study takes no step, so that the adapted model is the second look.
        let still = |group: usize| StepsSample { flips: 0.0, gain: 0.0, images: labelled, group: Some(group) };
        let adapted = AdaptedFit::fit(second, &[still(0), still(1)])?;
        let seed =
            seed_of(Path::new(&path)).ok_or_else(|| format!("`{path}` is not called NETWORK-SEED.signals.jsonl"))?;
        for Line { name, sample, .. } in lines.iter().filter(|line| line.part == "test") {
            let (shift, severity) = name.rsplit_once(':').ok_or("a shift without a severity")?;
            let second_accuracy = if begins_from_second { sample.second_accuracy } else { f64::NAN };
            let line = StudyLine {
                seed,
                shift,
                severity: severity.parse()?,
                shares: sample.shares.name(),
                order: "drawn",
                signals: &sample.signals,
                truths: [sample.accuracy, second_accuracy],
                bursts: false,
            };
            writeln!(out, "{}", line.text(&source, &adapted, None))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Line>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let line = |line: &str| -> Result<Line, Box<dyn Error>> {
        let mut value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or("a line without part, name or group");
        let (part, name, group) = (text("part")?, text("name")?, text("group")?);
        Ok(Line { part, name, group, sample: serde_json::from_value(value["sample"].take())? })
    };
    text.lines().map(line).collect()
}

/// The samples of the calibration, with the accuracy of one look.
fn calibration(lines: &[Line], accuracy: impl Fn(&CellSample) -> f64) -> Vec<SignalSample> {
    let mut kinds: Vec<&str> = Vec::new();
    let mut samples = Vec::new();
    for Line { group, sample, .. } in lines.iter().filter(|line| line.part == "calibration") {
        let known = kinds.iter().position(|kind| kind == group);
        let number = known.unwrap_or_else(|| {
            kinds.push(group);
            kinds.len() - 1
        });
        let group = (group != "clean").then_some(number);
        samples.push(SignalSample {
            signals: sample.signals,
            accuracy: accuracy(sample),
            group,
            shares: sample.shares,
        });
    }
    samples
}

/// The split of the images, from the file's name.
fn seed_of(path: &Path) -> Option<u64> {
    let (network, _) = path.file_name()?.to_str()?.split_once(".signals")?;
    network.rsplit_once('-')?.1.parse().ok()
}
