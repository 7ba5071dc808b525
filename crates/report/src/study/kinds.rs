//! What records of each kind hold. Fields that are not shown are not read, so that producers may add some.

use super::FittedCurve;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an estimator says; a raw score has no interval.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Guess {
    pub accuracy: f64,
    #[serde(default)]
    pub low: Option<f64>,
    #[serde(default)]
    pub high: Option<f64>,
    #[serde(default)]
    pub flags: Vec<String>,
}

/// `estimates`: every estimator for one dataset.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Estimates {
    #[serde(default)]
    pub cell: Option<String>,
    pub images: usize,
    #[serde(default)]
    pub accuracy: Option<f64>,
    #[serde(default)]
    pub adapted_accuracy: Option<f64>,
    pub source: BTreeMap<String, Guess>,
    #[serde(default)]
    pub adapted: BTreeMap<String, Guess>,
}

/// `estimate` and `calibrate`: raw scores of one dataset.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Cell {
    pub images: usize,
    #[serde(default)]
    pub accuracy: Option<f64>,
    #[serde(default)]
    pub adapted_accuracy: Option<f64>,
    pub source: BTreeMap<String, Score>,
    #[serde(default)]
    pub adapted: BTreeMap<String, Score>,
    #[serde(default)]
    pub flags: Vec<String>,
}

/// A raw score.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Score {
    pub value: f64,
    #[serde(default)]
    pub flags: Vec<String>,
}

/// Raw scores that are accuracies as they stand.
const DIRECT: [&str; 8] = ["ac", "doc", "im", "atc_mc", "atc_ne", "cot", "cott", "aetta"];

impl Cell {
    /// What raw scores say without a calibration.
    pub fn direct(&self, key: &str) -> Estimates {
        let guesses = |scores: &BTreeMap<String, Score>| {
            let direct = scores.iter().filter(|(name, _)| DIRECT.contains(&name.as_str()));
            let guess = |score: &Score| Guess {
                accuracy: score.value,
                low: None,
                high: None,
                flags: score.flags.iter().chain(&self.flags).cloned().collect(),
            };
            direct.map(|(name, score)| (name.clone(), guess(score))).collect()
        };
        Estimates {
            cell: Some(key.to_owned()),
            images: self.images,
            accuracy: self.accuracy,
            adapted_accuracy: self.adapted_accuracy,
            source: guesses(&self.source),
            adapted: guesses(&self.adapted),
        }
    }
}

/// `calibration`: cells of known truth and the curves fitted to them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Calibration {
    pub cells: Vec<CalibrationCell>,
    pub source: Fits,
}

/// One calibration cell.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CalibrationCell {
    pub name: String,
    pub group: String,
    pub cell: Cell,
}

/// The curves of one of the two numbers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fits {
    pub by_score: BTreeMap<String, Fit>,
}

/// One curve.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fit {
    pub curve: FittedCurve,
    pub errors: Errors,
}

/// Errors of a curve on cells it was fitted without.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Errors {
    pub errors: Vec<f64>,
}

/// `refit`: a curve fitted again from cells that were there.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refit {
    pub estimator: String,
    #[serde(default)]
    pub curve: Value,
    pub mae: f64,
    /// Which draw of groups it was fitted to; the calibration cells if there is none.
    #[serde(default)]
    pub draw: Option<usize>,
    /// How many groups were drawn, which stands in the protocol.
    #[serde(skip)]
    pub groups: usize,
    /// What a group is.
    #[serde(skip)]
    pub by: String,
}

/// `transfer`: a curve fitted to one model's cells and tested on another's.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Transfer {
    pub from: String,
    pub estimator: String,
    #[serde(default)]
    pub curve: Value,
    pub mae: f64,
    #[serde(default)]
    pub worst: Option<f64>,
    #[serde(default)]
    pub cells: usize,
}

/// What a curve is called.
pub(crate) fn curve_name(curve: &Value) -> String {
    match curve {
        Value::String(name) => name.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// `phases`: one adaptation run, looked at from time to time.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Phases {
    pub checkpoints: Vec<Checkpoint>,
    #[serde(default)]
    pub phase_1_end: Option<f64>,
}

/// One look.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Checkpoint {
    pub step: f64,
    #[serde(default)]
    pub accuracy: Option<f64>,
    #[serde(default)]
    pub entropy: Option<f64>,
    #[serde(default)]
    pub flips: Option<f64>,
    #[serde(default)]
    pub silhouette: Option<f64>,
    #[serde(default)]
    pub shift_distance: Option<f64>,
}

/// `omission`: an adaptation run without some of its images.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Omission {
    pub images: usize,
    pub dropped: usize,
    #[serde(default)]
    pub dropped_entropy: Option<f64>,
    #[serde(default)]
    pub mean_entropy: Option<f64>,
    pub curve: Vec<OmissionPoint>,
    /// The rule and its value, which stand in the protocol.
    #[serde(skip)]
    pub rule: String,
    #[serde(skip)]
    pub value: Option<f64>,
}

/// Accuracy on the held-out images after some steps.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OmissionPoint {
    pub step: f64,
    #[serde(default)]
    pub accuracy: Option<f64>,
}

impl Omission {
    /// Accuracy at the end minus accuracy at the start.
    pub fn gain(&self) -> Option<f64> {
        Some(self.curve.last()?.accuracy? - self.curve.first()?.accuracy?)
    }

    /// Share of the images left out.
    pub fn share(&self) -> f64 {
        self.dropped as f64 / self.images.max(1) as f64
    }
}

/// `flips`: flips and clusters of one dataset.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Flips {
    #[serde(default)]
    pub silhouette: Option<f64>,
    #[serde(default)]
    pub flips: Option<f64>,
    #[serde(default)]
    pub weighted_flips: Option<f64>,
    #[serde(default)]
    pub accuracy: Option<f64>,
    #[serde(default)]
    pub images: usize,
}

/// `map`: embeddings in the plane while the model adapts.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Map {
    #[serde(default)]
    pub class_names: Vec<String>,
    #[serde(default)]
    pub labels: Vec<Option<usize>>,
    pub frames: Vec<Frame>,
}

/// The map after some steps.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Frame {
    pub step: f64,
    #[serde(default)]
    pub accuracy: Option<f64>,
    pub points: Vec<[f64; 2]>,
    #[serde(default)]
    pub class_means: Vec<Option<[f64; 2]>>,
}

/// `toy`: clusters in the plane under entropy minimisation.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Toy {
    #[serde(default)]
    pub labels: Vec<Option<usize>>,
    pub panels: Vec<Panel>,
}

/// One setting of the toy.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Panel {
    pub name: String,
    #[serde(default)]
    pub title: String,
    pub frames: Vec<ToyFrame>,
}

/// The toy after some rounds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ToyFrame {
    pub round: f64,
    pub points: Vec<[f64; 2]>,
    #[serde(default)]
    pub means: Vec<Option<[f64; 2]>>,
    #[serde(default)]
    pub purity: Option<f64>,
    #[serde(default)]
    pub drift: Option<f64>,
}
