use flipcast_estimate::{ClassShares, Flag, Signals};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One cell: scores of the source and of the adapted model, and the truth where it is known. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Images that were read.
    pub images: usize,
    /// Images that could not be read.
    pub skipped: usize,
    /// Accuracy of the source model, if labels are known.
    pub accuracy: Option<f64>,
    /// Accuracy of the adapted model on the probe, if labels are known.
    pub adapted_accuracy: Option<f64>,
    /// By estimator, for the source model's accuracy.
    pub source: BTreeMap<String, ScoreSummary>,
    /// By estimator, for the adapted model's accuracy.
    pub adapted: BTreeMap<String, ScoreSummary>,
    /// Images of the probe.
    pub probe_images: usize,
    /// What the adaptation did.
    pub adaptation: Adaptation,
    /// Doubts about the images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// What the source model and a second look say together; cells of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<Signals>,
    /// Samples of the images with other class shares and sizes, where they were drawn: for calibration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<CellSample>,
    /// Where the time went.
    pub seconds: Seconds,
}

/// A sample of a cell's images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSample {
    /// How it was drawn.
    pub shares: ClassShares,
    /// What was seen.
    pub signals: Signals,
    /// Accuracy of the source model.
    pub accuracy: f64,
}

/// A score as it is stored: its value and how far chance moves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreSummary {
    /// The value.
    pub value: f64,
    /// Standard error over the images it was taken from, where it is a mean over images.
    pub standard_error: Option<f64>,
    /// Doubts about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

/// Totals over all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptation {
    /// Steps made.
    pub steps: usize,
    /// Images seen, repeats included.
    pub seen: usize,
    /// Of these, images that passed the entropy filter.
    pub reliable: usize,
    /// Of these, images whose loss moved the parameters.
    pub used: usize,
    /// Times the method restored the source parameters.
    pub resets: usize,
}

impl Adaptation {
    /// Share of the images seen that moved the parameters.
    pub fn used_share(&self) -> f64 {
        self.used as f64 / self.seen.max(1) as f64
    }
}

/// Seconds spent on a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// The source model's pass.
    pub source: f64,
    /// Adapting and probing.
    pub flips: f64,
    /// The second look at the images, and at samples of them.
    #[serde(default)]
    pub second_look: f64,
    /// All estimators together.
    pub estimators: f64,
}

impl Seconds {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.source + self.flips + self.second_look + self.estimators
    }
}
