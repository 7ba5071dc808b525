//! One suite for all executors: every case in every mode, forward and backward, against the reference.

mod expectation;
mod report;
mod subject;
mod suite;

pub use report::{Failure, SuiteReport, Worst};
pub use subject::Subject;
pub use suite::{Suite, SuiteTolerance, run_suite};
