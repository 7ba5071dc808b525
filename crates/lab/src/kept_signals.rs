use flipcast::estimate::{AccuracyFit, AdaptedFit, SignalSample, StepsSample};
use flipcast::run::CellSample;
use serde_json::Value;
use std::error::Error;
use std::path::Path;

/// Signals and truths that `production_study --signals` wrote, from which fits are made without a network.
pub struct KeptSignals {
    /// The lines: samples of the calibration, then of the test.
    pub lines: Vec<KeptSample>,
    /// The split of the images, from the file's name.
    pub seed: u64,
}

/// A line of such a file.
pub struct KeptSample {
    /// `calibration` or `test`.
    pub part: String,
    /// The shift, with its severity.
    pub name: String,
    /// The kind of shift.
    pub group: String,
    /// What was seen, and what is true.
    pub sample: CellSample,
}

impl KeptSignals {
    /// Reads a file that is called `NETWORK-SEED.signals.jsonl`.
    pub fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let seed =
            seed_of(path).ok_or_else(|| format!("`{}` is not called NETWORK-SEED.signals.jsonl", path.display()))?;
        let text = std::fs::read_to_string(path).map_err(|error| format!("`{}`: {error}", path.display()))?;
        Ok(Self { lines: text.lines().map(read_line).collect::<Result<_, _>>()?, seed })
    }

    /// Samples of the test.
    pub fn test(&self) -> impl Iterator<Item = &KeptSample> {
        self.lines.iter().filter(|line| line.part == "test")
    }

    /// What a calibration would have fitted: to the source model's accuracy, and to that of the second look where adapting begins from it.
    pub fn fits(&self, begins_from_second: bool) -> Result<(AccuracyFit, AdaptedFit), Box<dyn Error>> {
        // Whole cells have all labelled images of the calibration.
        let labelled = self.calibration().map(|line| line.sample.signals.images).max().unwrap_or(0);
        let source = AccuracyFit::fit(&self.samples(|sample| sample.accuracy), labelled)?;
        let second = || AccuracyFit::fit_second(&self.samples(|sample| sample.second_accuracy), labelled);
        let second = if begins_from_second { Some(second()?) } else { None };
        // The study takes no step, so that the adapted model is the second look.
        let still = |group: usize| StepsSample { flips: 0.0, gain: 0.0, images: labelled, group: Some(group) };
        Ok((source, AdaptedFit::fit(second, &[still(0), still(1)])?))
    }

    fn calibration(&self) -> impl Iterator<Item = &KeptSample> {
        self.lines.iter().filter(|line| line.part == "calibration")
    }

    /// The samples of the calibration, with the accuracy of one look.
    fn samples(&self, accuracy: impl Fn(&CellSample) -> f64) -> Vec<SignalSample> {
        let mut kinds: Vec<&str> = Vec::new();
        let mut samples = Vec::new();
        for KeptSample { group, sample, .. } in self.calibration() {
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
}

fn read_line(line: &str) -> Result<KeptSample, Box<dyn Error>> {
    let mut value: Value = serde_json::from_str(line)?;
    let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or("a line without part, name or group");
    let (part, name, group) = (text("part")?, text("name")?, text("group")?);
    Ok(KeptSample { part, name, group, sample: serde_json::from_value(value["sample"].take())? })
}

/// The split of the images, from the file's name.
fn seed_of(path: &Path) -> Option<u64> {
    let (network, _) = path.file_name()?.to_str()?.split_once(".signals")?;
    network.rsplit_once('-')?.1.parse().ok()
}
