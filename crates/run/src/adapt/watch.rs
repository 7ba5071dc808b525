use super::GuardEvent;
use flipcast_adapt::GuardState;
use flipcast_exec::Logits;
use flipcast_record::results::Checkpoint;

/// How a run stands after a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Images predicted so far, repeats included.
    pub images: usize,
    /// Images there will be, if every one can be read; `None` when only the number of steps is fixed.
    pub total: Option<usize>,
    /// Batches so far.
    pub batches: usize,
    /// Mean entropy of the last batch, in nats.
    pub mean_entropy: f64,
    /// Share of the images that moved the parameters.
    pub used_share: f64,
    /// Share of the predictions that differ from the source model's, where those are known.
    pub flip_rate: Option<f64>,
    /// What the guard thinks.
    pub guard: GuardState,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends here and keeps what it has.
    Stop,
}

/// Hears how a run goes, and may end it between two batches.
pub trait StepWatcher {
    /// What the model said of the images of a batch.
    fn logits(&mut self, logits: Logits<'_>) {
        let _ = logits;
    }

    /// A batch is done, and its predictions are written.
    fn batch(&mut self, now: &Progress) -> Flow {
        let _ = now;
        Flow::Continue
    }

    /// The clusters were looked at.
    fn looked(&mut self, look: &Checkpoint) {
        let _ = look;
    }

    /// The guard has seen something, or has acted.
    fn guard(&mut self, event: &GuardEvent) {
        let _ = event;
    }
}

impl StepWatcher for () {}
