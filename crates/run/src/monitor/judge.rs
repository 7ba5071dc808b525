//! What raises alarms: tests that may be looked at all the time, and windows in a row.

use super::watch::Monitor;
use super::window::{Arrival, Window};
use super::{Alarm, AlarmKind, Evidence, MonitorState};
use flipcast_estimate::FLIP_BATCH;
use flipcast_ground::{SplitMix64, percent};
use serde::Serialize;

/// Tests that share the probability of a false alarm.
const TESTS: f64 = 3.0;
/// Windows in a row below the line before there is an alarm.
const LOW_WINDOWS: u32 = 3;
/// Windows in a row in which adapting loses before there is an alarm.
const HARMED_WINDOWS: u32 = 2;
/// Images that an alarm names.
const NAMED_IMAGES: usize = 8;
/// Recent images among which those are looked for.
const RECENT_IMAGES: u64 = 64;

/// Where a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestReport {
    /// The alarm it raises.
    pub kind: AlarmKind,
    /// Logarithm of its e-value.
    pub log_e_value: f64,
    /// Where that becomes an alarm.
    pub line: f64,
}

impl Monitor {
    /// Where the tests stand.
    pub fn tests(&self) -> Vec<TestReport> {
        let state = &self.state;
        let mut tests = vec![
            (AlarmKind::CovariateShift, state.entropy.log_e_value()),
            (AlarmKind::ClassShares, state.classes.log_e_value()),
        ];
        tests.extend(state.flips.as_ref().map(|test| (AlarmKind::Flips, test.log_e_value())));
        let report = |(kind, log_e_value)| TestReport { kind, log_e_value, line: self.line() };
        tests.into_iter().map(report).collect()
    }

    /// All alarms, oldest first.
    pub fn alarms(&self) -> &[Alarm] {
        &self.state.alarms
    }

    /// Whether an alarm of this kind stands.
    pub fn is_active(&self, kind: AlarmKind) -> bool {
        self.state.alarms.iter().any(|alarm| alarm.active && alarm.kind == kind)
    }

    /// Takes back all alarms: tests begin again with the calibration's images as all they know.
    pub fn reset(&mut self) {
        let fresh = MonitorState::new(&self.basis);
        let state = &mut self.state;
        state.alarms.iter_mut().for_each(|alarm| alarm.active = false);
        (state.entropy, state.flips, state.classes) = (fresh.entropy, fresh.flips, fresh.classes);
        (state.low_windows, state.harmed_windows, state.sequence) = (0, 0, None);
    }

    /// Tests that go on after every image. A test whose alarm stands rests, so that shifted images do not become usual ones.
    pub(super) fn test(&mut self, arrival: &Arrival) {
        let ties = [0, 1].map(|which| self.random(arrival.image, which));
        let line = self.line();
        let class = arrival.class as usize;
        if !self.is_active(AlarmKind::CovariateShift) {
            let (group, bin) = self.basis.shift.place(class, arrival.entropy);
            self.state.entropy.update(group, bin, ties[0]);
            let log_e_value = self.state.entropy.log_e_value();
            if log_e_value >= line {
                let text = "the model's certainty within classes is no longer that of earlier images".to_owned();
                self.raise(AlarmKind::CovariateShift, Evidence::Test { log_e_value, line }, text);
            }
        }
        if !self.is_active(AlarmKind::ClassShares) {
            self.state.classes.update(class, ties[1]);
            let log_e_value = self.state.classes.log_e_value();
            if log_e_value >= line {
                let moved = self.state.classes.most_moved().map(|(class, before, now)| {
                    let (name, before, now) = (self.basis.class_name(class), percent(before, 1), percent(now, 1));
                    format!("; class {name} came in {before}% of images before and comes in {now}% now")
                });
                let text = format!("classes are predicted in other shares than before{}", moved.unwrap_or_default());
                self.raise(AlarmKind::ClassShares, Evidence::Test { log_e_value, line }, text);
            }
        }
    }

    /// The test of flips, after a whole batch that begins with `image`.
    pub(super) fn test_flips(&mut self, image: u64, flips: usize) {
        if self.is_active(AlarmKind::Flips) {
            return;
        }
        let (tie, line) = (self.random(image, 2), self.line());
        let Some(test) = &mut self.state.flips else { return };
        test.update(0, flips, tie);
        let log_e_value = test.log_e_value();
        if log_e_value >= line {
            let mut text = format!(
                "{flips} of the last {FLIP_BATCH} predictions changed under the statistics of their batch, unlike before"
            );
            if self.is_active(AlarmKind::ClassShares) && !self.is_active(AlarmKind::CovariateShift) {
                text += "; other shares of classes, which were noticed before, change these statistics too";
            }
            self.raise(AlarmKind::Flips, Evidence::Test { log_e_value, line }, text);
        }
    }

    /// Whether a window's interval lies below the line, and for how long that has been so.
    pub(super) fn judge(&mut self, window: &Window) {
        let (Some(line), Some(estimate)) = (self.config.accuracy_line, window.best()) else { return };
        self.state.low_windows = if estimate.high < line { self.state.low_windows + 1 } else { 0 };
        if self.state.low_windows >= LOW_WINDOWS && !self.is_active(AlarmKind::AccuracyBelow) {
            let text = format!(
                "{LOW_WINDOWS} windows in a row have intervals below {}%; the last says {}% ({}% to {}%)",
                percent(line, 1),
                percent(estimate.accuracy, 1),
                percent(estimate.low, 1),
                percent(estimate.high, 1)
            );
            self.raise(AlarmKind::AccuracyBelow, Evidence::Accuracy { high: estimate.high, line }, text);
        }
    }

    /// Whether the adapted network is right less often than the source model, and for how long that has been so.
    pub(super) fn judge_adapted(&mut self, window: &Window) {
        let Some(adapted) = &window.adapted else { return };
        self.state.harmed_windows = if adapted.high < 0.0 { self.state.harmed_windows + 1 } else { 0 };
        if self.state.harmed_windows >= HARMED_WINDOWS && !self.is_active(AlarmKind::AdaptationHarms) {
            let text = format!(
                "in {HARMED_WINDOWS} windows in a row the adapted network is right less often than the source model; in the last by {} points ({} to {})",
                percent(-adapted.gain, 1),
                percent(-adapted.high, 1),
                percent(-adapted.low, 1)
            );
            self.raise(AlarmKind::AdaptationHarms, Evidence::Gain { high: adapted.high }, text);
        }
    }

    pub(super) fn raise(&mut self, kind: AlarmKind, evidence: Evidence, text: String) {
        let images = if kind == AlarmKind::LabelledAccuracyBelow { Vec::new() } else { self.least_sure() };
        let (time, image) = (self.state.last_time, self.state.images.saturating_sub(1));
        self.state.alarms.push(Alarm { kind, time, image, evidence, text, images, active: true });
    }

    /// Recent images that the model was least sure about.
    fn least_sure(&self) -> Vec<u64> {
        let recent = self.state.rows.range(self.state.images.saturating_sub(RECENT_IMAGES)..);
        let mut log_probs = Vec::new();
        let mut by_doubt: Vec<(f64, u64)> = recent
            .map(|(image, row)| {
                flipcast_ground::log_softmax(&row.source.0, &mut log_probs);
                (log_probs.iter().copied().fold(f64::NEG_INFINITY, f64::max), *image)
            })
            .collect();
        by_doubt.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        by_doubt.into_iter().take(NAMED_IMAGES).map(|(_, image)| image).collect()
    }

    /// Where the logarithm of an e-value becomes an alarm.
    fn line(&self) -> f64 {
        (TESTS / self.config.false_alarms).ln()
    }

    /// A random number from 0 to 1, of which every image has several.
    fn random(&self, image: u64, which: u64) -> f64 {
        SplitMix64::new(self.key(image).wrapping_add(1 + which)).uniform()
    }
}
