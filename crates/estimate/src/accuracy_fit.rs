//! From signals to an accuracy, learned on samples of calibration cells.

use crate::regression::{Observed, Regression};
use crate::score_fit::raise;
use crate::signals::log_odds;
use crate::{Estimate, EstimateError, Flag, Signals, grouped_quantile, normal_quantile, student_quantile};
use serde::{Deserialize, Serialize};

/// The fewest images that samples of calibration cells have, and so the fewest an estimate is made for.
pub const FEWEST_IMAGES: usize = 50;
/// Errors of accuracies nearer to 0 or 1 than this are taken to be as large as there.
const EDGE: f64 = 0.03;
/// How far apart two cells with the same signals are thought to be, for the weights of the fit.
const KINDS_APART: f64 = 0.02;
/// Share of kinds of shift on which transport agrees with the other signals where shares are the calibration's.
const SHARES_TEST_LEVEL: f64 = 0.9;

/// Signals of images whose accuracy is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalSample {
    /// What was seen.
    pub signals: Signals,
    /// The truth.
    pub accuracy: f64,
    /// The kind of shift; `None` for images as they are.
    pub group: Option<usize>,
    /// Whether the classes' shares are those of all labelled images.
    pub usual_shares: bool,
}

/// Accuracy from [`Signals`] with an interval that holds whatever the class shares and for any number of images.
///
/// *Idea.* Calibration cells are sampled anew with other class shares and fewer images, as production data have them. A regression
/// learns the accuracy of these samples from their signals, and what it errs by on kinds of shift it was fitted without is what it will err by
/// on the next kind.
/// *Formula.* Ridge regression of the log-odds of the accuracy on the log-odds of `cross`, its square, of `confidence` and of `reverse`, on
/// `concentration`, `x = log(n / K)` and `x` times the log-odds of `cross`; weights `(a (1 - a))^2 / (0.02^2 + a (1 - a) / n)`. The error of an
/// accuracy `a` from `n` images has the scale `s^2 = 4 a (1 - a) (t^2 + c^2 / n)`, with `t` and `c` of the largest likelihood, groups counted
/// alike. The half width is `q s` with `q` the [`grouped_quantile`] of `|error| / s`; the chance by which the labelled images are easier or harder than
/// others is added in squares, since all calibration cells share it.
/// *Reference.* Flipcast's own. Meta-regression of accuracy on samples: Deng and Zheng, "Are Labels Always Necessary for Classifier Accuracy
/// Evaluation?", CVPR 2021.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccuracyFit {
    accuracy: Regression,
    /// What transport says of samples with usual shares, from their other signals.
    transport: Regression,
    transport_scale: Scale,
    /// Below minus this many scales transport contradicts usual shares.
    transport_limit: f64,
    /// Log-odds of `cross` that samples had.
    cross_range: [f64; 2],
    /// Log-odds of `confidence` that samples had.
    confidence_range: [f64; 2],
    errors: SampleErrors,
    /// Labelled images that all samples were drawn from.
    labelled_images: usize,
}

/// Errors on samples of kinds of shift that the regression was fitted without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleErrors {
    /// Estimate minus truth.
    pub errors: Vec<f64>,
    /// Their scales.
    scales: Vec<f64>,
    /// The kind of shift of each.
    pub groups: Vec<usize>,
    /// Images of each sample.
    pub images: Vec<usize>,
    scale: Scale,
}

/// The scale of errors: what kinds of shift add, and what chance adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    kinds: f64,
    chance: f64,
}

impl AccuracyFit {
    /// Learns from samples of cells that were all made of the same `labelled_images`.
    ///
    /// # Errors
    /// When there are fewer than two kinds of shift or too few samples.
    pub fn fit(samples: &[SignalSample], labelled_images: usize) -> Result<Self, EstimateError> {
        let observed: Vec<Observed> = samples.iter().map(observe).collect();
        let all = || samples.iter().zip(&observed);
        let accuracy = Regression::fit(observed.iter())?;

        let (mut errors, mut accuracies, mut groups, mut images) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let kinds = kinds_of(samples);
        if kinds.len() < 2 {
            return Err(EstimateError::TooFew { what: "kinds of shift", found: kinds.len(), expected: 2 });
        }
        for &kind in &kinds {
            let rest = all().filter(|(sample, _)| sample.group != Some(kind)).map(|(_, o)| o);
            let without = Regression::fit(rest)?;
            for (sample, o) in all().filter(|(sample, _)| sample.group == Some(kind)) {
                let found = share(without.predict(&o.features));
                errors.push(found - sample.accuracy);
                accuracies.push(found);
                groups.push(kind);
                images.push(sample.signals.images);
            }
        }
        let spreads: Vec<f64> = accuracies.iter().map(|&a| spread(a)).collect();
        let scale =
            Scale::fit(&errors, &spreads, &images, &groups, Grid { kinds: [0.004, 0.156], chance: [0.05, 0.81] });
        let scales = spreads.iter().zip(&images).map(|(&spread, &n)| scale.at(spread, n)).collect();
        let errors = SampleErrors { errors, scales, groups, images, scale };

        let (transport, transport_scale, transport_limit) = fit_transport(samples, &kinds)?;
        let range = |value: fn(&Signals) -> f64| {
            let values = samples.iter().map(|sample| log_odds(value(&sample.signals)));
            values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)])
        };
        Ok(Self {
            accuracy,
            transport,
            transport_scale,
            transport_limit,
            cross_range: range(|signals| signals.cross),
            confidence_range: range(|signals| signals.confidence),
            errors,
            labelled_images,
        })
    }

    /// The accuracy that belongs to `signals`, with an interval meant to hold the truth with probability `level`.
    pub fn estimate(&self, signals: &Signals, level: f64) -> Estimate {
        let accuracy = share(self.accuracy.predict(&signals.features()));
        let half_width = self.errors.half_width(accuracy, signals.images, level);
        let labelled = accuracy * (1.0 - accuracy) / self.labelled_images.max(1) as f64;
        let chance = normal_quantile(level) * labelled.sqrt();
        let beyond = self.beyond(signals, accuracy);
        let mut flags = Vec::new();
        if beyond > 0.0 {
            raise(&mut flags, Flag::OutsideFittedRange);
        }
        if self.has_other_shares(signals) {
            raise(&mut flags, Flag::ClassMarginalMismatch);
        }
        if signals.images < FEWEST_IMAGES {
            raise(&mut flags, Flag::TooFewImages);
        }
        Estimate::around(accuracy, half_width.hypot(chance) + beyond, flags)
    }

    /// Errors on kinds of shift that the fit had not seen.
    pub fn errors(&self) -> &SampleErrors {
        &self.errors
    }

    /// Whether transport to uniform shares finds fewer sure answers than the other signals explain. With the calibration's
    /// shares that happens by chance to at most 10% of new kinds of shift.
    fn has_other_shares(&self, signals: &Signals) -> bool {
        let expected = self.transport.predict(&transport_features(signals));
        let residual = log_odds(signals.transport) - expected;
        residual < -self.transport_limit * self.transport_scale.at(1.0, signals.images)
    }

    /// What continuing the regression beyond the samples adds to or takes from the accuracy.
    fn beyond(&self, signals: &Signals, accuracy: f64) -> f64 {
        let within = |value: f64, [low, high]: [f64; 2]| share(log_odds(value).clamp(low, high));
        let cross = within(signals.cross, self.cross_range);
        let confidence = within(signals.confidence, self.confidence_range);
        let moved = (cross - signals.cross).abs() + (confidence - signals.confidence).abs();
        if moved < 1e-9 {
            return 0.0;
        }
        let nearest = Signals { cross, confidence, ..*signals };
        (share(self.accuracy.predict(&nearest.features())) - accuracy).abs().max(moved)
    }
}

impl SampleErrors {
    /// Half width of an interval around `accuracy` from `images` images.
    fn half_width(&self, accuracy: f64, images: usize, level: f64) -> f64 {
        let sizes: Vec<f64> = self.errors.iter().zip(&self.scales).map(|(e, scale)| e.abs() / scale).collect();
        let quantile = grouped_quantile(&sizes, &self.groups, level).unwrap_or_else(|| {
            // Too few kinds of shift for a distribution-free statement: the largest error, and Student's factor for their number.
            let largest = sizes.iter().copied().fold(0.0, f64::max);
            let freedom = self.kinds().saturating_sub(1).max(1);
            largest * student_quantile(level, freedom) / normal_quantile(level)
        });
        quantile * self.scale.at(spread(accuracy), images)
    }

    /// Number of kinds of shift.
    pub fn kinds(&self) -> usize {
        let mut kinds = self.groups.clone();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.len()
    }

    /// Mean size of the errors of samples of at least `images` images, if there are any.
    pub fn mae(&self, images: usize) -> Option<f64> {
        let large = self.errors.iter().zip(&self.images).filter(|(_, n)| **n >= images);
        let sizes: Vec<f64> = large.map(|(e, _)| e.abs()).collect();
        (!sizes.is_empty()).then(|| crate::score::mean(&sizes))
    }
}

/// Where to look for a scale.
struct Grid {
    kinds: [f64; 2],
    chance: [f64; 2],
}

impl Scale {
    /// The scale of an error whose spread is this, from `images` images.
    fn at(&self, spread: f64, images: usize) -> f64 {
        spread * (self.kinds * self.kinds + self.chance * self.chance / images.max(1) as f64).sqrt()
    }

    /// The scale under which normal errors like these are most likely; every group counts alike.
    fn fit(errors: &[f64], spreads: &[f64], images: &[usize], groups: &[usize], grid: Grid) -> Self {
        const STEPS: usize = 39;
        let mut members = vec![0; groups.iter().max().map_or(0, |most| most + 1)];
        groups.iter().for_each(|&group| members[group] += 1);
        let along = |[low, high]: [f64; 2], step: usize| low + (high - low) * step as f64 / (STEPS - 1) as f64;
        let mut best = (f64::INFINITY, Self { kinds: grid.kinds[1], chance: grid.chance[1] });
        for step in 0..STEPS * STEPS {
            let scale = Self { kinds: along(grid.kinds, step / STEPS), chance: along(grid.chance, step % STEPS) };
            let cost: f64 = (0..errors.len())
                .map(|i| {
                    let s = scale.at(spreads[i], images[i]);
                    (2.0 * s.ln() + (errors[i] / s).powi(2)) / members[groups[i]] as f64
                })
                .sum();
            if cost < best.0 {
                best = (cost, scale);
            }
        }
        best.1
    }
}

/// A regression of transport on the other signals of samples with usual shares, the scale of what it leaves, and the limit that
/// at most 10% of new kinds of shift pass by chance.
fn fit_transport(samples: &[SignalSample], kinds: &[usize]) -> Result<(Regression, Scale, f64), EstimateError> {
    let usual: Vec<(Option<usize>, usize, Observed)> = samples
        .iter()
        .filter(|sample| sample.usual_shares)
        .map(|sample| {
            let signals = &sample.signals;
            let target = log_odds(signals.transport);
            (sample.group, signals.images, Observed { features: transport_features(signals), target, weight: 1.0 })
        })
        .collect();
    let regression = Regression::fit(usual.iter().map(|(_, _, o)| o))?;
    let (mut residuals, mut groups, mut images) = (Vec::new(), Vec::new(), Vec::new());
    for &kind in kinds {
        let rest = usual.iter().filter(|(group, _, _)| *group != Some(kind));
        let without = Regression::fit(rest.map(|(_, _, o)| o))?;
        for (_, n, o) in usual.iter().filter(|(group, _, _)| *group == Some(kind)) {
            residuals.push(o.target - without.predict(&o.features));
            groups.push(kind);
            images.push(*n);
        }
    }
    let grid = Grid { kinds: [0.01, 0.6], chance: [0.0, 6.0] };
    let scale = Scale::fit(&residuals, &vec![1.0; residuals.len()], &images, &groups, grid);
    let sizes: Vec<f64> = residuals.iter().zip(&images).map(|(r, &n)| -r / scale.at(1.0, n)).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    Ok((regression, scale, grouped_quantile(&sizes, &groups, SHARES_TEST_LEVEL).unwrap_or(largest)))
}

/// What transport is regressed on: how much an accuracy needs, and how the number of images bends it.
fn transport_features(signals: &Signals) -> Vec<f64> {
    let mut features = signals.features();
    features.push(signals.log_images_per_class().powi(2));
    features
}

fn observe(sample: &SignalSample) -> Observed {
    let images = sample.signals.images as f64;
    let spread = spread(sample.accuracy).powi(2) / 4.0;
    Observed {
        features: sample.signals.features(),
        target: log_odds((sample.accuracy * images + 0.5) / (images + 1.0)),
        weight: spread * spread / (KINDS_APART.powi(2) + spread / images),
    }
}

fn kinds_of(samples: &[SignalSample]) -> Vec<usize> {
    let mut kinds: Vec<usize> = samples.iter().filter_map(|sample| sample.group).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Twice the standard deviation of a right answer: 1 at an accuracy of one half.
fn spread(accuracy: f64) -> f64 {
    let a = accuracy.clamp(EDGE, 1.0 - EDGE);
    2.0 * (a * (1.0 - a)).sqrt()
}

/// The share that has these log-odds.
fn share(log_odds: f64) -> f64 {
    1.0 / (1.0 + (-log_odds).exp())
}

#[cfg(test)]
mod tests;
