//! What records of each kind hold: the run that writes a record and the report that reads it share these types.
//!
//! | kind of record | result |
//! |---|---|
//! | `estimate` | [`Cell`] |
//! | `estimates` | [`EstimatesResult`] |
//! | `few_labels`, `by_class` | [`FewLabelsResult`], [`ByClassResult`] |
//! | `calibration` | [`CalibrationResult`] and more that only an estimate needs |
//! | `refit`, `transfer`, `subsets` | [`Refit`], [`Transfer`], [`SubsetErrors`] |
//! | `adapt` | [`AdaptSummary`] |
//! | `advice` | [`AdviceResult`] |
//! | `phases`, `omission`, `flips`, `map`, `toy` | [`Phases`], [`Omission`], [`FlipPoint`], [`EmbeddingMap`], [`Toy`] |

mod adapt;
mod advice;
mod by_class;
mod calibration;
mod cell;
mod estimates;
mod few_labels;
mod flips;
mod map;
mod omission;
mod phases;
mod refit;
mod toy;

pub use adapt::{AdaptSummary, Arbitration, Ending};
pub use advice::{ADVICE_FORMAT, Advice, AdviceResult, AdvisedMethod, Phase, TriedCandidate};
pub use by_class::ByClassResult;
pub use calibration::{CalibrationCell, CalibrationResult, Fits};
pub use cell::{Adaptation, Cell, CellSample, ScoreSummary, Seconds, Steps};
pub use estimates::{CellEstimates, Estimates, EstimatesResult};
pub use few_labels::FewLabelsResult;
pub use flips::FlipPoint;
pub use map::{EmbeddingMap, Frame};
pub use omission::{CurvePoint, Omission};
pub use phases::{Checkpoint, PhaseChange, Phases};
pub use refit::{Refit, SubsetErrors, Transfer};
pub use toy::{Toy, ToyFrame, ToyPanel};
