use serde::{Deserialize, Serialize};

/// The three panels. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toy {
    /// The class of each point.
    pub labels: Vec<usize>,
    /// `unshifted`, `shifted` and `fixed_points`.
    pub panels: Vec<ToyPanel>,
}

/// One panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToyPanel {
    /// Its name.
    pub name: String,
    /// What a reader calls it.
    pub title: String,
    /// In the order of rounds.
    pub frames: Vec<ToyFrame>,
}

/// A panel after some rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToyFrame {
    /// Rounds made.
    pub round: usize,
    /// Where each point lies.
    pub points: Vec<[f64; 2]>,
    /// Where each mean lies.
    pub means: Vec<[f64; 2]>,
    /// Share of points whose class is the most frequent one around their mean.
    pub purity: f64,
    /// Mean distance of the means from where they began.
    pub drift: f64,
}
