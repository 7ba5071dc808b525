use super::row::{Logits, Row};
use super::window::{Arrival, OpenWindow, Window, WindowKind};
use super::{Alarm, AlarmKind, Evidence, LabelReport, MonitorBasis, MonitorConfig, MonitorError, MonitorState};
use flipcast_estimate::{FLIP_BATCH, GainTally, Outputs};
use flipcast_ground::{SplitMix64, argmax, percent};
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;

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
/// Closed windows whose images can be asked about.
pub(super) const ASKABLE_WINDOWS: usize = 2;

/// Watches one stream of images.
///
/// ```
/// use flipcast_estimate::Outputs;
/// use flipcast_run::monitor::{Monitor, MonitorBasis, MonitorConfig};
/// use flipcast_run::{LabelledOutputs, OutputsCalibration, ScoreOptions, Unwatched};
/// use std::sync::Arc;
///
/// // A classifier of three classes that is right less often the larger `noise` is.
/// let outputs = |noise: f32, seed: usize| {
///     let logit = |i: usize, k: usize| {
///         let bits = ((i * 3 + k + 1) * (2 * seed + 7919)) % 1009;
///         (if i % 3 == k { 2.0 } else { 0.0 }) + noise * (bits as f32 / 1009.0 - 0.5)
///     };
///     Outputs::new((0..600).flat_map(|i| (0..3).map(move |k| logit(i, k))).collect(), 3)
/// };
/// let labels: Vec<usize> = (0..600).map(|i| i % 3).collect();
/// let clean = LabelledOutputs::clean(outputs(3.0, 1)?, labels.clone())?;
/// let mut shifted = Vec::new();
/// for (i, noise) in [4.0, 5.0, 6.0, 7.0].into_iter().enumerate() {
///     shifted.push(LabelledOutputs::shifted(&format!("noise_{i}:1"), outputs(noise, 2 + i)?, labels.clone())?);
/// }
/// let calibration = OutputsCalibration::fit(&clean, &shifted, ScoreOptions::default(), 0, &mut Unwatched)?;
///
/// let basis = Arc::new(MonitorBasis::from_outputs(&calibration)?);
/// let mut monitor = Monitor::new(basis, MonitorConfig::default())?;
/// monitor.update(&outputs(3.0, 9)?, 1_700_000_000.0)?;
/// let report = monitor.report()?;
/// assert_eq!((report.images, report.windows.len()), (600, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Monitor {
    pub(super) basis: Arc<MonitorBasis>,
    pub(super) config: MonitorConfig,
    pub(super) state: MonitorState,
}

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
    /// A monitor of a stream that has not begun.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn new(basis: Arc<MonitorBasis>, config: MonitorConfig) -> Result<Self, MonitorError> {
        config.check()?;
        let state = MonitorState::new(&basis);
        Ok(Self { basis, config, state })
    }

    /// Goes on where a monitor of the same classifier stopped.
    ///
    /// # Errors
    /// When the state does not belong to the classifier.
    pub fn resume(basis: Arc<MonitorBasis>, config: MonitorConfig, state: MonitorState) -> Result<Self, MonitorError> {
        config.check()?;
        state.check(&basis, &config)?;
        Ok(Self { basis, config, state })
    }

    /// The state as text, for [`Monitor::load`].
    pub fn save(&self) -> Result<String, MonitorError> {
        Ok(serde_json::to_string(&self.state)?)
    }

    /// [`Monitor::resume`] from what [`Monitor::save`] gave.
    ///
    /// # Errors
    /// When the text is no such state, or one that does not belong to the classifier.
    pub fn load(basis: Arc<MonitorBasis>, config: MonitorConfig, text: &str) -> Result<Self, MonitorError> {
        Self::resume(basis, config, serde_json::from_str(text)?)
    }

    /// What it knows.
    pub fn state(&self) -> &MonitorState {
        &self.state
    }

    /// How it watches.
    pub fn config(&self) -> &MonitorConfig {
        &self.config
    }

    /// Takes the source model's outputs for images that came at `time`, in seconds since 1970; a time before that of the last image counts
    /// as that one. Gives the numbers of the images.
    ///
    /// # Errors
    /// When the outputs have another number of classes, or the time is no number.
    pub fn update(&mut self, outputs: &Outputs, time: f64) -> Result<Range<u64>, MonitorError> {
        let (found, expected) = (outputs.classes(), self.basis.classes());
        if found != expected {
            return Err(MonitorError::Classes { found, expected });
        }
        if !time.is_finite() {
            let (setting, expected) = ("the time", "seconds since 1970");
            return Err(MonitorError::Setting { setting, found: time.to_string(), expected });
        }
        let first = self.state.images;
        let warm = outputs.scaled(self.basis.temperature);
        let seen = warm.classes_predicted().into_iter().zip(warm.confidences()).zip(warm.entropies());
        for (((class, confidence), entropy), logits) in seen.zip(outputs.rows()) {
            self.close_windows(time)?;
            let image = self.state.images;
            let time = time.max(self.state.last_time);
            let arrival = Arrival { image, key: self.key(image), time, class: class as u32, confidence, entropy };
            self.add(&arrival, logits);
            self.test(&arrival);
        }
        Ok(first..self.state.images)
    }

    /// Takes the outputs of the second look at `images`: under the statistics of their batch, in the order of the numbers given.
    /// Images of windows that are closed no longer count.
    ///
    /// # Errors
    /// When there is not one row of outputs per image, or it has another number of classes.
    pub fn look_again(&mut self, images: &[u64], outputs: &Outputs) -> Result<(), MonitorError> {
        self.check_rows(images, outputs)?;
        let (mut known, mut flips) = (0, 0);
        for (image, logits) in images.iter().zip(outputs.rows()) {
            let Some(row) = self.state.rows.get_mut(image).filter(|row| row.second.is_none()) else { continue };
            let flipped = argmax(&row.source.0) != argmax(logits);
            row.second = Some(Logits(logits.to_vec()));
            known += 1;
            flips += usize::from(flipped);
            self.state.open.iter_mut().filter(|window| window.holds(*image)).for_each(|w| w.look_again(flipped));
        }
        if known == FLIP_BATCH && !self.is_active(AlarmKind::Flips) {
            let tie = self.random(*images.first().unwrap_or(&0), 2);
            let line = self.line();
            if let Some(test) = &mut self.state.flips {
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
        }
        Ok(())
    }

    /// Refuses outputs that are not one row per image.
    fn check_rows(&self, images: &[u64], outputs: &Outputs) -> Result<(), MonitorError> {
        let (found, expected) = (outputs.classes(), self.basis.classes());
        if found != expected {
            return Err(MonitorError::Classes { found, expected });
        }
        let (found, expected) = (outputs.images(), images.len());
        if found != expected {
            return Err(MonitorError::SecondLook { found, expected });
        }
        Ok(())
    }

    /// Takes the sum of the embeddings of the last `images` images, which came since a window last ended: the second look at a network without batch norms.
    ///
    /// # Errors
    /// When an embedding has another number of values than the calibration's, or none is needed.
    pub fn add_embeddings(&mut self, images: u64, sum: &[f32]) -> Result<(), MonitorError> {
        let (found, expected) = (sum.len(), self.basis.embedding_dims().unwrap_or(0));
        if found != expected || expected == 0 {
            return Err(MonitorError::Embedding { found, expected });
        }
        // A mean with values that are no numbers says nothing of the others.
        if sum.iter().any(|value| !value.is_finite()) {
            return Ok(());
        }
        self.state.open.iter_mut().filter(|window| window.images > 0).for_each(|w| w.add_embeddings(images, sum));
        Ok(())
    }

    /// Takes what the adapted network predicted for `images`, which are a batch of the last window by count. Where the calibration does not know what adapting gains, or
    /// one of the images is forgotten, nothing follows from it.
    ///
    /// # Errors
    /// When there is not one row of outputs per image, or it has another number of classes.
    pub fn look_adapted(&mut self, images: &[u64], outputs: &Outputs) -> Result<(), MonitorError> {
        self.check_rows(images, outputs)?;
        if self.basis.gain.is_none() {
            return Ok(());
        }
        let rows: Option<Vec<&Row>> = images.iter().map(|image| self.state.rows.get(image)).collect();
        let Some(rows) = rows else { return Ok(()) };
        let source = rows.iter().flat_map(|row| row.source.0.iter().copied()).collect();
        let source = Outputs::new(source, self.basis.classes())?.scaled(self.basis.temperature);
        let mut batch = GainTally::default();
        batch.add_batch(&source, &outputs.scaled(self.basis.temperature))?;
        self.state.open.iter_mut().filter(|window| window.images > 0).for_each(|w| w.look_adapted(&batch));
        Ok(())
    }

    /// Closes windows that end before `time`. Calling it or not changes nothing but when they are seen to be closed.
    ///
    /// # Errors
    /// When an estimator fails, which stored states that were tampered with can lead to.
    pub fn close_windows(&mut self, time: f64) -> Result<(), MonitorError> {
        let (seconds, images) = (self.config.window_seconds as f64, self.config.window_images as u64);
        let ends = |window: &OpenWindow| match window.kind {
            WindowKind::Count => window.images >= images,
            WindowKind::Time => (window.started / seconds).floor() < (time / seconds).floor(),
        };
        for place in 0..2 {
            if self.state.open[place].images > 0 && ends(&self.state.open[place]) {
                self.close(place)?;
            }
        }
        Ok(())
    }

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

    /// The last closed window of a kind.
    pub fn last_window(&self, kind: WindowKind) -> Option<&Window> {
        self.closed(kind).back()
    }

    /// Closed windows of a kind from this number on, oldest first.
    pub fn windows_from(&self, kind: WindowKind, number: u64) -> impl Iterator<Item = &Window> {
        self.closed(kind).iter().filter(move |window| window.number >= number)
    }

    /// All alarms, oldest first.
    pub fn alarms(&self) -> &[Alarm] {
        &self.state.alarms
    }

    /// Takes back all alarms: tests begin again with the calibration's images as all they know.
    pub fn reset(&mut self) {
        let fresh = MonitorState::new(&self.basis);
        let state = &mut self.state;
        state.alarms.iter_mut().for_each(|alarm| alarm.active = false);
        (state.entropy, state.flips, state.classes) = (fresh.entropy, fresh.flips, fresh.classes);
        (state.low_windows, state.harmed_windows, state.sequence) = (0, 0, None);
    }

    /// Joins a monitor of the same classifier that watched other images: evidence is averaged, sums are added, samples are drawn from both.
    /// Images of the other are numbered after its own.
    ///
    /// # Errors
    /// When the other watches another classifier.
    pub fn merge(&mut self, other: &Self) -> Result<(), MonitorError> {
        other.state.check(&self.basis, &self.config)?;
        let (state, theirs) = (&mut self.state, &other.state);
        let offset = state.images;
        let shift = &self.basis.shift;
        shift.merge_entropy(&mut state.entropy, &theirs.entropy);
        shift.merge_classes(&mut state.classes, &theirs.classes);
        if let (Some(own), Some(other)) = (&mut state.flips, &theirs.flips) {
            shift.merge_flips(own, other);
        }
        state.rows.extend(theirs.rows.iter().map(|(image, row)| (image + offset, row.clone())));
        for (own, other) in state.open.iter_mut().zip(&theirs.open) {
            own.merge(other, offset, self.config.window_images);
        }
        for (own, other) in state.closed.iter_mut().zip(&theirs.closed) {
            own.extend(other.iter().cloned().map(|mut window| {
                window.first_image += offset;
                window.seen.iter_mut().for_each(|seen| seen.image += offset);
                window
            }));
            own.make_contiguous().sort_by(|a, b| a.ended.total_cmp(&b.ended));
            own.iter_mut().enumerate().for_each(|(number, window)| window.number = number as u64);
        }
        for (open, closed) in state.open.iter_mut().zip(&state.closed) {
            open.number = closed.len() as u64;
        }
        state.alarms.extend(theirs.alarms.iter().cloned().map(|mut alarm| {
            alarm.image += offset;
            alarm.images.iter_mut().for_each(|image| *image += offset);
            alarm
        }));
        state.alarms.sort_by(|a, b| a.time.total_cmp(&b.time));
        state.asked.extend(theirs.asked.iter().map(|(image, answer)| (image + offset, *answer)));
        state.predicted.extend(theirs.predicted.iter().map(|(image, class)| (image + offset, *class)));
        state.images += theirs.images;
        state.last_time = state.last_time.max(theirs.last_time);
        (state.low_windows, state.harmed_windows) = (0, 0);
        // What was labelled on two streams in turn has no common order; it counts in estimates, and the sequence begins again.
        state.sequence = None;
        self.drop_rows();
        Ok(())
    }

    fn add(&mut self, arrival: &Arrival, logits: &[f32]) {
        let state = &mut self.state;
        state.rows.insert(arrival.image, Row { source: Logits(logits.to_vec()), second: None });
        state.images += 1;
        state.last_time = arrival.time;
        let mut left_out = Vec::new();
        for window in &mut state.open {
            left_out.extend(window.add(arrival, self.config.window_images));
        }
        for image in left_out {
            let key = self.key(image);
            if !self.state.open.iter().any(|window| window.is_sampled(key, image)) {
                self.state.rows.remove(&image);
            }
        }
    }

    /// Tests that go on after every image. A test whose alarm stands rests, so that shifted images do not become usual ones.
    fn test(&mut self, arrival: &Arrival) {
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
                    format!(
                        "; class {class} came in {}% of images before and comes in {}% now",
                        percent(before, 1),
                        percent(now, 1)
                    )
                });
                let text = format!("classes are predicted in other shares than before{}", moved.unwrap_or_default());
                self.raise(AlarmKind::ClassShares, Evidence::Test { log_e_value, line }, text);
            }
        }
    }

    fn close(&mut self, place: usize) -> Result<(), MonitorError> {
        let state = &self.state;
        let window = state.open[place].close(&self.basis, &state.rows, self.config.level)?;
        let window = self.with_labels(window)?;
        let number = window.number + 1;
        if window.kind == WindowKind::Count {
            self.judge(&window);
            self.judge_adapted(&window);
        }
        let state = &mut self.state;
        state.open[place] = OpenWindow::new(window.kind, number, state.images);
        let closed = &mut state.closed[place];
        closed.push_back(window);
        while closed.len() > self.config.kept_windows {
            closed.pop_front();
        }
        // No new questions about older ones.
        let old = closed.len().saturating_sub(ASKABLE_WINDOWS);
        closed.iter_mut().take(old).for_each(|window| window.seen.clear());
        self.drop_rows();
        Ok(())
    }

    /// Rows that no open window needs.
    fn drop_rows(&mut self) {
        let MonitorState { rows, open, .. } = &mut self.state;
        let needed: std::collections::BTreeSet<u64> = open.iter().flat_map(OpenWindow::sampled).collect();
        rows.retain(|image, _| needed.contains(image));
    }

    /// Whether a window's interval lies below the line, and for how long that has been so.
    fn judge(&mut self, window: &Window) {
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
    fn judge_adapted(&mut self, window: &Window) {
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

    /// Whether an alarm of this kind stands.
    pub fn is_active(&self, kind: AlarmKind) -> bool {
        self.state.alarms.iter().any(|alarm| alarm.active && alarm.kind == kind)
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

    /// The place of an image in random samples.
    fn key(&self, image: u64) -> u64 {
        SplitMix64::mix(self.config.seed ^ SplitMix64::mix(image))
    }

    /// A random number from 0 to 1, of which every image has several.
    fn random(&self, image: u64, which: u64) -> f64 {
        SplitMix64::new(self.key(image).wrapping_add(1 + which)).uniform()
    }

    fn closed(&self, kind: WindowKind) -> &std::collections::VecDeque<Window> {
        &self.state.closed[match kind {
            WindowKind::Count => 0,
            WindowKind::Time => 1,
        }]
    }
}
