use super::MonitorError;
use flipcast_estimate::FLIP_BATCH;
use serde::{Deserialize, Serialize};

/// How a stream is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorConfig {
    /// Images of a window by count: a multiple of 64, since batches of 64 share statistics in the second look.
    pub window_images: usize,
    /// Seconds of a window by time.
    pub window_seconds: u64,
    /// Probability with which intervals are meant to hold the accuracy.
    pub level: f64,
    /// Probability of any false alarm in a stream that never changes, however long it is. The three tests share it evenly.
    pub false_alarms: f64,
    /// Raise an alarm when the accuracy is probably below this.
    pub accuracy_line: Option<f64>,
    /// Closed windows of each kind that are kept; older ones are forgotten.
    pub kept_windows: usize,
    /// Seed of ties and samples.
    pub seed: u64,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            window_images: 512,
            window_seconds: 3600,
            level: 0.9,
            false_alarms: 0.01,
            accuracy_line: None,
            kept_windows: 400,
            seed: 0,
        }
    }
}

impl MonitorConfig {
    /// Refuses values outside their range.
    pub fn check(&self) -> Result<(), MonitorError> {
        let refused = |setting, found: String, expected| Err(MonitorError::Setting { setting, found, expected });
        if self.window_images == 0 || !self.window_images.is_multiple_of(FLIP_BATCH) || self.window_images > 16_384 {
            let found = self.window_images.to_string();
            return refused("the number of images of a window", found, "a multiple of 64 from 64 to 16384");
        }
        if self.window_seconds == 0 {
            return refused("the seconds of a window", "0".to_owned(), "at least 1");
        }
        if self.kept_windows == 0 {
            return refused("the number of windows kept", "0".to_owned(), "at least 1");
        }
        let line = self.accuracy_line.unwrap_or(0.5);
        for (setting, found) in [
            ("the level of intervals", self.level),
            ("the probability of a false alarm", self.false_alarms),
            ("the line for the accuracy", line),
        ] {
            if !(found > 0.0 && found < 1.0) {
                return refused(setting, found.to_string(), "a number between 0 and 1");
            }
        }
        Ok(())
    }
}
