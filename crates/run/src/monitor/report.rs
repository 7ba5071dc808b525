//! What a monitor says.

use super::watch::Monitor;
use super::window::{Window, WindowKind};
use super::{Alarm, LabelReport, MonitorError, TestReport};
use serde::Serialize;
use std::collections::VecDeque;

/// What a monitor says now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonitorReport {
    /// Images so far.
    pub images: u64,
    /// When the last image came, in seconds since 1970.
    pub last_time: f64,
    /// Closed windows by count, oldest first.
    pub windows: Vec<Window>,
    /// Closed windows by time, oldest first.
    pub time_windows: Vec<Window>,
    /// The window by count that is still open, as if it ended now.
    pub open: Option<Window>,
    /// Logarithms of the tests' e-values, and where each becomes an alarm.
    pub tests: Vec<TestReport>,
    /// All alarms, oldest first.
    pub alarms: Vec<Alarm>,
    /// What labels say, where there are any.
    pub labels: Option<LabelReport>,
}

impl Monitor {
    /// What it says now.
    ///
    /// # Errors
    /// As [`Monitor::close_windows`].
    pub fn report(&self) -> Result<MonitorReport, MonitorError> {
        let state = &self.state;
        let open = &state.open[0];
        let open = if open.images > 0 {
            Some(self.with_labels(open.close(&self.basis, &state.rows, self.config.level)?)?)
        } else {
            None
        };
        Ok(MonitorReport {
            images: state.images,
            last_time: state.last_time,
            windows: state.closed[0].iter().cloned().collect(),
            time_windows: state.closed[1].iter().cloned().collect(),
            open,
            tests: self.tests(),
            alarms: state.alarms.clone(),
            labels: self.label_report()?,
        })
    }

    /// The last closed window of a kind.
    pub fn last_window(&self, kind: WindowKind) -> Option<&Window> {
        self.closed(kind).back()
    }

    /// Closed windows of a kind from this number on, oldest first.
    pub fn windows_from(&self, kind: WindowKind, number: u64) -> impl Iterator<Item = &Window> {
        self.closed(kind).iter().filter(move |window| window.number >= number)
    }

    fn closed(&self, kind: WindowKind) -> &VecDeque<Window> {
        &self.state.closed[match kind {
            WindowKind::Count => 0,
            WindowKind::Time => 1,
        }]
    }
}
