//! What an adapted model gains over the source model, without labels.

mod arbiter;
mod fit;
mod signals;
mod tally;

pub use arbiter::{ArbiterFit, Dispute, DisputeTally, Disputes};
pub use fit::{GainFit, GainSample};
pub use signals::{GainSignals, Lineup};
pub use tally::GainTally;
