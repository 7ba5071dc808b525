use serde::{Deserialize, Serialize};

/// What was seen at each checkpoint. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// In the order of steps.
    pub checkpoints: Vec<Checkpoint>,
    /// Step of the highest accuracy; `None` without labels.
    pub phase_1_end: Option<usize>,
    /// Images of the sample.
    pub images: usize,
    /// Clusters its embeddings were grouped into.
    pub clusters: usize,
}

/// The sample after some steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Steps made.
    pub step: usize,
    /// Share of right answers; `None` without labels.
    pub accuracy: Option<f64>,
    /// Mean entropy of the predictions, in nats.
    pub entropy: f64,
    /// Share of the predictions that differ from those before the first step.
    pub flips: f64,
    /// Mean silhouette of the clusters; `None` where all embeddings are the same.
    pub silhouette: Option<f64>,
    /// Mean distance of clusters and class means; `None` without clean images.
    pub shift_distance: Option<f64>,
    /// Sum of squared distances to the clusters' centres.
    pub inertia: f64,
}

/// How much changed in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseChange {
    /// Accuracy at its end less that at its beginning.
    pub accuracy: f64,
    /// The same of the silhouette.
    pub silhouette: Option<f64>,
    /// The same of the shift distance.
    pub shift_distance: Option<f64>,
}

impl Phases {
    /// The changes in phase 1 and phase 2; `None` for a phase without steps, and for both without labels.
    pub fn changes(&self) -> [Option<PhaseChange>; 2] {
        let (Some(end), Some(first), Some(last)) =
            (self.phase_1_end, self.checkpoints.first(), self.checkpoints.last())
        else {
            return [None, None];
        };
        let peak = self.checkpoints.iter().find(|found| found.step == end);
        let peak = peak.unwrap_or(first);
        [(first, peak), (peak, last)].map(|(from, to)| {
            let change = |value: fn(&Checkpoint) -> Option<f64>| Some(value(to)? - value(from)?);
            if to.step == from.step {
                return None;
            }
            Some(PhaseChange {
                accuracy: change(|found| found.accuracy)?,
                silhouette: change(|found| found.silhouette),
                shift_distance: change(|found| found.shift_distance),
            })
        })
    }
}
