//! Adaptation as a run: every batch of a dataset is predicted, and the model follows.
//!
//! Takes an [`AdaptJob`]; gives predictions as they are made, an [`AdaptSummary`], and the affine vector at the end.
//! Labels, where there are any, are compared with the predictions and used for nothing else.

mod affine;
mod arbiter;
mod batches;
mod identity;
mod job;
mod phase_watch;
mod protocol;
mod rows;
mod run;
mod summary;
mod tally;
mod watch;

pub use affine::{AffineError, load_affine, save_affine};
pub use arbiter::Arbiter;
pub use flipcast_record::results::Arbitration;
pub use identity::DataIdentity;
pub use job::{AdaptJob, SourceRule};
pub use protocol::ADAPT_VERSION;
pub use run::{AdaptOutcome, run};
pub use summary::{AdaptSummary, Ending, GuardEvent};
pub use watch::{Flow, Progress, StepWatcher};
