//! Several estimators as one.

use crate::score_fit::{half_width, raise, sampling_variance};
use crate::{Estimate, EstimateError, Flag, Reading, ScoreFit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The scores a combination is looked for among, best guess first.
///
/// Transport sees how sure the predictions are and whether the classes' shares are plausible; flips see how far the
/// activations have moved. They err in different ways, which is why their mean errs less than either.
const CANDIDATES: [&str; 2] = ["cot", "wf"];

/// The mean of several calibrated estimates, chosen on calibration cells alone.
///
/// *Idea.* Errors of estimators that look at different things partly cancel.
/// *Formula.* `sum_m w_m f_m(score_m)`, equal weights.
/// *Reference.* None; flipcast's own.
/// *Departures from the reference.* None.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combination {
    /// Scores and their weights, which sum to 1.
    pub weights: BTreeMap<String, f64>,
    /// Prediction minus truth of every calibration cell, predicted without its group.
    pub errors: Vec<f64>,
    /// The part of the squared errors that sampling explains, on average.
    pub sampling_variance: f64,
}

impl Combination {
    /// Combines what is there of the candidates.
    pub fn fit(fits: &BTreeMap<String, ScoreFit>) -> Result<Self, EstimateError> {
        let members: Vec<&str> = CANDIDATES
            .into_iter()
            .filter(|name| fits.contains_key(*name))
            .collect();
        let weight = 1.0 / members.len().max(1) as f64;
        let cells = fits.values().map(|fit| fit.errors.len()).min().unwrap_or(0);
        let mut errors = vec![0.0; cells];
        let mut sampling_variance = 0.0;
        for name in &members {
            let fit = &fits[*name];
            for (error, of_member) in errors.iter_mut().zip(&fit.errors) {
                *error += weight * of_member;
            }
            sampling_variance += weight * fit.sampling_variance;
        }
        let weights = members
            .iter()
            .map(|name| ((*name).to_owned(), weight))
            .collect();
        Ok(Self {
            weights,
            errors,
            sampling_variance,
        })
    }

    /// The combined estimate; `None` if a member has no reading.
    pub fn estimate(
        &self,
        fits: &BTreeMap<String, ScoreFit>,
        readings: &BTreeMap<String, Reading>,
        level: f64,
    ) -> Option<Estimate> {
        if self.weights.is_empty() {
            return None;
        }
        let (mut accuracy, mut sampling) = (0.0, 0.0);
        let mut flags: Vec<Flag> = Vec::new();
        for (name, weight) in &self.weights {
            let (fit, reading) = (fits.get(name)?, readings.get(name)?);
            let estimate = fit.estimate(reading, level);
            accuracy += weight * estimate.accuracy;
            sampling += weight
                * sampling_variance(
                    &fit.curve,
                    reading.score,
                    reading.standard_error,
                    estimate.accuracy,
                    reading.images,
                );
            estimate
                .flags
                .iter()
                .for_each(|flag| raise(&mut flags, *flag));
        }
        let half_width = half_width(&self.errors, sampling - self.sampling_variance, level);
        Some(Estimate::around(accuracy, half_width, flags))
    }
}
