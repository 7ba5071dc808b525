use flipcast_estimate::PoweredEstimate;
use serde::{Deserialize, Serialize};

/// What a few labels say about the source model's accuracy. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FewLabelsResult {
    /// Images that were read.
    pub images: usize,
    /// Of these, images with a label that was used.
    pub labels: usize,
    /// Of these, images that were answered right.
    pub right: usize,
    /// Strata that they were drawn from; 1 for a plain random sample.
    pub strata: usize,
    /// Accuracy of the source model on all images, if labels of all are known.
    pub accuracy: Option<f64>,
    /// The estimates, with guesses and without.
    pub powered: PoweredEstimate,
}
