//! What the records say, in the form sections and figures need.

mod estimators;
mod kinds;
mod load;
mod paper;
mod quality;
mod subject;
mod variant;

pub(crate) use estimators::{estimator_label, estimator_order};
pub(crate) use kinds::{Estimates, Guess};
pub use load::Study;
pub(crate) use load::{Entry, natural};
pub(crate) use paper::{PAPER_PHASES, paper_transfer, paper_variant};
pub(crate) use quality::{Quality, Which, estimators_of, quality_of, row_error};
pub(crate) use subject::Subject;
