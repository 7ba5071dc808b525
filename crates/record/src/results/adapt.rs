use super::Checkpoint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything asked for was done.
    Complete,
    /// The watcher asked for it.
    Interrupted,
    /// The guard saw a collapse and was told to stop then.
    Collapsed,
}

/// What an adaptation run did. Shares are fractions.
///
/// `E` is an event of the guard: the run knows its type, a reader may take it as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptSummary<E = Value> {
    /// Why it ended.
    pub ending: Ending,
    /// Images predicted, repeats included.
    pub images: usize,
    /// Images left out because they could not be used, repeats included.
    pub skipped: usize,
    /// Steps of the method.
    pub steps: usize,
    /// Times the method itself restored the source parameters.
    pub resets: usize,
    /// Share of the images that passed the method's entropy filter.
    pub reliable_share: f64,
    /// Share of the images whose loss moved the parameters.
    pub used_share: f64,
    /// Whether the method's filters let almost nothing through, so that it hardly adapts.
    pub starved: bool,
    /// Share of the predictions that differ from the source model's; `None` when that was not asked.
    pub flip_rate: Option<f64>,
    /// Mean entropy of the first batch, in nats.
    pub first_entropy: f64,
    /// Mean entropy of the last batch, in nats.
    pub last_entropy: f64,
    /// Images whose label is known.
    pub labelled: usize,
    /// Share of those that the adapting model got right.
    pub accuracy: Option<f64>,
    /// Share of those that the source model got right.
    pub source_accuracy: Option<f64>,
    /// What the guard saw.
    pub guard_events: Vec<E>,
    /// The batch from which on the source model predicted, if the guard fell back to it.
    pub source_since: Option<usize>,
    /// Images on which it was chosen between two models' answers; `None` where one model's counted for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arbitration: Option<Arbitration>,
    /// Where all answers of a batch were one model's: in records of an earlier version, written no more.
    #[serde(default, skip_serializing)]
    pub switches: Vec<Value>,
    /// What the clusters looked like along the run, the source model's first; distances are from the source model's clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Checkpoint>,
}

/// Images on which the source model and an adapting one gave different answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arbitration {
    /// All of them.
    pub disputes: usize,
    /// Those on which the source model's answer counted.
    pub to_source: usize,
}
