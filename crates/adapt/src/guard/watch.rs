use super::diversity::expected_entropy;
use super::window::Window;
use super::{GuardConfig, GuardReason, GuardReport, GuardState};
use crate::AdaptError;
use flipcast_executor::Logits;
use serde::{Deserialize, Serialize};

/// A fall of agreement is no accident beyond this many standard errors: a source model that is hardly ever right agrees with so
/// few predictions that halves are common.
const STANDARD_ERRORS: f64 = 3.0;

/// What a batch shows.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// Predictions of the adapting model.
    pub logits: Logits<'a>,
    /// The source model's classes of the same images, if known.
    pub source_classes: Option<&'a [usize]>,
    /// How far class means have moved, as a share of the distance between classes; see
    /// [`DriftMeter`](crate::DriftMeter).
    pub embedding_drift: Option<f64>,
}

/// Collapse detection without labels.
///
/// *Idea.* A model that collapses gives ever fewer answers. So does a harmless model on a stream that holds few classes, sorted
/// for instance. The two differ in a second witness: the source model's predictions of the same images, or the embedding.
///
/// *Formula.* Over a window of `n` images, `E(n)` being the mean entropy of `n` uniform draws of `K` classes (about `ln K`):
/// the entropy `M` of the mean prediction, the entropy `D` of the histogram of predictions, the same `D_s` of the source
/// model's predictions, the flip rate `r`, and the drift `d`; `M_0`, `D_0` and `r_0` are their best values over the first window, the entropies as
/// shares of `E(n)`.
/// A *warning* is any of `M < E/2`, `M < M_0/2`, `D < E/2`, `D < D_s/2`, `1 - r < (1 - r_0)/2` by three standard errors,
/// `d > 1/2`.
/// A *collapse* is `D < E/4` together with a witness: `r > 1/2` and `D < D_s/2`, or `d > 1/2`. Where neither the source's
/// predictions nor a drift is known, the witness is the stream's own past: `D < D_0/4`. A collapse is judged by `D`, since
/// a model that always gives the same answer may still give it softly, with a large `M`.
///
/// *Reference.* Entropy of the mean prediction: Niu et al., "Towards Stable Test-Time Adaptation in Dynamic Wild World",
/// ICLR 2023, and Lim et al., "When and Where to Reset Matters for Long-Term Test-Time Adaptation", ICLR 2026, reset by relatives of it; flips: Press et al., "The Entropy Enigma", ICML 2024.
///
/// *Departures from the reference.* None of these watches more than one signal. What this guard cannot see: a model that was never better
/// than chance, and, without a witness, the difference between a collapse and a stream that turns to few classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    config: GuardConfig,
    num_classes: usize,
    window: Window,
    start: Start,
    /// The last window length and its expected entropy, since it is the same for most batches.
    expected: (usize, f64),
    drift: Option<f64>,
}

/// What the first window looked like.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    images: usize,
    /// Largest entropy of the mean prediction, as a share of the expected one.
    entropy_share: f64,
    /// Largest entropy of the histogram of predictions, as a share of the expected one.
    diversity_share: f64,
    /// Lowest flip rate, and the images it was measured on.
    flip_rate: Option<(f64, usize)>,
}

impl Guard {
    /// A guard over predictions of `num_classes` classes.
    pub fn new(config: GuardConfig, num_classes: usize) -> Result<Self, AdaptError> {
        config.check()?;
        AdaptError::unless(num_classes >= 2, "number of classes", num_classes as f64, "at least 2")?;
        Ok(Self {
            config,
            num_classes,
            window: Window::new(config.window, num_classes),
            start: Start::default(),
            expected: (0, 0.0),
            drift: None,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &GuardConfig {
        &self.config
    }

    /// Whether a guard that was stored can go on with these settings, for a network of so many classes.
    pub fn fits(&self, config: &GuardConfig, num_classes: usize) -> bool {
        self.config == *config && self.num_classes == num_classes && self.window.is_sound(config.window, num_classes)
    }

    /// Forgets the window, as is right once the source parameters were restored. What the start looked like is kept.
    pub fn forget_window(&mut self) {
        self.window.clear();
        self.drift = None;
    }

    /// Looks at a batch and judges the window that ends with it.
    ///
    /// # Panics
    /// If the logits have another number of classes than the guard, or there is not one source class per image.
    pub fn observe(&mut self, seen: Observation<'_>) -> GuardReport {
        assert_eq!(seen.logits.classes(), self.num_classes, "the guard was made for as many classes as the model has");
        if let Some(classes) = seen.source_classes {
            let images = seen.logits.images();
            assert_eq!(classes.len(), images, "one source class per image");
        }
        if self.config.enabled {
            self.window.push(seen.logits, seen.source_classes);
            self.drift = seen.embedding_drift.or(self.drift);
        }
        let report = GuardReport {
            state: GuardState::Healthy,
            reasons: Vec::new(),
            entropy_of_mean: self.window.entropy_of_mean(),
            effective_classes: self.window.entropy_of_classes().exp(),
            flip_rate: self.window.flip_rate(),
            drift: self.drift,
        };
        let images = self.window.images();
        if !self.config.enabled || images < self.config.min_images {
            return report;
        }
        if images != self.expected.0 {
            self.expected = (images, expected_entropy(images, self.num_classes));
        }
        self.learn_start(&report, seen.logits.images());
        self.judge(report)
    }

    fn learn_start(&mut self, report: &GuardReport, images: usize) {
        if self.start.images >= self.config.window {
            return;
        }
        // The first judgement covers every batch that came before it.
        self.start.images += if self.start.images == 0 { self.window.images() } else { images };
        let share = report.entropy_of_mean / self.expected.1;
        self.start.entropy_share = self.start.entropy_share.max(share);
        let share = report.effective_classes.ln() / self.expected.1;
        self.start.diversity_share = self.start.diversity_share.max(share);
        if let Some(rate) = report.flip_rate
            && self.start.flip_rate.is_none_or(|(lowest, _)| rate < lowest)
        {
            self.start.flip_rate = Some((rate, self.window.images()));
        }
    }

    /// The flip rate of the start, if agreement has fallen below the warning share of what it was by more than chance.
    fn risen_from(&self, flip_rate: f64) -> Option<f64> {
        let (start, start_images) = self.start.flip_rate?;
        let share = self.config.warn_share;
        let variance = |rate: f64, images: usize| rate * (1.0 - rate) / images as f64;
        let error = (share * share * variance(start, start_images) + variance(flip_rate, self.window.images())).sqrt();
        let fall = share * (1.0 - start) - (1.0 - flip_rate);
        (fall > STANDARD_ERRORS * error).then_some(start)
    }

    fn judge(&self, mut report: GuardReport) -> GuardReport {
        let (config, expected) = (&self.config, self.expected.1);
        let mean = report.entropy_of_mean;
        let diversity = report.effective_classes.ln();
        let start = self.start.entropy_share * expected;
        let source = self.window.entropy_of_source_classes();
        let mut reasons = Vec::new();
        if mean < config.warn_share * expected {
            reasons.push(GuardReason::LowEntropy { found: mean, expected });
        }
        if mean < config.warn_share * start {
            reasons.push(GuardReason::EntropyFell { found: mean, start });
        }
        if diversity < config.warn_share * expected {
            reasons.push(GuardReason::FewClasses { found: report.effective_classes, expected: expected.exp() });
        }
        let below_source = source.is_some_and(|source| diversity < config.warn_share * source);
        if let Some(source) = source.filter(|_| below_source) {
            reasons.push(GuardReason::FewerThanSource { found: report.effective_classes, source: source.exp() });
        }
        if let Some(found) = report.flip_rate
            && let Some(start) = self.risen_from(found)
        {
            reasons.push(GuardReason::FlipsRose { found, start });
        }
        let drifted = report.drift.is_some_and(|d| d > config.drift_limit);
        if let Some(found) = report.drift.filter(|_| drifted) {
            reasons.push(GuardReason::Drift { found, limit: config.drift_limit });
        }
        let disowned = below_source && report.flip_rate.is_some_and(|flips| flips > config.flip_limit);
        let has_witness = source.is_some() || report.drift.is_some();
        let witnessed = if has_witness {
            disowned || drifted
        } else {
            diversity < config.collapse_share * self.start.diversity_share * expected
        };
        report.state = if diversity < config.collapse_share * expected && witnessed {
            GuardState::Collapsed
        } else if reasons.is_empty() {
            GuardState::Healthy
        } else {
            GuardState::Warning
        };
        report.reasons = reasons;
        report
    }
}
