//! From what candidates say to what they gain, learned on calibration cells.

use crate::least_squares::least_squares;
use crate::{EstimateError, GainSignals, grouped_quantile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

/// The fewest samples to learn from.
const FEWEST_SAMPLES: usize = 16;
/// The fewest kinds of shift from which the risk of losing accuracy is told, clean images counted: from as many on, intervals of 90% are known.
const FEWEST_KINDS: usize = 9;
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
/// *Idea.* Two models differ in accuracy only by images on which their answers differ. Who is surer of its answers is right more often, wherever the probabilities were made comparable
/// on clean images; all other candidates together tell too; a candidate that answers with few classes within a batch, or that changes many answers, is wrong more often than it is sure. How few classes
/// the source model answers with is ambiguous: the images may hold few, or a shift may have driven it there. A regression that uses it tells small differences of candidates under shifts like those of
/// the calibration, and is far off under others; one that does not extrapolates. The gain is the mean of both.
/// *Formula.* Two ridge regressions without intercept. The small one is on `confidence - source_confidence`, `panel_cross - panel_source`, `flips`, and `flips` times the candidate's concentration
/// within batches. The large one is on `cross - source_confidence`, `confidence - reverse`, `panel_cross - panel_source`, `flips`, `flips` times `source_confidence`, times the candidate's concentration less the source
/// model's, times the same within batches, and times `confidence`, and on `confidence - source_confidence`. Where there are no flips, there is no gain. A candidate that runs alone has the small one only. The error of a gain from
/// `n` images has the scale `s^2 = flips^2 + flips / n`; the half width is `s` times the [`grouped_quantile`] of `|error| / s` over kinds of shift that the
/// fit had not seen. Of candidates beside each other the best is chosen, often one whose gain is overestimated: of every cell the candidate with the largest error counts.
/// *Reference.* Flipcast's own; that differences of mean confidence tell differences of accuracy goes back to Guillory et al., "Predicting with Confidence on Unseen Distributions", ICCV 2021.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainFit {
    /// Weights of the large regression; none for a candidate that runs alone.
    coefficients: Vec<f64>,
    /// Weights of the small one; none in a fit of an earlier version.
    #[serde(default)]
    small: Vec<f64>,
    /// Truth less estimate in scales, on kinds that the fit had not seen, and the kinds.
    errors: Vec<f64>,
    kinds: Vec<usize>,
    /// The largest of the errors' sizes in every cell, and the cells' kinds; none in a fit of an earlier version or of candidates that run alone, of which none is chosen.
    #[serde(default)]
    largest: Vec<(f64, usize)>,
    /// The mean absolute error there.
    mae: f64,
}

impl GainFit {
    /// Learns from labelled cells, each with all candidates beside each other.
    ///
    /// # Errors
    /// When there are fewer than two kinds of shift or too few samples.
    pub fn fit(cells: &[Vec<GainSample>]) -> Result<Self, EstimateError> {
        let large = |samples: &[&GainSample]| regress(samples, GainSignals::features);
        let mut fit = Self::learn(&cells.concat(), |samples| Ok((large(samples)?, small(samples)?)))?;
        let mut errors = fit.errors.iter();
        for cell in cells {
            let sizes = cell.iter().filter(|sample| sample.signals.flips > 0.0).zip(&mut errors);
            let worst = sizes.map(|(sample, error)| (error.abs(), sample.kind)).max_by(|a, b| a.0.total_cmp(&b.0));
            fit.largest.extend(worst);
        }
        Ok(fit)
    }

    /// Learns for candidates that run alone.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_alone(samples: &[GainSample]) -> Result<Self, EstimateError> {
        let alone: Vec<GainSample> = samples.iter().map(GainSample::alone).collect();
        Self::learn(&alone, |samples| Ok((Vec::new(), small(samples)?)))
    }

    fn learn(samples: &[GainSample], regress: impl Fn(&[&GainSample]) -> Weights) -> Result<Self, EstimateError> {
        if samples.len() < FEWEST_SAMPLES {
            let (found, expected) = (samples.len(), FEWEST_SAMPLES);
            return Err(EstimateError::TooFew { what: "candidates on calibration cells", found, expected });
        }
        let of = |samples: &[&GainSample]| -> Result<Self, EstimateError> {
            let (coefficients, small) = regress(samples)?;
            let (errors, kinds, largest) = (Vec::new(), Vec::new(), Vec::new());
            Ok(Self { coefficients, small, errors, kinds, largest, mae: 0.0 })
        };
        let mut without = BTreeMap::new();
        for kind in samples.iter().map(|sample| sample.kind) {
            if let Entry::Vacant(entry) = without.entry(kind) {
                let others: Vec<&GainSample> = samples.iter().filter(|sample| sample.kind != kind).collect();
                if others.is_empty() {
                    return Err(EstimateError::TooFew { what: "kinds of shift", found: 1, expected: 2 });
                }
                entry.insert(of(&others)?);
            }
        }
        let mut fit = of(&samples.iter().collect::<Vec<_>>())?;
        for sample in samples {
            let error = sample.gain - without[&sample.kind].weigh(&sample.signals);
            fit.mae += error.abs() / samples.len() as f64;
            if sample.signals.flips > 0.0 {
                fit.errors.push(error / scale(&sample.signals));
                fit.kinds.push(sample.kind);
            }
        }
        Ok(fit)
    }

    /// The gain that belongs to `signals`.
    pub fn gain(&self, signals: &GainSignals) -> f64 {
        self.weigh(signals).clamp(-1.0, 1.0)
    }

    fn weigh(&self, signals: &GainSignals) -> f64 {
        let small = || weigh(&self.small, &signals.small_features());
        let large = || weigh(&self.coefficients, &signals.features());
        match (self.coefficients.is_empty(), self.small.is_empty()) {
            (true, _) => small(),
            (false, true) => large(),
            (false, false) => 0.5 * (small() + large()),
        }
    }

    /// Half the width of an interval about the gain meant to hold the truth with probability `level`; 2 where the fit knows too few kinds of shift, so
    /// that no gain lies outside.
    pub fn half_width(&self, signals: &GainSignals, level: f64) -> f64 {
        let quantile = if self.largest.is_empty() {
            let sizes: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
            grouped_quantile(&sizes, &self.kinds, level)
        } else {
            let (sizes, kinds): (Vec<f64>, Vec<usize>) = self.largest.iter().copied().unzip();
            grouped_quantile(&sizes, &kinds, level)
        };
        match quantile {
            Some(quantile) => (quantile * scale(signals)).min(1.0),
            None => 2.0,
        }
    }

    /// Whether the fit knows enough kinds of shift to tell the risk of losing accuracy.
    pub fn tells_risk(&self) -> bool {
        self.kinds.iter().collect::<BTreeSet<_>>().len() >= FEWEST_KINDS
    }

    /// The probability that the candidate loses accuracy, every kind of shift counted alike; `None` where the fit knows too few of them.
    pub fn risk(&self, signals: &GainSignals) -> Option<f64> {
        if signals.flips == 0.0 {
            return Some(0.0);
        }
        if !self.tells_risk() {
            return None;
        }
        let limit = -self.gain(signals) / scale(signals);
        let mut of_kind = BTreeMap::new();
        for (&error, &kind) in self.errors.iter().zip(&self.kinds) {
            let (below, all) = of_kind.entry(kind).or_insert((0.0, 0.0));
            *below += f64::from(u8::from(error < limit));
            *all += 1.0;
        }
        Some(of_kind.values().map(|(below, all)| below / all).sum::<f64>() / of_kind.len() as f64)
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

/// Features beyond the coefficients of an earlier version's fit did not exist then.
fn weigh(coefficients: &[f64], features: &[f64]) -> f64 {
    coefficients.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
}

/// Of the large regression and of the small one.
type Weights = Result<(Vec<f64>, Vec<f64>), EstimateError>;

fn small(samples: &[&GainSample]) -> Result<Vec<f64>, EstimateError> {
    regress(samples, |signals| signals.small_features().to_vec())
}

fn regress(samples: &[&GainSample], features: impl Fn(&GainSignals) -> Vec<f64>) -> Result<Vec<f64>, EstimateError> {
    let (rows, mut target): (Vec<Vec<f64>>, Vec<f64>) =
        samples.iter().map(|sample| (features(&sample.signals), sample.gain)).unzip();
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

    /// Cells of one candidate.
    fn alone_in_cells(samples: &[GainSample]) -> Vec<Vec<GainSample>> {
        samples.iter().map(|sample| vec![*sample]).collect()
    }

    #[test]
    fn a_gain_that_the_panel_knows_is_found() {
        let samples = samples(12, 0.0);
        let fit = GainFit::fit(&alone_in_cells(&samples)).unwrap();
        assert!(fit.mae() < 0.01, "{}", fit.mae());
        let (won, lost) = (
            &samples.iter().find(|s| s.gain > 0.1).unwrap().signals,
            &samples.iter().find(|s| s.gain < -0.05).unwrap().signals,
        );
        assert!(fit.gain(won) > 0.08 && fit.risk(won).unwrap() < 0.01);
        assert!(fit.gain(lost) < -0.03 && fit.risk(lost).unwrap() > 0.99);
    }

    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let samples = samples(15, 0.2);
        let (taught, asked) = samples.split_at(150);
        let fit = GainFit::fit(&alone_in_cells(taught)).unwrap();
        let holds = |s: &&GainSample| (fit.gain(&s.signals) - s.gain).abs() <= fit.half_width(&s.signals, 0.9);
        let share = asked.iter().filter(holds).count() as f64 / asked.len() as f64;
        assert!(share > 0.85, "{share}");
    }

    #[test]
    fn who_changes_nothing_gains_nothing() {
        let fit = GainFit::fit(&alone_in_cells(&samples(12, 0.1))).unwrap();
        let same = GainSignals { images: 100, source_confidence: 0.5, cross: 0.5, ..GainSignals::default() };
        assert_eq!((fit.gain(&same), fit.half_width(&same, 0.9), fit.risk(&same)), (0.0, 0.0, Some(0.0)));
    }

    #[test]
    fn few_kinds_of_shift_tell_neither_risk_nor_interval() {
        for (kinds, known) in [(3, false), (8, false), (9, true)] {
            let samples = samples(kinds, 0.1);
            let fit = GainFit::fit(&alone_in_cells(&samples)).unwrap();
            assert_eq!((fit.tells_risk(), fit.risk(&samples[0].signals).is_some()), (known, known), "{kinds} kinds");
            assert_eq!(fit.half_width(&samples[0].signals, 0.9) == 2.0, !known, "{kinds} kinds");
        }
    }

    #[test]
    fn too_little_to_learn_from_is_refused() {
        let all = samples(1, 0.1);
        assert!(matches!(GainFit::fit(&[all[..8].to_vec()]), Err(EstimateError::TooFew { found: 8, .. })));
        assert!(matches!(GainFit::fit(&alone_in_cells(&all)), Err(EstimateError::TooFew { found: 1, .. })));
    }

    #[test]
    fn intervals_hold_for_the_candidate_that_looks_best() {
        let all = samples(15, 0.2);
        // Ten candidates that gain alike, whose signals err each in its own way.
        let cells: Vec<Vec<GainSample>> = all.chunks(10).map(<[GainSample]>::to_vec).collect();
        let cells: Vec<Vec<GainSample>> = cells
            .iter()
            .enumerate()
            .map(|(number, cell)| cell.iter().map(|sample| GainSample { kind: number % 15, ..*sample }).collect())
            .collect();
        let fit = GainFit::fit(&cells).unwrap();
        let single = GainFit::fit(&alone_in_cells(&cells.concat())).unwrap();
        assert!(fit.half_width(&all[0].signals, 0.9) > 1.2 * single.half_width(&all[0].signals, 0.9));
        assert_eq!(fit.gain(&all[0].signals), single.gain(&all[0].signals));
    }

    #[test]
    fn a_source_model_driven_to_few_answers_is_no_stream_of_few_classes() {
        // Class shares alone teach that a concentrated source model is right, as on calibrations of ten classes.
        let mut random = SplitMix64::new(7);
        let mut sample = |number: usize| {
            let (few, flips) = (number % 2 == 1, 0.05 + 0.4 * random.uniform());
            let gain = if few { -0.9 * flips } else { 0.3 * flips };
            let confidence = 0.9 + gain * (0.8 + 0.1 * random.uniform());
            let concentration = if few { 1.5 } else { 0.0 };
            let signals = GainSignals {
                images: 512,
                flips,
                source_confidence: 0.9,
                cross: 0.9 - 0.8 * flips,
                confidence,
                reverse: confidence - 0.5 * flips,
                source_concentration: concentration,
                source_batch_concentration: concentration,
                concentration: 0.3 * concentration,
                batch_concentration: 0.3 * concentration,
                ..GainSignals::default()
            };
            GainSample { signals, gain, kind: number % 12 / 2 }
        };
        let samples: Vec<GainSample> = (0..240).map(&mut sample).collect();
        let fit = GainFit::fit_alone(&samples).unwrap();
        let collapsed = GainSignals {
            images: 512,
            flips: 0.9,
            source_confidence: 0.72,
            cross: 0.13,
            confidence: 0.87,
            reverse: 0.1,
            source_concentration: 1.85,
            source_batch_concentration: 1.84,
            concentration: 0.03,
            ..GainSignals::default()
        };
        assert!(fit.gain(&collapsed) > 0.1, "{}", fit.gain(&collapsed));
        assert!(samples.iter().filter(|s| s.gain < 0.0).all(|s| fit.gain(&s.signals) < 0.0));
    }

    #[test]
    fn a_fit_of_an_earlier_version_gives_what_it_gave() {
        let mut stored = serde_json::to_value(GainFit::fit(&alone_in_cells(&samples(12, 0.1))).unwrap()).unwrap();
        let fields = stored.as_object_mut().unwrap();
        fields["coefficients"].as_array_mut().unwrap().truncate(7);
        fields.retain(|name, _| name != "small" && name != "largest");
        let earlier: GainFit = serde_json::from_value(stored).unwrap();
        let signals = samples(1, 0.0)[0].signals;
        let expected = weigh(&earlier.coefficients, &signals.features()[..7]);
        assert_eq!(earlier.gain(&signals), expected);
        assert!(earlier.half_width(&signals, 0.9) > 0.0);
    }
}
