use serde::{Deserialize, Serialize};

/// What was predicted for one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionRow {
    /// The image's id in its dataset.
    pub id: String,
    /// The network output that is largest.
    pub class: u32,
    /// Its name, if the model has names.
    pub class_name: Option<String>,
    /// Its probability.
    pub confidence: f32,
    /// Entropy of the probabilities, in nats.
    pub entropy: f32,
    /// Whether the source model predicts another class; `None` when it was not asked.
    pub flipped: Option<bool>,
}

/// The columns, in the order of the fields.
pub(super) const COLUMNS: [&str; 6] = ["id", "class", "class_name", "confidence", "entropy", "flipped"];
