//! One stream of images, watched as they come: accuracy by windows, alarms, and what a few labels add.
//!
//! A [`Monitor`] takes the outputs of a classifier batch by batch, with the time as an argument, so that the same calls give the
//! same state. It holds no network and no image: whoever has them calls [`Monitor::update`] with the source model's outputs and
//! [`Monitor::look_again`] with those of the second look, which [`BatchLooks`] makes; for a network without batch norms, [`Monitor::add_embeddings`] takes its place.
//! Where estimates gain from an early look, its outputs go to [`Monitor::look_early`]; what an adapted network predicts goes to [`Monitor::look_adapted`].

mod alarm;
mod basis;
mod batch_looks;
mod config;
mod error;
mod judge;
mod labels;
mod merge;
mod report;
mod row;
mod state;
mod watch;
mod window;

pub use alarm::{Alarm, AlarmKind, Evidence};
pub use basis::MonitorBasis;
pub use batch_looks::{BatchLook, BatchLooks};
pub use config::MonitorConfig;
pub use error::MonitorError;
pub use judge::TestReport;
pub use labels::{LabelReport, MonitorQuestion, Verdict};
pub use report::MonitorReport;
pub use state::MonitorState;
pub use watch::Monitor;
pub use window::{ClassShare, Window, WindowAdapted, WindowKind, WindowLabels};

#[cfg(test)]
mod tests;
