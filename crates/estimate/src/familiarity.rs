//! Whether a second look is as sure of itself as under the shifts of a calibration.

use crate::error_scale::{Circumstances, ErrorScale, Grid, KnownError};
use crate::regression::{Observed, Regression};
use crate::signals::log_odds;
use crate::{EstimateError, SignalSample, Signals};
use serde::{Deserialize, Serialize};

/// A test for shifts unlike all of a calibration's.
///
/// *Idea.* The statistics of the batch repair much of what known shifts do to a network, so that the second look is about as sure of itself under one of them as under another. Where it is
/// far less sure than under all of them, the images differ in a way that no known shift does: pictures of another kind, on which both looks can share their errors.
/// *Formula.* A ridge regression of the log-odds of `second_confidence` on what is no matter of the shift: `concentration`, its square, `x = log(n / K)` and `exp(-x / 2)`. The residuals of kinds of shift that it was
/// fitted without have a scale `s^2 = t^2 + c^2 / n + b^2 / k`, as errors of accuracies have. The strangeness of a sample is how many scales it lies below the regression. One that lies lower
/// than every left-out sample is unfamiliar: of `k` kinds and a new one that is like them, each is the strangest alike often, so that at most one in `k + 1` new kinds is flagged without cause.
/// *Reference.* Conformal anomaly detection: Laxhammar and Falkman, 2010; kinds of shift are what is exchangeable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Familiarity {
    /// How sure the second look is of itself under known shifts.
    sureness: Regression,
    scale: ErrorScale,
    /// The largest strangeness of a sample of a kind of shift that the regression was fitted without.
    largest: f64,
}

impl Familiarity {
    /// Learns from samples of these `kinds` of shift and of clean images.
    pub(crate) fn fit(samples: &[SignalSample], kinds: &[usize]) -> Result<Self, EstimateError> {
        let mut residuals = Vec::new();
        for &kind in kinds {
            let without = regression(samples.iter().filter(|sample| sample.group != Some(kind)))?;
            for sample in samples.iter().filter(|sample| sample.group == Some(kind)) {
                let error = missing_sureness(&without, &sample.signals);
                residuals.push(KnownError { error, at: circumstances(&sample.signals), group: kind });
            }
        }
        let grid = Grid { kinds: [0.01, 0.6], chance: [0.0, 6.0], classes: [0.0, 1.0] };
        let scale = ErrorScale::fit(&residuals, grid);
        let largest = residuals.iter().map(|known| known.error / scale.at(&known.at)).fold(0.0, f64::max);
        Ok(Self { sureness: regression(samples.iter())?, scale, largest })
    }

    /// How many times as strange `signals` are as the strangest left-out sample; above 1 they are unfamiliar.
    pub(crate) fn strangeness(&self, signals: &Signals) -> f64 {
        let scales = missing_sureness(&self.sureness, signals) / self.scale.at(&circumstances(signals));
        scales.max(0.0) / self.largest.max(f64::MIN_POSITIVE)
    }
}

fn regression<'a>(samples: impl Iterator<Item = &'a SignalSample>) -> Result<Regression, EstimateError> {
    let observed = |sample: &SignalSample| Observed {
        features: features(&sample.signals),
        target: log_odds(sample.signals.second_confidence),
        weight: 1.0,
    };
    Regression::fit(&samples.map(observed).collect::<Vec<_>>())
}

/// How much less sure of itself the second look is than a regression expects.
fn missing_sureness(expected: &Regression, signals: &Signals) -> f64 {
    expected.predict(&features(signals)) - log_odds(signals.second_confidence)
}

/// Few classes and few images make a second look unsure, whatever the shift. No other signal may tell: all of them move with the shift.
fn features(signals: &Signals) -> Vec<f64> {
    let size = (signals.looked_at as f64 / signals.classes as f64).ln();
    vec![signals.concentration, signals.concentration.powi(2), size, (-0.5 * size).exp()]
}

/// Log-odds of a signal spread alike whatever the accuracy.
fn circumstances(signals: &Signals) -> Circumstances {
    let class_share = 1.0 / signals.present_classes();
    Circumstances { spread: 1.0, images: signals.looked_at, class_share, apart: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy_fit::testing::samples;

    fn fit(seed: u64) -> Familiarity {
        Familiarity::fit(&samples(18, 12, seed), &(0..18).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn new_kinds_of_shift_like_the_known_ones_are_seldom_strange() {
        let (mut strange, mut all) = (0, 0);
        for seed in 0..10 {
            let fit = fit(seed);
            for sample in samples(20, 10, 100 + seed) {
                strange += usize::from(fit.strangeness(&sample.signals) > 1.0);
                all += 1;
            }
        }
        // At most one kind in nineteen, and fewer of its samples; standard error of the kinds 1.6%.
        assert!((strange as f64) < 0.08 * all as f64, "{strange} of {all}");
    }

    #[test]
    fn a_second_look_that_is_less_sure_than_the_others_say_is_strange() {
        let fit = fit(1);
        let usual = samples(1, 5, 3).into_iter().find(|sample| sample.signals.images >= 1000).unwrap().signals;
        assert!(fit.strangeness(&usual) <= 1.0, "{}", fit.strangeness(&usual));
        let odds = log_odds(usual.second_confidence);
        let less = |by: f64| Signals { second_confidence: 1.0 / (1.0 + (by - odds).exp()), ..usual };
        assert!(fit.strangeness(&less(2.0)) > 1.0, "{}", fit.strangeness(&less(2.0)));
        assert!(fit.strangeness(&less(3.0)) > fit.strangeness(&less(2.0)));
    }
}
