//! Whether signals fit together as under the shifts of a calibration.

use crate::error_scale::{Circumstances, ErrorScale, Grid, KnownError};
use crate::regression::{Observed, Regression};
use crate::signals::log_odds;
use crate::{EstimateError, SignalSample, Signals};
use serde::{Deserialize, Serialize};

/// A test for shifts unlike all of a calibration's.
///
/// *Idea.* Under the calibration's shifts each signal can be told from the others: the second look repairs what they do to a network, and is as sure of itself as the disagreement of the two
/// looks lets expect. Where a signal is not what the others say, the images differ in a way that no known shift does, and so may errors.
/// *Formula.* Ridge regressions of the log-odds of `confidence`, `cross` and `second_confidence`, each on all other signals. The residuals of kinds of shift that they were fitted without have scales `s^2 = t^2 + c^2 / n + b^2 / k`, as errors of
/// accuracies have. The strangeness of a sample is the largest of its residuals over their scales. One that is larger than every left-out sample's is unfamiliar: of `k` kinds and a new one that is like them,
/// each is the strangest alike often, so that at most one in `k + 1` new kinds is flagged without cause.
/// *Reference.* Conformal anomaly detection: Laxhammar and Falkman, 2010; kinds of shift are what is exchangeable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Familiarity {
    told: Vec<Told>,
    /// The largest strangeness of a sample of a kind of shift that the regressions were fitted without.
    largest: f64,
}

/// A signal as the others tell it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    by_others: Regression,
    scale: ErrorScale,
}

/// The signals that are told from all others.
const TESTED: [fn(&Signals) -> f64; 3] = [|s| s.confidence, |s| s.cross, |s| s.second_confidence];

impl Familiarity {
    /// Learns from samples of these `kinds` of shift and of clean images.
    pub(crate) fn fit(samples: &[SignalSample], kinds: &[usize]) -> Result<Self, EstimateError> {
        let mut told = Vec::new();
        let mut strangeness = vec![0.0; samples.len()];
        for tested in 0..TESTED.len() {
            let mut residuals = Vec::new();
            let mut places = Vec::new();
            for &kind in kinds {
                let without = regression(samples.iter().filter(|sample| sample.group != Some(kind)), tested)?;
                for (place, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.group == Some(kind)) {
                    let error = residual(&without, &sample.signals, tested);
                    residuals.push(KnownError { error, at: circumstances(&sample.signals), group: kind });
                    places.push(place);
                }
            }
            let scale =
                ErrorScale::fit(&residuals, Grid { kinds: [0.01, 0.6], chance: [0.0, 6.0], classes: [0.0, 1.0] });
            for (place, known) in places.into_iter().zip(&residuals) {
                strangeness[place] = f64::max(strangeness[place], known.error.abs() / scale.at(&known.at));
            }
            told.push(Told { by_others: regression(samples.iter(), tested)?, scale });
        }
        Ok(Self { told, largest: strangeness.into_iter().fold(0.0, f64::max) })
    }

    /// How many times as strange `signals` are as the strangest left-out sample; above 1 they are unfamiliar.
    pub(crate) fn strangeness(&self, signals: &Signals) -> f64 {
        let sizes = self.told.iter().enumerate().map(|(tested, told)| {
            residual(&told.by_others, signals, tested).abs() / told.scale.at(&circumstances(signals))
        });
        sizes.fold(0.0, f64::max) / self.largest.max(f64::MIN_POSITIVE)
    }
}

fn regression<'a>(samples: impl Iterator<Item = &'a SignalSample>, tested: usize) -> Result<Regression, EstimateError> {
    let observed = |sample: &SignalSample| Observed {
        features: features(&sample.signals, tested),
        target: log_odds(TESTED[tested](&sample.signals)),
        weight: 1.0,
    };
    Regression::fit(&samples.map(observed).collect::<Vec<_>>())
}

fn residual(by_others: &Regression, signals: &Signals, tested: usize) -> f64 {
    log_odds(TESTED[tested](signals)) - by_others.predict(&features(signals, tested))
}

/// What tells the signal `tested`: the others that are tested and their squares, `reverse`, both concentrations, and the number of images. An entropy nearly is its look's confidence, so that neither may
/// tell the other.
fn features(signals: &Signals, tested: usize) -> Vec<f64> {
    let others = TESTED.iter().enumerate().filter(|(other, _)| *other != tested);
    let mut features: Vec<f64> = others
        .flat_map(|(_, value)| {
            let odds = log_odds(value(signals));
            [odds, odds * odds]
        })
        .collect();
    let size = signals.log_images_per_class();
    features.extend([
        log_odds(signals.reverse),
        signals.concentration,
        signals.source_concentration,
        size,
        (-0.5 * size).exp(),
    ]);
    features
}

/// Log-odds of a signal spread alike whatever the accuracy.
fn circumstances(signals: &Signals) -> Circumstances {
    let class_share = 1.0 / signals.present_classes();
    Circumstances { spread: 1.0, images: signals.images, class_share, apart: 0.0 }
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
