use flipcast_estimate::CurveKind;
use serde::{Deserialize, Serialize};

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
