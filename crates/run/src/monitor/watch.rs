use super::row::{Logits, Row};
use super::window::{Arrival, OpenWindow, WindowKind};
use super::{MonitorBasis, MonitorConfig, MonitorError, MonitorState};
use flipcast_estimate::{FLIP_BATCH, GainTally, Outputs};
use flipcast_ground::{SplitMix64, argmax};
use std::ops::Range;
use std::sync::Arc;

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
        if known == FLIP_BATCH {
            self.test_flips(*images.first().unwrap_or(&0), flips);
        }
        Ok(())
    }

    /// Takes the outputs of an early look at `images`, where the calibration gains from one ([`MonitorBasis::wants_early_look`]). Images of windows that are closed no longer count.
    ///
    /// # Errors
    /// When there is not one row of outputs per image, or it has another number of classes.
    pub fn look_early(&mut self, images: &[u64], outputs: &Outputs) -> Result<(), MonitorError> {
        self.check_rows(images, outputs)?;
        for (image, answer) in images.iter().zip(outputs.classes_predicted()) {
            if let Some(row) = self.state.rows.get_mut(image) {
                row.early = Some(answer as u32);
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

    fn add(&mut self, arrival: &Arrival, logits: &[f32]) {
        let state = &mut self.state;
        state.rows.insert(arrival.image, Row { source: Logits(logits.to_vec()), second: None, early: None });
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
    pub(super) fn drop_rows(&mut self) {
        let MonitorState { rows, open, .. } = &mut self.state;
        let needed: std::collections::BTreeSet<u64> = open.iter().flat_map(OpenWindow::sampled).collect();
        rows.retain(|image, _| needed.contains(image));
    }

    /// The place of an image in random samples.
    pub(super) fn key(&self, image: u64) -> u64 {
        SplitMix64::mix(self.config.seed ^ SplitMix64::mix(image))
    }
}
