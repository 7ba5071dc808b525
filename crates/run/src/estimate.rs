//! Estimation: a calibration and a cell become estimates, with their intervals.

use crate::calibration::{Calibration, ModelIdentity};
use crate::cell::{CellRequest, Setting};
use crate::explain::{explain, explain_adapted};
use crate::ledger::{Ledger, scored_protocol, with_storage};
use crate::{PaperFit, RunError, Watcher};
use flipcast_estimate::{AccuracyFit, Estimate, Flag, Marginal, Reading, StepsSeen, direct_estimate};
use flipcast_record::Protocol;
use flipcast_record::results::{CalibrationCell, Cell, CellEstimates, Estimates, EstimatesResult, Fits, ScoreSummary};
use std::collections::BTreeMap;

/// Raised whenever fits or estimates change for the same cells.
pub const ESTIMATES_VERSION: u32 = 8;

/// What defines a record of `kind` that is made from cells under `setting`: fits, or estimates.
pub fn estimates_protocol(kind: &str, setting: &Setting, request: &CellRequest) -> Result<Protocol, RunError> {
    let limit = request.config.limit.unwrap_or(usize::MAX);
    let protocol = Protocol::new(kind)
        .with("version", &ESTIMATES_VERSION)?
        .with("model", &ModelIdentity::of(setting.model))?
        .with("preprocess", request.preprocess)?
        .with("class_space", &request.scope.name())?
        .with("data", &request.data)?
        .with("images", &request.dataset.len().min(limit))?
        .with("seed", &request.seed)?
        .with("flips", setting.protocol)?;
    with_storage(setting.device.describe(protocol)?, &request.config)
}

/// What turns a cell into estimates.
#[derive(Clone, Copy, Debug)]
pub enum EstimateSource<'a> {
    /// A calibration of this model, and the classes' shares where they differ from the calibration's.
    Calibration(&'a Calibration, Option<&'a Marginal>),
    /// One of the paper's own fits.
    Paper(&'a PaperFit),
}

impl Setting<'_> {
    /// Looks at the images of `request` and estimates, with intervals meant to hold the truth with probability `level`.
    /// The cell and the estimates come from `ledger`, or else are made and kept there.
    pub fn estimate(
        &self,
        source: EstimateSource,
        request: &CellRequest,
        level: f64,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<(Cell, CellEstimates), RunError> {
        let (cell, cell_key, estimates, made_with) = match source {
            EstimateSource::Calibration(calibration, marginal) => {
                let mut basis = calibration.basis.clone();
                if let Some(marginal) = marginal {
                    basis.options.marginal = marginal.clone();
                }
                let cell = self.cell("estimate", request, &basis, ledger, watcher)?;
                let key = scored_protocol("estimate", self, request, &basis)?.key();
                let estimates = calibration.estimate(&cell, level);
                (cell, key, estimates, calibration.key()?)
            }
            EstimateSource::Paper(fit) => {
                let cell = self.published_cell(request, ledger, watcher)?;
                let estimates = fit.estimate(&cell, level)?;
                (cell, self.published_protocol(request)?.key(), estimates, fit.name.to_owned())
            }
        };
        let protocol = estimates_protocol("estimates", self, request)?
            .with("calibration", &made_with)?
            .with("level", &level)?
            .with("cell", &cell_key)?;
        if ledger.find::<EstimatesResult>(&protocol)?.is_none() {
            let result = EstimatesResult::new(cell_key, &cell, estimates.clone());
            ledger.keep(protocol, &result, cell.seconds.estimators)?;
        }
        Ok((cell, estimates))
    }
}

impl Calibration {
    /// Estimates for a cell, with intervals meant to hold the truth with probability `level`.
    pub fn estimate(&self, cell: &Cell, level: f64) -> CellEstimates {
        let (source, mut explanation) = estimate_source(&self.source, self.accuracy.as_ref(), &self.cells, cell, level);
        let mut adapted = estimate_all(&self.adapted, &cell.adapted, cell, cell.probe_images, level);
        match self.estimate_adapted(cell, level) {
            // Without steps to adapt there is no adapted model, and no estimate of it.
            Some((combined, sentence)) if !adapted.is_empty() => {
                explanation.push(sentence);
                reconcile(&mut adapted, combined);
            }
            _ => {
                let of_adapted = self.cells.iter().map(|cell| (&cell.cell.adapted, cell.cell.adapted_accuracy));
                drop_false_alarms(&mut adapted, of_adapted);
                let doubt = self.accuracy.as_ref().and(source.get("combined")).filter(|combined| doubts(combined));
                if let Some(combined) = doubt.filter(|_| !adapted.is_empty()) {
                    adapted.values_mut().for_each(|estimate| reach(estimate, combined));
                    explanation.push(OF_ADAPTED.to_owned());
                }
            }
        }
        CellEstimates { source, adapted, explanation }
    }
}

impl Calibration {
    /// The adapted model's combined estimate, whatever the class shares, and what it rests on in words.
    fn estimate_adapted(&self, cell: &Cell, level: f64) -> Option<(Estimate, String)> {
        let (source, fit) = (self.accuracy.as_ref()?, self.adapted_accuracy.as_ref()?);
        let (signals, steps) = (cell.signals.as_ref()?, cell.steps?);
        let seen = StepsSeen { flips: steps.flips, images: cell.probe_images };
        let mut combined = fit.estimate(source, signals, &seen, level);
        add_flags(&mut combined, cell);
        let sentence = explain_adapted(fit, &fit.start_estimate(source, signals, level), &seen, &combined);
        Some((combined, sentence))
    }
}

/// Gives a combined estimate the doubts about the images themselves.
fn add_flags(combined: &mut Estimate, cell: &Cell) {
    combined.flags.extend(cell.flags.iter().filter(|flag| **flag != Flag::TooFewImages));
    combined.flags.sort();
    combined.flags.dedup();
}

/// Estimates of the source model's accuracy on `cell`, from what was fitted to the calibration's `cells`, and the combined one in words.
pub(crate) fn estimate_source(
    fits: &Fits,
    accuracy: Option<&AccuracyFit>,
    cells: &[CalibrationCell],
    cell: &Cell,
    level: f64,
) -> (Estimates, Vec<String>) {
    let mut explanation = Vec::new();
    let mut source = estimate_all(fits, &cell.source, cell, cell.images, level);
    match (accuracy, &cell.signals) {
        (Some(fit), Some(signals)) => {
            let mut combined = fit.estimate(signals, level);
            let clean = cells.first().and_then(|cell| cell.cell.signals.as_ref());
            explanation = explain(fit, clean, signals, &combined);
            add_flags(&mut combined, cell);
            reconcile(&mut source, combined);
        }
        _ => drop_false_alarms(&mut source, cells.iter().map(|cell| (&cell.cell.source, cell.cell.accuracy))),
    }
    (source, explanation)
}

/// What is said where the classes' shares differ.
const OF_ADAPTED: &str = "Estimates of the adapted model assume the labelled images' class shares, which these images do not have: do not rely on \
                          them.";

/// Whether class shares look other than the labelled images'.
fn doubts(combined: &Estimate) -> bool {
    combined.flags.contains(&Flag::ClassMarginalMismatch)
}

/// Gives `estimate` the doubt that `combined` has or has not, and an interval that reaches as far as it does.
fn reach(estimate: &mut Estimate, combined: &Estimate) {
    estimate.flags.retain(|flag| *flag != Flag::ClassMarginalMismatch);
    if doubts(combined) {
        estimate.flags.push(Flag::ClassMarginalMismatch);
        estimate.flags.sort();
    }
    estimate.low = estimate.low.min(combined.accuracy);
    estimate.high = estimate.high.max(combined.accuracy);
}

/// Puts the combined estimate beside the others. They were calibrated on cells of many images with the labelled images' class shares, it for the
/// cell at hand. So it decides whether shares differ, and their intervals reach at least as far as it does.
fn reconcile(estimates: &mut Estimates, combined: Estimate) {
    estimates.values_mut().for_each(|estimate| reach(estimate, &combined));
    estimates.insert("combined".to_owned(), combined);
}

/// Takes back the doubt about the classes' shares where it says nothing: a shift alone looks like other shares, the more the
/// harder it is, and calibration cells, whose shares are those of the labelled images, show from which accuracy downwards.
fn drop_false_alarms<'a>(
    estimates: &mut Estimates,
    cells: impl Iterator<Item = (&'a BTreeMap<String, ScoreSummary>, Option<f64>)>,
) {
    const DOUBT: Flag = Flag::ClassMarginalMismatch;
    let false_alarms = cells.filter_map(|(scores, accuracy)| {
        let raised = scores.values().any(|score| score.flags.contains(&DOUBT));
        accuracy.filter(|_| raised)
    });
    let highest = false_alarms.fold(0.0, f64::max);
    for estimate in estimates.values_mut() {
        if estimate.accuracy <= highest {
            estimate.flags.retain(|flag| *flag != DOUBT);
        }
    }
}

fn estimate_all(
    fits: &Fits,
    scores: &BTreeMap<String, ScoreSummary>,
    cell: &Cell,
    images: usize,
    level: f64,
) -> Estimates {
    let mut estimates = Estimates::new();
    let mut readings = BTreeMap::new();
    let mut all_flags: BTreeMap<&str, Vec<Flag>> = BTreeMap::new();
    for (name, score) in scores {
        let flags = score.flags.iter().chain(&cell.flags).copied();
        let mut unique: Vec<Flag> = flags.collect();
        unique.sort();
        unique.dedup();
        all_flags.insert(name, unique);
    }
    for (name, score) in scores {
        let reading = Reading {
            score: score.value,
            standard_error: score.standard_error.unwrap_or(0.0),
            images,
            flags: &all_flags[name.as_str()],
        };
        readings.insert(name.clone(), reading);
        let calibrated = fits.by_score.get(name).map(|fit| fit.estimate(&reading, level));
        match fits.direct.get(name) {
            Some(errors) => {
                estimates.insert(name.clone(), direct_estimate(&reading, errors, level));
                if let Some(calibrated) = calibrated {
                    estimates.insert(format!("{name}_calibrated"), calibrated);
                }
            }
            None => {
                if let Some(calibrated) = calibrated {
                    estimates.insert(name.clone(), calibrated);
                }
            }
        }
    }
    if let Some(combined) = fits.combined.estimate(&fits.by_score, &readings, level) {
        estimates.insert("combined".to_owned(), combined);
    }
    estimates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_intervals_reach_the_combined_estimate_and_share_its_doubt() {
        let doubt = Flag::ClassMarginalMismatch;
        let mut estimates = BTreeMap::from([("cot".to_owned(), Estimate::around(0.3, 0.04, Vec::new()))]);
        reconcile(&mut estimates, Estimate::around(0.7, 0.05, vec![doubt]));
        assert_eq!(estimates["cot"].high, 0.7);
        assert_eq!(estimates["cot"].flags, [doubt]);
        reconcile(&mut estimates, Estimate::around(0.7, 0.05, Vec::new()));
        assert!(estimates["cot"].flags.is_empty());
    }

    #[test]
    fn a_doubt_that_balanced_cells_raise_as_well_is_taken_back() {
        let scores = |flags: &[Flag]| {
            let score = ScoreSummary { value: 0.5, standard_error: None, flags: flags.to_vec() };
            BTreeMap::from([("cot".to_owned(), score)])
        };
        let doubt = [Flag::ClassMarginalMismatch];
        let (clean, blurred) = (scores(&[]), scores(&doubt));
        let flags_at = |accuracy: f64| {
            let flags = vec![Flag::TooFewImages, doubt[0]];
            let mut estimates = BTreeMap::from([("cot".to_owned(), Estimate::around(accuracy, 0.1, flags))]);
            let cells = [(&clean, Some(0.9)), (&blurred, Some(0.6)), (&blurred, None)];
            drop_false_alarms(&mut estimates, cells.into_iter());
            estimates["cot"].flags.clone()
        };
        assert_eq!(flags_at(0.55), [Flag::TooFewImages]);
        assert_eq!(flags_at(0.65), [Flag::TooFewImages, doubt[0]]);
    }
}
