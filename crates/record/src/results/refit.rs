use flipcast_estimate::CurveKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A curve fitted again from cells that were there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refit {
    /// Which draw of groups it was fitted to; `None` for the calibration cells.
    pub draw: Option<usize>,
    /// Cells it was tested on.
    pub cells: usize,
    /// The score.
    pub estimator: String,
    /// The family of the curve.
    pub curve: CurveKind,
    /// Mean absolute error, every group counting alike.
    pub mae: f64,
    /// Largest absolute error.
    pub worst: f64,
}

/// A curve fitted to one model's cells and tested on another's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The model it was fitted on.
    pub from: String,
    /// The model it was tested on.
    pub to: String,
    /// The score.
    pub estimator: String,
    /// The family of the curve.
    pub curve: CurveKind,
    /// Mean absolute error, every dataset counting alike.
    pub mae: f64,
    /// Largest absolute error.
    pub worst: f64,
    /// Cells it was tested on.
    pub cells: usize,
}

/// Errors of a curve that was fitted to every choice of so many groups, clean cells besides, and tested on the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubsetErrors {
    /// The score.
    pub estimator: String,
    /// The family of the curve.
    pub curve: CurveKind,
    /// Groups it was fitted to.
    pub fitted_to: usize,
    /// Choices of groups.
    pub subsets: usize,
    /// Cells there are.
    pub cells: usize,
    /// Mean over the choices of their mean absolute errors, in which every group counts alike.
    pub mean: f64,
    /// The mean absolute errors of the choices, from the least in steps of a hundredth of the choices to the largest.
    pub percentiles: Vec<f64>,
    /// Mean of the errors of the choices that hold this group.
    pub with_group: BTreeMap<String, f64>,
    /// The choice with the least error.
    pub best: Vec<String>,
    /// The choice with the largest.
    pub worst: Vec<String>,
}
