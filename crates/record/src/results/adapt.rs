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
    /// Where the source model's predictions began to count, or ceased to, because of the gain that was estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<Switch>,
    /// What the clusters looked like along the run, the source model's first; distances are from the source model's clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Checkpoint>,
}

/// From one model's predictions to the other's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The first batch for which it holds.
    pub batch: usize,
    /// Whether the source model's predictions count from there on.
    pub to_source: bool,
    /// The gain of the adapting model over the window before.
    pub gain: f64,
}
