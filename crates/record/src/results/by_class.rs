use flipcast_estimate::ByClass;
use serde::{Deserialize, Serialize};

/// What is expected of every class. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByClassResult {
    /// Images that were read.
    pub images: usize,
    /// The accuracy that mean confidences were matched to.
    pub accuracy: f64,
    /// What logits were divided by for that.
    pub temperature: f64,
    /// Standard deviation that was assumed between mean probabilities and accuracies.
    pub calibration_error: f64,
    /// Shares, precisions and confusions.
    pub by_class: ByClass,
}
