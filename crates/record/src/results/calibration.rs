use super::Cell;
use flipcast_estimate::{Combination, ErrorModel, ScoreFit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A calibration cell: what was done to the images, and what was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationCell {
    /// `clean`, or corruption and severity.
    pub name: String,
    /// The corruption; cells of one group are left out together.
    pub group: String,
    /// What was seen.
    pub cell: Cell,
}

/// Fits for one of the two numbers: the source model's accuracy, or the adapted model's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fits {
    /// By score.
    pub by_score: BTreeMap<String, ScoreFit>,
    /// Errors of the scores that are accuracies as they stand.
    pub direct: BTreeMap<String, ErrorModel>,
    /// The combined estimate.
    pub combined: Combination,
}

/// The part of a stored calibration that tells what was learned: the cells and the curves fitted to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationResult {
    /// The cells.
    pub cells: Vec<CalibrationCell>,
    /// For the source model's accuracy.
    pub source: Fits,
    /// For the adapted model's accuracy.
    pub adapted: Fits,
}
