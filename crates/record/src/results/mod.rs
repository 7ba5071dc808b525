//! What records of each kind hold: the run that writes a record and the report that reads it share these types.
//!
//! | kind of record | result |
//! |---|---|
//! | `estimate` | [`Cell`] |
//! | `estimates` | [`EstimatesResult`] |
//! | `calibration` | [`CalibrationResult`] and more that only an estimate needs |
//! | `refit`, `transfer` | [`Refit`], [`Transfer`] |
//! | `adapt` | [`AdaptSummary`] |
//! | `phases`, `omission`, `flips`, `map`, `toy` | [`Phases`], [`Omission`], [`FlipPoint`], [`EmbeddingMap`], [`Toy`] |

mod adapt;
mod calibration;
mod cell;
mod estimates;
mod flips;
mod map;
mod omission;
mod phases;
mod refit;
mod toy;

pub use adapt::{AdaptSummary, Ending};
pub use calibration::{CalibrationCell, CalibrationResult, Fits};
pub use cell::{Adaptation, Cell, ScoreSummary, Seconds};
pub use estimates::{CellEstimates, Estimates, EstimatesResult};
pub use flips::FlipPoint;
pub use map::{EmbeddingMap, Frame};
pub use omission::{CurvePoint, Omission};
pub use phases::{Checkpoint, PhaseChange, Phases};
pub use refit::{Refit, Transfer};
pub use toy::{Toy, ToyFrame, ToyPanel};
