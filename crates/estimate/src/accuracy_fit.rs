//! From signals to an accuracy, learned on samples of calibration cells.

use crate::error_scale::{Circumstances, ErrorScale, Grid, KnownError};
use crate::familiarity::Familiarity;
use crate::regression::{Observed, Regression};
use crate::sample_errors::SampleErrors;
use crate::score_fit::raise;
use crate::signals::log_odds;
use crate::{ClassShares, Estimate, EstimateError, Flag, Signals, grouped_quantile, normal_quantile};
use serde::{Deserialize, Serialize};

/// The fewest images that samples of calibration cells have, and so the fewest an estimate is made for.
pub const FEWEST_IMAGES: usize = 50;
/// The fewest samples to learn from: twice as many as there are features.
const FEWEST_SAMPLES: usize = 18;
/// Errors of accuracies nearer to 0 or 1 than this are taken to be as large as there.
const EDGE: f64 = 0.03;
/// How far apart two cells with the same signals are thought to be, for the weights of the fit.
const KINDS_APART: f64 = 0.02;
/// Share of kinds of shift on which transport agrees with the other signals where shares are the calibration's.
const SHARES_TEST_LEVEL: f64 = 0.9;
/// By how much, as a share, an early look must make errors smaller to be worth a pass more.
const WORTH_A_LOOK: f64 = 0.05;

/// Signals of images whose accuracy is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalSample {
    /// What was seen.
    pub signals: Signals,
    /// The truth.
    pub accuracy: f64,
    /// The kind of shift; `None` for images as they are.
    pub group: Option<usize>,
    /// How often each class comes.
    pub shares: ClassShares,
}

impl SignalSample {
    /// Whether the classes' shares are about those of all labelled images.
    fn has_usual_shares(&self) -> bool {
        matches!(self.shares, ClassShares::Balanced | ClassShares::Sample)
    }
}

/// Accuracy from [`Signals`] with an interval that holds whatever the class shares and for any number of images.
///
/// *Idea.* Calibration cells are sampled anew with other class shares and fewer images, as production data have them. One regression
/// learns the accuracy of all these samples from their signals, a second that of samples with the calibration's shares, where transport is a
/// signal too. Where transport does not contradict usual shares the two are averaged, elsewhere the first speaks alone. What they err by on kinds of
/// shift they were fitted without is what they will err by on the next kind.
/// *Formula.* Ridge regressions of the log-odds of the accuracy. The first on the log-odds of `cross`, its square, of `confidence` and of
/// `reverse`, on `entropy`, `concentration`, `x = log(n / K)` and `x` times the log-odds of `cross`; the first also on `min(source_concentration, log 10)^2` times the log-odds of `confidence`,
/// which tells few classes from a collapse onto few answers, and on the log-odds of `early_cross` and their square where these lower the errors, the second also on the log-odds of `transport`, `x` times these, and `x^2`. Weights `(a (1 - a))^2 / (0.02^2 + a (1 - a) / n)`. The error of an accuracy `a` from `n` images has the scale
/// `s^2 = 4 a (1 - a) (t^2 + c^2 / n + b^2 / k) + d^2`, with `k` the number of classes that the answers are spread over as if evenly, `d` half of what the
/// averaged two differ by, and `t`, `c`, `b` of the largest likelihood, groups counted alike. The half width is `q s` with `q` the [`grouped_quantile`] of `|error| / s`. Samples whose shares look usual and those whose shares do not have
/// scales and quantiles of their own ([`SampleErrors`]). The chance by which the labelled images are easier or harder than others is added in squares, since all calibration cells share it.
/// A second look that is less sure of itself than under any known shift ([`AccuracyFit::strangeness`] above 1) makes it that many times as wide.
/// *Reference.* Flipcast's own. Meta-regression of accuracy on samples: Deng and Zheng, "Are Labels Always Necessary for Classifier Accuracy
/// Evaluation?", CVPR 2021.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccuracyFit {
    /// What is known where there was an early look too, if that made errors smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with_early_look: Option<Box<AccuracyFit>>,
    members: Members,
    shares_test: SharesTest,
    /// Whether images are unlike those of every known shift; `None` in a fit of the second look, for which the source model's tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    familiarity: Option<Familiarity>,
    /// Log-odds of `cross` that samples had.
    cross_range: [f64; 2],
    /// Log-odds of `confidence` that samples had.
    confidence_range: [f64; 2],
    errors: SampleErrors,
    /// Labelled images that all samples were drawn from.
    labelled_images: usize,
}

/// The regressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    /// What the first regression looks at.
    #[serde(default, skip_serializing_if = "Looks::are_two")]
    looks: Looks,
    /// Accuracy of samples with any shares.
    any_shares: Regression,
    /// Accuracy of samples with usual shares.
    usual_shares: Regression,
    /// What transport says of random samples.
    transport: Regression,
}

/// What a regression for any shares looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Looks {
    /// The source model and the second look.
    #[default]
    Two,
    /// An early look as well.
    WithEarly,
}

impl Looks {
    fn are_two(&self) -> bool {
        *self == Self::Two
    }

    fn features(self, signals: &Signals) -> Vec<f64> {
        match self {
            Self::Two => signals.features(),
            Self::WithEarly => signals.features_with_early_look(),
        }
    }
}

/// When transport contradicts usual shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharesTest {
    scale: ErrorScale,
    /// Residuals below minus this many scales contradict.
    limit: f64,
}

/// What the members of an [`AccuracyFit`] say of the same signals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opinions {
    /// The accuracy, whatever the class shares.
    pub any_shares: f64,
    /// The accuracy if shares are the calibration's.
    pub usual_shares: f64,
    /// Whether they may be. With the calibration's shares this is wrong for at most 10% of new kinds of shift.
    pub shares_look_usual: bool,
}

/// An estimate that may reach below 0 or above 1.
pub(crate) struct Outlook {
    pub accuracy: f64,
    pub half_width: f64,
    pub flags: Vec<Flag>,
}

impl Opinions {
    /// The accuracy on which they settle: the mean where shares look usual.
    pub fn accuracy(&self) -> f64 {
        if self.shares_look_usual { 0.5 * (self.any_shares + self.usual_shares) } else { self.any_shares }
    }

    /// What the size of its error depends on.
    fn circumstances(&self, signals: &Signals) -> Circumstances {
        Circumstances {
            spread: spread(self.accuracy()),
            images: signals.images,
            class_share: 1.0 / signals.present_classes(),
            apart: self.accuracy() - self.any_shares,
        }
    }
}

impl AccuracyFit {
    /// Learns from samples of cells that were all made of the same `labelled_images`.
    ///
    /// # Errors
    /// When there are fewer than two kinds of shift or too few samples.
    pub fn fit(samples: &[SignalSample], labelled_images: usize) -> Result<Self, EstimateError> {
        let fit = Self::fit_look(samples, labelled_images, Looks::Two)?;
        let mut with_early_look = None;
        if samples.iter().all(|sample| sample.signals.early_cross.is_some()) {
            let early = Self::fit_look(samples, labelled_images, Looks::WithEarly)?;
            let sizes = [&early, &fit].map(|fit| fit.errors.mae(0).unwrap_or(0.0));
            with_early_look = (sizes[0] < (1.0 - WORTH_A_LOOK) * sizes[1]).then(|| Box::new(early));
        }
        let familiarity = Some(Familiarity::fit(samples, &kinds_of(samples))?);
        Ok(Self { with_early_look, familiarity, ..fit })
    }

    /// Whether estimates gain from an early look.
    pub fn wants_early_look(&self) -> bool {
        self.with_early_look.is_some()
    }

    /// What these signals are told by.
    fn speaking(&self, signals: &Signals) -> &Self {
        self.with_early_look.as_deref().filter(|_| signals.early_cross.is_some()).unwrap_or(self)
    }

    /// Learns the accuracy of the second look from the same signals, where the samples' accuracies are the second look's.
    ///
    /// # Errors
    /// As [`AccuracyFit::fit`].
    pub fn fit_second(samples: &[SignalSample], labelled_images: usize) -> Result<Self, EstimateError> {
        let exchanged = |sample: &SignalSample| SignalSample { signals: sample.signals.of_second(), ..*sample };
        Self::fit_look(&samples.iter().map(exchanged).collect::<Vec<_>>(), labelled_images, Looks::Two)
    }

    /// Learns from samples whose first look's accuracies are known.
    fn fit_look(samples: &[SignalSample], labelled_images: usize, looks: Looks) -> Result<Self, EstimateError> {
        if samples.len() < FEWEST_SAMPLES {
            let (found, expected) = (samples.len(), FEWEST_SAMPLES);
            return Err(EstimateError::TooFew { what: "calibration samples", found, expected });
        }
        let members = Members::fit(samples.iter(), looks)?;
        let kinds = kinds_of(samples);
        if kinds.len() < 2 {
            return Err(EstimateError::TooFew { what: "kinds of shift", found: kinds.len(), expected: 2 });
        }
        let mut left_out = Vec::new();
        for &kind in &kinds {
            let without = Members::fit(samples.iter().filter(|sample| sample.group != Some(kind)), looks)?;
            let of_kind = samples.iter().filter(|sample| sample.group == Some(kind));
            left_out.extend(of_kind.map(|sample| LeftOut::look(&without, sample, kind)));
        }
        let shares_test = SharesTest::fit(&left_out);
        let errors = SampleErrors::fit(left_out.iter().map(|one| one.judge(&shares_test)));
        let range = |value: fn(&Signals) -> f64| {
            let values = samples.iter().map(|sample| log_odds(value(&sample.signals)));
            values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)])
        };
        Ok(Self {
            with_early_look: None,
            members,
            shares_test,
            familiarity: None,
            cross_range: range(|signals| signals.cross),
            confidence_range: range(|signals| signals.confidence),
            errors,
            labelled_images,
        })
    }

    /// The accuracy that belongs to `signals`, with an interval meant to hold the truth with probability `level`.
    pub fn estimate(&self, signals: &Signals, level: f64) -> Estimate {
        let strangeness = self.strangeness(signals);
        let Outlook { accuracy, half_width, flags } = self.speaking(signals).outlook(signals, strangeness, level);
        Estimate::around(accuracy, half_width, flags)
    }

    /// The same before it is cut to what an accuracy can be, of images that are this strange.
    pub(crate) fn outlook(&self, signals: &Signals, strangeness: f64, level: f64) -> Outlook {
        let opinions = self.opinions(signals);
        let accuracy = opinions.accuracy();
        let stratum = self.errors.stratum(opinions.shares_look_usual);
        let half_width = stratum.half_width(&opinions.circumstances(signals), level);
        let labelled = accuracy * (1.0 - accuracy) / self.labelled_images.max(1) as f64;
        let chance = normal_quantile(level) * labelled.sqrt();
        let beyond = self.beyond(signals, accuracy);
        let mut flags = Vec::new();
        if beyond > 0.0 {
            raise(&mut flags, Flag::OutsideFittedRange);
        }
        if strangeness > 1.0 {
            raise(&mut flags, Flag::UnlikeKnownShifts);
        }
        if !opinions.shares_look_usual {
            raise(&mut flags, Flag::ClassMarginalMismatch);
        }
        if signals.images < FEWEST_IMAGES {
            raise(&mut flags, Flag::TooFewImages);
        }
        Outlook { accuracy, half_width: half_width.hypot(chance) * strangeness.max(1.0) + beyond, flags }
    }

    /// What each member says of `signals`.
    pub fn opinions(&self, signals: &Signals) -> Opinions {
        let Self { members, shares_test, .. } = self.speaking(signals);
        members.opinions(signals, shares_test.allows(members.transport_residual(signals), signals.images))
    }

    /// How much less sure of itself the second look is than known shifts lead to expect, as a multiple of the most by which a sample of a kind of shift that was left out fell short; above 1
    /// the images are unlike every known shift, which at most one in `k + 1` new kinds is by chance, `k` being the number of known ones.
    pub fn strangeness(&self, signals: &Signals) -> f64 {
        self.familiarity.as_ref().map_or(0.0, |known| known.strangeness(signals))
    }

    /// Errors on kinds of shift that the fit had not seen.
    pub fn errors(&self) -> &SampleErrors {
        self.with_early_look.as_ref().map_or(&self.errors, |early| &early.errors)
    }

    /// What continuing the regressions beyond the samples adds to or takes from the accuracy.
    fn beyond(&self, signals: &Signals, accuracy: f64) -> f64 {
        let within = |value: f64, [low, high]: [f64; 2]| share(log_odds(value).clamp(low, high));
        let cross = within(signals.cross, self.cross_range);
        let confidence = within(signals.confidence, self.confidence_range);
        let moved = (cross - signals.cross).abs() + (confidence - signals.confidence).abs();
        if moved < 1e-9 {
            return 0.0;
        }
        let nearest = Signals { cross, confidence, ..*signals };
        (self.opinions(&nearest).accuracy() - accuracy).abs().max(moved)
    }
}

impl Members {
    fn fit<'a>(samples: impl Iterator<Item = &'a SignalSample> + Clone, looks: Looks) -> Result<Self, EstimateError> {
        let usual = samples.clone().filter(|sample| sample.has_usual_shares());
        let sampled = samples.clone().filter(|sample| sample.shares == ClassShares::Sample);
        let accuracy = |sample: &SignalSample, features: Vec<f64>| {
            let images = sample.signals.images as f64;
            let spread = spread(sample.accuracy).powi(2) / 4.0;
            Observed {
                features,
                target: log_odds((sample.accuracy * images + 0.5) / (images + 1.0)),
                weight: spread * spread / (KINDS_APART.powi(2) + spread / images),
            }
        };
        let any_shares = |sample: &SignalSample| accuracy(sample, looks.features(&sample.signals));
        let usual_shares = |sample: &SignalSample| accuracy(sample, sample.signals.features_of_usual_shares());
        let transport = |sample: &SignalSample| {
            let signals = &sample.signals;
            Observed { features: signals.features_of_transport(), target: log_odds(signals.transport), weight: 1.0 }
        };
        Ok(Self {
            looks,
            any_shares: Regression::fit(&samples.map(any_shares).collect::<Vec<_>>())?,
            usual_shares: Regression::fit(&usual.map(usual_shares).collect::<Vec<_>>())?,
            transport: Regression::fit(&sampled.map(transport).collect::<Vec<_>>())?,
        })
    }

    fn opinions(&self, signals: &Signals, shares_look_usual: bool) -> Opinions {
        Opinions {
            any_shares: share(self.any_shares.predict(&self.looks.features(signals))),
            usual_shares: share(self.usual_shares.predict(&signals.features_of_usual_shares())),
            shares_look_usual,
        }
    }

    /// How much more transport finds than the other signals explain where shares are usual.
    fn transport_residual(&self, signals: &Signals) -> f64 {
        log_odds(signals.transport) - self.transport.predict(&signals.features_of_transport())
    }
}

/// A sample as members saw it that were fitted without its kind.
struct LeftOut<'a> {
    sample: &'a SignalSample,
    kind: usize,
    /// As if shares were usual.
    opinions: Opinions,
    transport_residual: f64,
}

impl<'a> LeftOut<'a> {
    fn look(members: &Members, sample: &'a SignalSample, kind: usize) -> Self {
        let signals = &sample.signals;
        let opinions = members.opinions(signals, true);
        Self { sample, kind, opinions, transport_residual: members.transport_residual(signals) }
    }

    /// Whether its shares look usual, and the error that is then made.
    fn judge(&self, shares_test: &SharesTest) -> (bool, KnownError) {
        let signals = &self.sample.signals;
        let shares_look_usual = shares_test.allows(self.transport_residual, signals.images);
        let opinions = Opinions { shares_look_usual, ..self.opinions };
        let error = opinions.accuracy() - self.sample.accuracy;
        (shares_look_usual, KnownError { error, at: opinions.circumstances(signals), group: self.kind })
    }
}

impl SharesTest {
    /// The test that at most 10% of new kinds of shift fail by chance.
    fn fit(left_out: &[LeftOut]) -> Self {
        let residual = |one: &LeftOut| KnownError {
            error: one.transport_residual,
            at: Self::circumstances(one.sample.signals.images),
            group: one.kind,
        };
        let sampled = left_out.iter().filter(|one| one.sample.shares == ClassShares::Sample);
        let residuals: Vec<KnownError> = sampled.map(residual).collect();
        let grid = Grid { kinds: [0.01, 0.6], chance: [0.0, 6.0], classes: [0.0, 0.0] };
        let scale = ErrorScale::fit(&residuals, grid);
        let sizes: Vec<f64> = residuals.iter().map(|r| -r.error / scale.at(&r.at)).collect();
        let groups: Vec<usize> = residuals.iter().map(|r| r.group).collect();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        Self { scale, limit: grouped_quantile(&sizes, &groups, SHARES_TEST_LEVEL).unwrap_or(largest) }
    }

    fn allows(&self, residual: f64, images: usize) -> bool {
        residual >= -self.limit * self.scale.at(&Self::circumstances(images))
    }

    /// Log-odds of transport spread alike whatever the accuracy and the classes.
    fn circumstances(images: usize) -> Circumstances {
        Circumstances { spread: 1.0, images, class_share: 0.0, apart: 0.0 }
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
pub(crate) mod testing;
#[cfg(test)]
mod tests;
