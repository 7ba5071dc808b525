//! Estimates of both looks from signals that `production_study --signals` wrote: the fits are made again, and no network is needed.
//!
//! ```text
//! cargo run --release -p flipcast-lab --bin refit_signals -- resnet26.cifar100-0.signals.jsonl ... > samples.csv
//! ```
//!
//! One line of CSV for every sample of the test: its file, shift, class shares and number of images; truth, estimate, ends of the 90% interval and flags of the source model, then of the second look.

use flipcast::estimate::{AccuracyFit, AdaptedFit, Estimate, SignalSample, StepsSample};
use flipcast::run::CellSample;
use serde_json::Value;
use std::error::Error;
use std::io::Write;
use std::path::Path;

const LEVEL: f64 = 0.9;

/// A line of a file of signals.
struct Line {
    part: String,
    name: String,
    group: String,
    sample: CellSample,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "file,shift,shares,images,truth,estimate,low,high,flags,second_truth,second_estimate,second_low,second_high,second_flags"
    )?;
    for path in std::env::args().skip(1) {
        let lines = read(Path::new(&path))?;
        // Whole cells have all labelled images of the calibration.
        let known = lines.iter().filter(|line| line.part == "calibration");
        let labelled = known.map(|line| line.sample.signals.images).max().unwrap_or(0);
        let source = AccuracyFit::fit(&calibration(&lines, |sample| sample.accuracy), labelled)?;
        let second = AccuracyFit::fit_second(&calibration(&lines, |sample| sample.second_accuracy), labelled)?;
        // The study takes no step, so that the adapted model is the second look.
        let still = |group: usize| StepsSample { flips: 0.0, gain: 0.0, images: labelled, group: Some(group) };
        let adapted = AdaptedFit::fit(Some(second), &[still(0), still(1)])?;
        let file = Path::new(&path).file_name().and_then(|name| name.to_str()).unwrap_or(&path);
        for Line { name, sample, .. } in lines.iter().filter(|line| line.part == "test") {
            let signals = &sample.signals;
            let estimates = [source.estimate(signals, LEVEL), adapted.start_estimate(&source, signals, LEVEL)];
            let [of_source, of_second] =
                [(sample.accuracy, &estimates[0]), (sample.second_accuracy, &estimates[1])].map(tell);
            writeln!(out, "{file},{name},{},{},{of_source},{of_second}", sample.shares.name(), signals.images)?;
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

fn tell((truth, estimate): (f64, &Estimate)) -> String {
    let flags: Vec<&str> = estimate.flags.iter().map(|flag| flag.name()).collect();
    let Estimate { accuracy, low, high, .. } = estimate;
    format!("{truth:.5},{accuracy:.5},{low:.5},{high:.5},{}", flags.join(" "))
}
