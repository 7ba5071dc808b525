use super::{Entry, Estimates, Guess, estimator_order};
use std::collections::{BTreeMap, BTreeSet};

/// Which of the two numbers is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The accuracy of the model as it came.
    Source,
    /// Its accuracy after it adapted to the images.
    Adapted,
}

impl Which {
    pub fn guesses(self, result: &Estimates) -> &BTreeMap<String, Guess> {
        match self {
            Self::Source => &result.source,
            Self::Adapted => &result.adapted,
        }
    }

    pub fn truth(self, result: &Estimates) -> Option<f64> {
        match self {
            Self::Source => result.accuracy,
            Self::Adapted => result.adapted_accuracy,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Source => "source model",
            Self::Adapted => "adapted model",
        }
    }
}

/// How an estimator does where the truth is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quality {
    /// Datasets.
    pub datasets: usize,
    /// Mean absolute error.
    pub mae: f64,
    /// Largest absolute error.
    pub worst: f64,
    /// Mean of estimate minus truth.
    pub bias: f64,
    /// Intervals that hold the truth, and intervals there are.
    pub held: (usize, usize),
    /// Mean width of intervals.
    pub width: Option<f64>,
}

/// All estimators of some datasets, in the order of tables.
pub(crate) fn estimators_of<'a>(entries: impl IntoIterator<Item = &'a Entry<Estimates>>, which: Which) -> Vec<String> {
    let names: BTreeSet<String> =
        entries.into_iter().flat_map(|entry| which.guesses(&entry.result).keys().cloned()).collect();
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by(|a, b| estimator_order(a).cmp(&estimator_order(b)));
    names
}

/// Mean absolute error with every row of the plan counting alike, as in the paper's tables, and the number of rows; a
/// dataset without a row is one.
pub(crate) fn row_error(entries: &[&Entry<Estimates>], which: Which, estimator: &str) -> Option<(f64, usize)> {
    let mut rows: BTreeMap<&str, Vec<&Entry<Estimates>>> = BTreeMap::new();
    for entry in entries {
        let row = entry.subject.row.as_deref().unwrap_or(&entry.subject.data);
        rows.entry(row).or_default().push(entry);
    }
    let errors: Vec<f64> =
        rows.values().filter_map(|entries| Some(quality_of(entries.iter().copied(), which, estimator)?.mae)).collect();
    Some((crate::stats::mean(&errors)?, errors.len()))
}

/// How `estimator` does on those of some datasets whose truth is known; `None` if there is none.
pub(crate) fn quality_of<'a>(
    entries: impl IntoIterator<Item = &'a Entry<Estimates>>,
    which: Which,
    estimator: &str,
) -> Option<Quality> {
    let known: Vec<(&Guess, f64)> = entries
        .into_iter()
        .filter_map(|entry| {
            let guess = which.guesses(&entry.result).get(estimator)?;
            Some((guess, which.truth(&entry.result)?))
        })
        .filter(|(guess, truth)| guess.accuracy.is_finite() && truth.is_finite())
        .collect();
    if known.is_empty() {
        return None;
    }
    let n = known.len() as f64;
    let errors: Vec<f64> = known.iter().map(|(guess, truth)| guess.accuracy - truth).collect();
    let intervals: Vec<(f64, f64, f64)> =
        known.iter().filter_map(|(guess, truth)| guess.interval.map(|(low, high)| (low, high, *truth))).collect();
    let held = intervals.iter().filter(|(low, high, truth)| low <= truth && truth <= high);
    let widths: Vec<f64> = intervals.iter().map(|(low, high, _)| high - low).collect();
    Some(Quality {
        datasets: known.len(),
        mae: errors.iter().map(|error| error.abs()).sum::<f64>() / n,
        worst: errors.iter().fold(0.0, |most, error| error.abs().max(most)),
        bias: errors.iter().sum::<f64>() / n,
        held: (held.count(), intervals.len()),
        width: crate::stats::mean(&widths),
    })
}
