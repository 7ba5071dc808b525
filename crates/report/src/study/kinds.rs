//! What estimates look like to sections and figures, whichever kind of record they come from.

use flipcast_estimate::{Flag, score_info};
use flipcast_record::results::{Cell, EstimatesResult, ScoreSummary};
use std::collections::BTreeMap;

/// What an estimator says; a raw score has no interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Guess {
    pub accuracy: f64,
    /// Low and high end.
    pub interval: Option<(f64, f64)>,
    pub flags: Vec<Flag>,
}

/// Every estimator for one dataset.
#[derive(Clone, Debug)]
pub(crate) struct Estimates {
    /// Key of the cell's record.
    pub cell: String,
    pub images: usize,
    pub accuracy: Option<f64>,
    pub adapted_accuracy: Option<f64>,
    pub source: BTreeMap<String, Guess>,
    pub adapted: BTreeMap<String, Guess>,
    /// The combined estimate in words.
    pub explanation: Vec<String>,
}

impl From<EstimatesResult> for Estimates {
    fn from(result: EstimatesResult) -> Self {
        let guesses = |estimates: flipcast_record::results::Estimates| {
            let guess = |estimate: flipcast_estimate::Estimate| Guess {
                accuracy: estimate.accuracy,
                interval: Some((estimate.low, estimate.high)),
                flags: estimate.flags,
            };
            estimates.into_iter().map(|(name, estimate)| (name, guess(estimate))).collect()
        };
        Self {
            cell: result.cell,
            images: result.images,
            accuracy: result.accuracy,
            adapted_accuracy: result.adapted_accuracy,
            source: guesses(result.source),
            adapted: guesses(result.adapted),
            explanation: result.explanation,
        }
    }
}

impl Estimates {
    /// What the raw scores of a cell say without a calibration.
    pub fn of_cell(cell: &Cell, key: &str) -> Self {
        let guesses = |scores: &BTreeMap<String, ScoreSummary>| {
            let is_accuracy = |name: &str| score_info(name).is_some_and(|info| info.is_accuracy);
            let guess = |score: &ScoreSummary| Guess {
                accuracy: score.value,
                interval: None,
                flags: score.flags.iter().chain(&cell.flags).copied().collect(),
            };
            let direct = scores.iter().filter(|(name, _)| is_accuracy(name));
            direct.map(|(name, score)| (name.clone(), guess(score))).collect()
        };
        Self {
            cell: key.to_owned(),
            images: cell.images,
            accuracy: cell.accuracy,
            adapted_accuracy: cell.adapted_accuracy,
            source: guesses(&cell.source),
            adapted: guesses(&cell.adapted),
            explanation: Vec::new(),
        }
    }
}
