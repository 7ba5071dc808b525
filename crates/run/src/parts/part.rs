use super::Census;
use flipcast_estimate::{Anchor, Flag, Outputs, Probe};
use flipcast_ground::Shard;
use flipcast_record::Protocol;
use flipcast_record::results::{Adaptation, Seconds};
use serde::{Deserialize, Serialize};

/// The format this version writes.
pub const PART_FORMAT: u32 = 2;

/// What was seen of one shard of the images: enough to estimate the accuracy on all images once every shard has been looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What all parts of one estimate share: model, images, calibration, settings, number of shards.
    pub(super) protocol: Protocol,
    /// Which shard.
    pub(super) shard: Shard,
    /// All images of the dataset.
    pub(super) whole: Census,
    /// The shard's images.
    pub(super) own: Census,
    /// Sums over the shard's images that could be read.
    pub(super) sums: Sums,
    /// The shard's sample.
    pub(super) sample: SampleRows,
    /// The second look.
    pub(super) second: SecondRows,
    /// What adaptation did; in the part of the first shard alone.
    pub(super) adapted: Option<AdaptedRows>,
    /// Where the time went.
    pub(super) seconds: Seconds,
}

/// Sums over images, which join exactly: whole numbers are exact, the others up to the rounding of a sum in double precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// Images that were read.
    pub images: u64,
    /// Images with each class as the answer.
    pub answers: Vec<u64>,
    /// Right answers, if every label is known.
    pub right: Option<u64>,
    /// Sum of the confidences.
    pub confidence: f64,
    /// Sum of the entropies, in nats.
    pub entropy: f64,
}

/// Outputs of the images with the smallest keys, by key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampleRows {
    pub keys: Vec<u64>,
    /// Each image's index in the data as stored.
    pub indices: Vec<u64>,
    /// Over the alternatives of a decision, row after row.
    pub logits: Vec<f32>,
    pub classes: usize,
    /// Every readable image of the shard with a smaller key is in the sample; all images without.
    pub below: Option<u64>,
}

/// The second look at the first images of the sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SecondRows {
    /// Under the statistics of the batch: logits of so many images of the sample, and what an early look answers for them. `below` is as in [`SampleRows`].
    BatchStatistics { logits: Vec<f32>, early: Option<Vec<u64>>, below: Option<u64> },
    /// What embeddings moved to the mean of clean ones add to all logits. Linear in the embeddings, so that shifts of shards average to that of the whole.
    Recentred { shift: Vec<f32> },
    /// The network has no second look.
    Nothing,
}

/// The probe before and after adapting.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdaptedRows {
    pub summary: AdaptedSummary,
    /// The adapted model's logits for the probe; empty where nothing adapted.
    pub logits: Vec<f32>,
}

/// What is small of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdaptedSummary {
    pub source: Anchors,
    pub batch: Anchors,
    /// Doubts about flips from the source model.
    pub flags: Vec<Flag>,
    /// The adapted model's right answers, if every label is known.
    pub right: Option<u64>,
    pub adaptation: Adaptation,
}

/// Predictions that flips are counted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Anchors {
    pub classes: Vec<usize>,
    pub confidences: Vec<f64>,
}

impl SecondRows {
    /// Of no image.
    pub fn unseen(early: bool, below: Option<u64>) -> Self {
        Self::BatchStatistics { logits: Vec::new(), early: early.then(Vec::new), below }
    }
}

impl Part {
    /// The shard it is of.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Sums over the shard's images.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Images of the shard that could not be read.
    pub fn skipped(&self) -> u64 {
        self.own.images.saturating_sub(self.sums.images)
    }

    /// Images of the shard whose outputs it holds.
    pub fn sampled(&self) -> usize {
        self.sample.keys.len()
    }

    /// Where the time went.
    pub fn seconds(&self) -> Seconds {
        self.seconds
    }
}

impl Sums {
    pub(super) fn new(classes: usize) -> Self {
        Self { images: 0, answers: vec![0; classes], right: Some(0), confidence: 0.0, entropy: 0.0 }
    }

    /// Counts the images of `outputs`.
    pub(super) fn add(&mut self, outputs: &Outputs) {
        self.images += outputs.images() as u64;
        outputs.classes_predicted().into_iter().for_each(|class| self.answers[class] += 1);
        self.confidence += outputs.confidences().iter().sum::<f64>();
        self.entropy += outputs.entropies().iter().sum::<f64>();
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.images += other.images;
        self.answers.iter_mut().zip(&other.answers).for_each(|(all, more)| *all += more);
        self.right = self.right.zip(other.right).map(|(a, b)| a + b);
        self.confidence += other.confidence;
        self.entropy += other.entropy;
    }

    /// The share of right answers, if every label is known.
    pub fn accuracy(&self) -> Option<f64> {
        self.right.filter(|_| self.images > 0).map(|right| right as f64 / self.images as f64)
    }

    /// Mean confidence of the answers.
    pub fn mean_confidence(&self) -> f64 {
        self.confidence / (self.images as f64).max(1.0)
    }

    /// Mean entropy of the probabilities, in nats.
    pub fn mean_entropy(&self) -> f64 {
        self.entropy / (self.images as f64).max(1.0)
    }
}

impl From<Anchor> for Anchors {
    fn from(anchor: Anchor) -> Self {
        Self { classes: anchor.classes, confidences: anchor.confidences }
    }
}

impl Anchors {
    fn anchor(&self) -> Anchor {
        Anchor { classes: self.classes.clone(), confidences: self.confidences.clone() }
    }
}

impl AdaptedRows {
    /// The probe for the adapted model's accuracy, whose outputs are `adapted`.
    pub fn probe(&self, adapted: Option<&Outputs>) -> Probe {
        let adapted = adapted.map(Outputs::classes_predicted);
        Probe { source: None, batch: Some(self.summary.batch.anchor()), adapted, flags: Vec::new() }
    }

    /// The probe for the source model's.
    pub fn probe_from_source(&self, adapted: Option<&Outputs>) -> Probe {
        let mut probe = self.probe(adapted);
        probe.source = Some(self.summary.source.anchor());
        probe.flags.clone_from(&self.summary.flags);
        if probe.flags.contains(&Flag::NoRunningStatistics) {
            probe.batch = None;
        }
        probe
    }
}
