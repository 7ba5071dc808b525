//! Several estimators as one.

use crate::score_fit::raise;
use crate::{ErrorModel, Estimate, EstimateError, Flag, Reading, ScoreFit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A weighted mean of two calibrated estimates, weighed on calibration cells alone.
///
/// *Idea.* Transport sees how sure the predictions are and whether the classes' shares are plausible; flips see how far the
/// activations have moved. They err in different ways, so their mean errs less than either.
/// *Formula.* `w f_1(score_1) + (1 - w) f_2(score_2)` with `w` from 0 to 1 minimising `sum_c (w e_1c + (1 - w) e_2c)^2` over the
/// calibration cells, where `e` are errors on corruptions the curves were fitted without.
/// The half width is `sqrt(sum_m (w_m h_m)^2)` of the members' own, as for independent errors: how far they cancelled on the
/// cells that chose the weight says too little about the next shift.
/// *Reference.* Stacking (Wolpert 1992; Breiman 1996) with one weight; the pair is flipcast's own.
/// *Departures from the reference.* A member that says nothing ([`Flag::FilterStarved`]) is left out where another is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combination {
    /// Scores and their weights, which sum to 1.
    pub weights: BTreeMap<String, f64>,
    /// Errors on cells predicted without their group; the weight was chosen on the same cells.
    pub errors: ErrorModel,
}

impl Combination {
    /// Combines two scores, or takes the one that is there.
    pub fn fit(fits: &BTreeMap<String, ScoreFit>, members: [&str; 2]) -> Result<Self, EstimateError> {
        let named = |name: &&str| fits.get(*name).map(|fit| ((*name).to_owned(), fit));
        let found: Vec<(String, &ScoreFit)> = members.iter().filter_map(named).collect();
        let weights = match found.as_slice() {
            [(_, a), (_, b)] => {
                let weight = best_weight(&a.errors.errors, &b.errors.errors);
                vec![weight, 1.0 - weight]
            }
            [_] => vec![1.0],
            _ => {
                return Err(EstimateError::Empty { what: "calibrated scores to combine" });
            }
        };
        let first = &found[0].1.errors;
        let mut errors = vec![0.0; first.errors.len()];
        let mut sampling_variance = 0.0;
        for ((_, fit), weight) in found.iter().zip(&weights) {
            for (error, of_member) in errors.iter_mut().zip(&fit.errors.errors) {
                *error += weight * of_member;
            }
            sampling_variance += weight * fit.errors.sampling_variance;
        }
        let names = found.iter().map(|(name, _)| name.clone());
        Ok(Self {
            weights: names.zip(weights).collect(),
            errors: ErrorModel { errors, sampling_variance, ..first.clone() },
        })
    }

    /// The combined estimate; `None` if a member has no reading.
    pub fn estimate(
        &self,
        fits: &BTreeMap<String, ScoreFit>,
        readings: &BTreeMap<String, Reading>,
        level: f64,
    ) -> Option<Estimate> {
        let mut members = Vec::new();
        for (name, weight) in &self.weights {
            members.push((fits.get(name)?, readings.get(name)?, *weight));
        }
        let mut flags: Vec<Flag> = Vec::new();
        let is_starved = |reading: &Reading| reading.flags.contains(&Flag::FilterStarved);
        if members.iter().any(|(_, reading, _)| !is_starved(reading)) {
            let before = members.len();
            members.retain(|(_, reading, _)| !is_starved(reading));
            if members.len() < before {
                flags.push(Flag::FilterStarved);
                let equal = 1.0 / members.len() as f64;
                members.iter_mut().for_each(|(_, _, weight)| *weight = equal);
            }
        }
        let (mut accuracy, mut squares) = (0.0, 0.0);
        for (fit, reading, weight) in members {
            let (member, half_width) = fit.estimate_and_half_width(reading, level);
            accuracy += weight * member.accuracy;
            squares += (weight * half_width).powi(2);
            for flag in member.flags {
                raise(&mut flags, flag);
            }
        }
        Some(Estimate::around(accuracy, squares.sqrt(), flags))
    }
}

/// The weight of `a` at which `w a + (1 - w) b` has the smallest sum of squares; one half where both are the same.
fn best_weight(a: &[f64], b: &[f64]) -> f64 {
    let pairs = || a.iter().zip(b);
    let apart: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    if apart == 0.0 {
        return 0.5;
    }
    let towards: f64 = pairs().map(|(a, b)| b * (b - a)).sum();
    (towards / apart).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_cancel_share_the_weight() {
        assert_eq!(best_weight(&[0.1, -0.1], &[-0.1, 0.1]), 0.5);
        let weight = best_weight(&[0.1, -0.1], &[-0.3, 0.3]);
        assert!((weight - 0.75).abs() < 1e-12, "{weight}");
    }

    #[test]
    fn a_starved_member_is_left_out() {
        let point = |group: usize, step: usize| crate::FitPoint {
            score: 0.1 * step as f64,
            standard_error: 0.001,
            accuracy: 0.9 - 0.1 * step as f64 + 0.01 * group as f64,
            images: 1000,
            group,
        };
        let points: Vec<_> = (0..15).map(|i| point(i / 5, i % 5)).collect();
        let fit = ScoreFit::fit(crate::CurveKind::Linear, crate::Direction::Decreasing, &points).unwrap();
        let fits = BTreeMap::from([("cot".to_owned(), fit.clone()), ("wf".to_owned(), fit)]);
        let combination = Combination::fit(&fits, ["cot", "wf"]).unwrap();
        let reading =
            |score: f64, flags: &'static [Flag]| Reading { score, standard_error: 0.001, images: 1000, flags };
        let together = |flags: &'static [Flag]| {
            let readings =
                BTreeMap::from([("cot".to_owned(), reading(0.4, &[])), ("wf".to_owned(), reading(0.0, flags))]);
            combination.estimate(&fits, &readings, 0.9).unwrap()
        };
        let (both, one) = (together(&[]), together(&[Flag::FilterStarved]));
        assert!((both.accuracy - 0.71).abs() < 0.01, "{both:?}");
        assert!((one.accuracy - 0.51).abs() < 0.01, "{one:?}");
        assert_eq!(one.flags, [Flag::FilterStarved]);
    }

    #[test]
    fn a_member_that_only_adds_error_gets_no_weight() {
        assert_eq!(best_weight(&[0.01, 0.01], &[0.2, 0.3]), 1.0);
        assert_eq!(best_weight(&[0.2, 0.3], &[0.01, 0.01]), 0.0);
        assert_eq!(best_weight(&[0.2, 0.3], &[0.2, 0.3]), 0.5);
    }
}
