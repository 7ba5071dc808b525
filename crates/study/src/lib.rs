//! Record stage, studies: a plan becomes cells, estimates and refits, kept one by one.
//!
//! A [`Plan`] is a text file that names models, protocols, calibrations and datasets; [`expand`] makes [`Unit`]s of it, one per
//! cell to estimate, and [`run_study`] makes what a folder of records lacks. Guarantees: a unit's key does not depend on where
//! data lie, so that machines agree on it; a [`Shard`] is chosen by model and key; whatever is known is kept at once, so that a run
//! killed at any moment loses at most the cells in flight; no record is made twice by one run.

#![forbid(unsafe_code)]

mod analyse;
mod analysis_entry;
mod data;
mod error;
mod estimates;
mod left_out;
mod missing;
mod plan;
mod progress;
mod protocol_entry;
mod recorded;
mod refit;
mod refit_entry;
mod run;
mod run_model;
mod shard;
mod shifted;
mod status;
pub mod submit;
mod subsets;
mod unit;
mod variables;

pub use analysis_entry::{AnalysisEntry, AnalysisKind};
pub use data::DataRef;
pub use error::StudyError;
pub use flipcast_ground::Shard;
pub use missing::{Missing, find_missing};
pub use plan::{CalibrationEntry, DatasetEntry, ModelEntry, Plan, StudyEntry};
pub use progress::{StudyWatcher, Unseen};
pub use protocol_entry::ProtocolEntry;
pub use refit::{RefitOutcome, run_refits};
pub use refit_entry::{RefitEntry, RefitGroup};
pub use run::{Failure, Outcome, StudyJob, run_study};
pub use shard::shard_units;
pub use status::{Row, read_status};
pub use unit::{ExpandOptions, Unit, expand};
pub use variables::Variables;
