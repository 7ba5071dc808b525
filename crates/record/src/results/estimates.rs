use super::{Cell, Seconds};
use flipcast_estimate::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Estimates by name: `ac` as published, `ac_calibrated` corrected on the calibration cells, `combined`.
pub type Estimates = BTreeMap<String, Estimate>;

/// Both numbers for one dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct CellEstimates {
    /// For the source model's accuracy.
    pub source: Estimates,
    /// For the adapted model's accuracy.
    pub adapted: Estimates,
    /// The source model's combined estimate in words, sentence by sentence.
    pub explanation: Vec<String>,
}

impl CellEstimates {
    /// The estimate of the source model's accuracy to look at first, and its name: the combined one, or transport where too little is known
    /// to combine anything.
    pub fn best(&self) -> Option<(&str, &Estimate)> {
        let named = |name| self.source.get_key_value(name);
        named("combined").or_else(|| named("cot")).map(|(name, estimate)| (name.as_str(), estimate))
    }
}

/// Everything that was estimated of one dataset, beside the truth where it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimatesResult {
    /// Key of the cell's record.
    pub cell: String,
    /// Images that were read.
    pub images: usize,
    /// Accuracy of the source model, if labels are known.
    pub accuracy: Option<f64>,
    /// Accuracy of the adapted model on the probe, if labels are known.
    pub adapted_accuracy: Option<f64>,
    /// For the source model's accuracy.
    pub source: Estimates,
    /// For the adapted model's accuracy.
    pub adapted: Estimates,
    /// The source model's combined estimate in words, sentence by sentence; results of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<String>,
    /// Where the time went.
    pub seconds: Seconds,
}

impl EstimatesResult {
    /// What was estimated of `cell`, whose record has this key.
    pub fn new(cell_key: String, cell: &Cell, estimates: CellEstimates) -> Self {
        Self {
            cell: cell_key,
            images: cell.images,
            accuracy: cell.accuracy,
            adapted_accuracy: cell.adapted_accuracy,
            source: estimates.source,
            adapted: estimates.adapted,
            explanation: estimates.explanation,
            seconds: cell.seconds,
        }
    }
}
