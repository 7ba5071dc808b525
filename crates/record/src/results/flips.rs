use serde::{Deserialize, Serialize};

/// One point of the scatter. Records hold these.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlipPoint {
    /// Mean silhouette of the unadapted network's embeddings; `None` where all are the same.
    pub silhouette: Option<f64>,
    /// Share of predictions that changed.
    pub flips: f64,
    /// The same, each weighted by the rank of its initial confidence; at most about a half.
    pub weighted_flips: f64,
    /// Accuracy of the source model; `None` without labels.
    pub accuracy: Option<f64>,
    /// Images of the probe.
    pub images: usize,
}
