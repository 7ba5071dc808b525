//! From what candidates say to what they gain, learned on calibration cells.

use crate::least_squares::least_squares;
use crate::{EstimateError, GainSignals, grouped_quantile};
use serde::{Deserialize, Serialize};

/// The fewest samples to learn from.
const FEWEST_SAMPLES: usize = 16;
/// Share of the mean squares of features by which coefficients are shrunk.
const SHRINKAGE: f64 = 0.01;

/// A candidate on labelled images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainSample {
    /// What was seen.
    pub signals: GainSignals,
    /// Its accuracy less the source model's.
    pub gain: f64,
    /// The kind of shift.
    pub kind: usize,
}

impl GainSample {
    /// The same as if there had been no other candidates.
    pub fn alone(&self) -> Self {
        Self { signals: GainSignals { panel_cross: 0.0, panel_source: 0.0, ..self.signals }, ..*self }
    }
}

/// The gain of an adapted model over the source model, from [`GainSignals`].
///
/// *Idea.* Two models differ in accuracy only by images on which their answers differ. On those, the probability that the source model, the candidate
/// and all other candidates give to either answer tells who is right more often; that a candidate answers with few classes, over all or within a batch, tells
/// when it is wrong. Candidates on labelled calibration cells teach the weights.
/// *Formula.* Ridge regression without intercept of the gain on `cross - source_confidence`, `confidence - reverse`, `panel_cross - panel_source`, `flips`, and
/// `flips` times `source_confidence`, times the candidate's concentration less the source model's, and times the same within batches. The error of a gain from
/// `n` images has the scale `s^2 = flips^2 + flips / n`; the half width is `s` times the [`grouped_quantile`] of `|error| / s` over kinds of shift that the
/// fit had not seen.
/// *Reference.* Flipcast's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainFit {
    coefficients: Vec<f64>,
    /// Truth less estimate in scales, on kinds that the fit had not seen, and the kinds.
    errors: Vec<f64>,
    kinds: Vec<usize>,
    /// The mean absolute error there.
    mae: f64,
}

impl GainFit {
    /// Learns from labelled cells.
    ///
    /// # Errors
    /// When there are fewer than two kinds of shift or too few samples.
    pub fn fit(samples: &[GainSample]) -> Result<Self, EstimateError> {
        if samples.len() < FEWEST_SAMPLES {
            let (found, expected) = (samples.len(), FEWEST_SAMPLES);
            return Err(EstimateError::TooFew { what: "candidates on calibration cells", found, expected });
        }
        let mut known: Vec<usize> = samples.iter().map(|sample| sample.kind).collect();
        known.sort_unstable();
        known.dedup();
        if known.len() < 2 {
            return Err(EstimateError::TooFew { what: "kinds of shift", found: known.len(), expected: 2 });
        }
        let (mut errors, mut kinds, mut total) = (Vec::new(), Vec::new(), 0.0);
        for &kind in &known {
            let without = regress(samples.iter().filter(|sample| sample.kind != kind))?;
            for sample in samples.iter().filter(|sample| sample.kind == kind) {
                let error = sample.gain - weigh(&without, &sample.signals);
                total += error.abs();
                if sample.signals.flips > 0.0 {
                    errors.push(error / scale(&sample.signals));
                    kinds.push(kind);
                }
            }
        }
        Ok(Self { coefficients: regress(samples.iter())?, errors, kinds, mae: total / samples.len() as f64 })
    }

    /// The gain that belongs to `signals`.
    pub fn gain(&self, signals: &GainSignals) -> f64 {
        weigh(&self.coefficients, signals).clamp(-1.0, 1.0)
    }

    /// Half the width of an interval about the gain meant to hold the truth with probability `level`.
    pub fn half_width(&self, signals: &GainSignals, level: f64) -> f64 {
        let sizes: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
        match grouped_quantile(&sizes, &self.kinds, level) {
            Some(quantile) => (quantile * scale(signals)).min(1.0),
            None => 1.0,
        }
    }

    /// The probability that the candidate loses accuracy, every kind of shift counted alike.
    pub fn risk(&self, signals: &GainSignals) -> f64 {
        if signals.flips == 0.0 || self.errors.is_empty() {
            return 0.0;
        }
        let limit = -self.gain(signals) / scale(signals);
        let mut of_kind = std::collections::BTreeMap::new();
        for (&error, &kind) in self.errors.iter().zip(&self.kinds) {
            let (below, all) = of_kind.entry(kind).or_insert((0.0, 0.0));
            *below += f64::from(u8::from(error < limit));
            *all += 1.0;
        }
        of_kind.values().map(|(below, all)| below / all).sum::<f64>() / of_kind.len() as f64
    }

    /// The mean absolute error on kinds of shift that the fit had not seen.
    pub fn mae(&self) -> f64 {
        self.mae
    }
}

/// The size an error has.
fn scale(signals: &GainSignals) -> f64 {
    let flips = signals.flips;
    (flips * flips + flips / signals.images.max(1) as f64).sqrt()
}

fn weigh(coefficients: &[f64], signals: &GainSignals) -> f64 {
    coefficients.iter().zip(signals.features()).map(|(weight, feature)| weight * feature).sum()
}

fn regress<'a>(samples: impl Iterator<Item = &'a GainSample>) -> Result<Vec<f64>, EstimateError> {
    let (rows, mut target): (Vec<Vec<f64>>, Vec<f64>) =
        samples.map(|sample| (sample.signals.features(), sample.gain)).unzip();
    let width = rows.first().map_or(0, Vec::len);
    let sizes: Vec<f64> = (0..width)
        .map(|j| (rows.iter().map(|row| row[j] * row[j]).sum::<f64>() / rows.len() as f64).sqrt() + 1e-9)
        .collect();
    // Rows of the penalty follow those of the samples.
    let penalty = (SHRINKAGE * rows.len() as f64).sqrt();
    let columns: Vec<Vec<f64>> = (0..width)
        .map(|j| {
            let shrunk = (0..width).map(|row| if row == j { penalty } else { 0.0 });
            rows.iter().map(|row| row[j] / sizes[j]).chain(shrunk).collect()
        })
        .collect();
    target.extend(vec![0.0; width]);
    let coefficients = least_squares(&columns, &target).ok_or(EstimateError::Undefined {
        what: "a regression of gains",
        found: "a signal that is not finite",
        expected: "finite ones",
    })?;
    Ok(coefficients.iter().zip(&sizes).map(|(weight, size)| weight / size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// Candidates of which the panel knows whether they are right.
    fn samples(kinds: usize, noise: f64) -> Vec<GainSample> {
        let mut random = SplitMix64::new(5);
        let mut one = |kind| {
            let flips = 0.05 + 0.4 * random.uniform();
            let signals = GainSignals {
                images: 1000,
                flips,
                source_confidence: 0.4 + 0.2 * random.uniform(),
                cross: 0.2,
                confidence: 0.7,
                reverse: 0.3 + 0.1 * random.uniform(),
                panel_cross: 0.2 + 0.3 * random.uniform(),
                panel_source: 0.3,
                ..GainSignals::default()
            };
            let gain = signals.panel_cross - signals.panel_source + noise * flips * random.normal();
            GainSample { signals, gain, kind }
        };
        (0..20 * kinds).map(|i| one(i % kinds)).collect()
    }

    #[test]
    fn a_gain_that_the_panel_knows_is_found() {
        let samples = samples(12, 0.0);
        let fit = GainFit::fit(&samples).unwrap();
        assert!(fit.mae() < 0.01, "{}", fit.mae());
        let (won, lost) = (
            &samples.iter().find(|s| s.gain > 0.1).unwrap().signals,
            &samples.iter().find(|s| s.gain < -0.05).unwrap().signals,
        );
        assert!(fit.gain(won) > 0.08 && fit.risk(won) < 0.01);
        assert!(fit.gain(lost) < -0.03 && fit.risk(lost) > 0.99);
    }

    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let samples = samples(15, 0.2);
        let (taught, asked) = samples.split_at(150);
        let fit = GainFit::fit(taught).unwrap();
        let holds = |s: &&GainSample| (fit.gain(&s.signals) - s.gain).abs() <= fit.half_width(&s.signals, 0.9);
        let share = asked.iter().filter(holds).count() as f64 / asked.len() as f64;
        assert!(share > 0.85, "{share}");
    }

    #[test]
    fn who_changes_nothing_gains_nothing() {
        let fit = GainFit::fit(&samples(12, 0.1)).unwrap();
        let same = GainSignals { images: 100, source_confidence: 0.5, cross: 0.5, ..GainSignals::default() };
        assert_eq!((fit.gain(&same), fit.half_width(&same, 0.9), fit.risk(&same)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn too_little_to_learn_from_is_refused() {
        let all = samples(1, 0.1);
        assert!(matches!(GainFit::fit(&all[..8]), Err(EstimateError::TooFew { found: 8, .. })));
        assert!(matches!(GainFit::fit(&all), Err(EstimateError::TooFew { found: 1, .. })));
    }
}
