use serde::{Deserialize, Serialize};

/// What came of leaving images out. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Omission {
    /// Images of the adaptation half.
    pub images: usize,
    /// Of these, images left out.
    pub dropped: usize,
    /// Mean initial entropy of the images left out; `None` if there are none.
    pub dropped_entropy: Option<f64>,
    /// Mean initial entropy of all images of the half.
    pub mean_entropy: f64,
    /// Holdout images predicted.
    pub holdout_images: usize,
    /// Accuracy on them along the way.
    pub curve: Vec<CurvePoint>,
}

/// The holdout after some steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// Steps made.
    pub step: usize,
    /// Share of right answers; `None` without labels.
    pub accuracy: Option<f64>,
}

impl Omission {
    /// Accuracy at the end minus accuracy at the start; `None` without labels.
    pub fn gain(&self) -> Option<f64> {
        Some(self.curve.last()?.accuracy? - self.curve.first()?.accuracy?)
    }

    /// Share of the images left out.
    pub fn share(&self) -> f64 {
        self.dropped as f64 / self.images.max(1) as f64
    }
}
