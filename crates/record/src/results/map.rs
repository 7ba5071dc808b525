use serde::{Deserialize, Serialize};

/// The frames. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingMap {
    /// What the classes are called; `cluster 1` and so on where labels are unknown.
    pub class_names: Vec<String>,
    /// Each point's place in `class_names`.
    pub labels: Vec<Option<usize>>,
    /// In the order of steps.
    pub frames: Vec<Frame>,
}

/// The map after some steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Steps made.
    pub step: usize,
    /// Share of right answers among the points; `None` without labels.
    pub accuracy: Option<f64>,
    /// Where each point lies.
    pub points: Vec<[f64; 2]>,
    /// Where each class mean lies, in the order of `class_names`; empty without class means.
    pub class_means: Vec<[f64; 2]>,
    /// Divergence of the map.
    pub kl: f64,
}
