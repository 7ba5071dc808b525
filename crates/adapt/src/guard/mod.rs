//! Label-free watch over an adapting model: has it stopped telling classes apart?

mod class_means;
mod config;
mod diversity;
mod report;
mod watch;
mod window;

#[cfg(test)]
mod tests;

pub use class_means::{ClassMeans, DriftMeter};
pub use config::{GuardAction, GuardConfig};
pub use report::{GuardReason, GuardReport, GuardState};
pub use watch::{Guard, Observation};
