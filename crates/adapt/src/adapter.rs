use crate::AdaptError;
use flipcast_executor::loss::mean_entropy;
use flipcast_executor::{Executor, Logits, StepMemory, StepResult};
use flipcast_tensor::Batch;

/// What one step saw and did.
#[derive(Clone, Copy, Debug)]
pub struct StepOutput<'a> {
    /// The predictions.
    pub logits: Logits<'a>,
    /// Mean entropy of the predictions, in nats.
    pub mean_entropy: f64,
    /// Images that passed the method's entropy filter; all of them where it has none.
    pub reliable: usize,
    /// Images whose loss moved the parameters.
    pub used: usize,
    /// Whether the step restored the source parameters.
    pub reset: bool,
}

impl<'a> StepOutput<'a> {
    /// Of a step that restored nothing.
    pub(crate) fn new(logits: Logits<'a>, result: StepResult) -> Self {
        Self { logits, mean_entropy: result.mean_entropy, reliable: result.reliable, used: result.used, reset: false }
    }

    /// Of a step that moved no parameters.
    pub(crate) fn unchanged(logits: Logits<'a>) -> Self {
        Self::new(logits, StepResult { mean_entropy: mean_entropy(logits), reliable: logits.images(), used: 0 })
    }
}

/// A way of adapting a network to the batches it predicts.
pub trait Adapter {
    /// Predicts `batch`, then may update the adapted parameters. The logits returned are those from
    /// before the update unless the method documents otherwise.
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError>;
    /// Restores source parameters and forgets all state, the optimizer's included.
    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError>;
    /// Measures on clean batches what the method must know before its first step; most need nothing.
    fn prepare(&mut self, net: &mut dyn Executor, clean: &[Batch]) -> Result<(), AdaptError> {
        let _ = (net, clean);
        Ok(())
    }
    /// What it remembers besides the network's affine vector, so that it can go on later or elsewhere; nothing for methods that remember more
    /// than a run of steps does. Complete where steps are made on the host, as on a processor.
    fn memory(&self) -> Option<StepMemory> {
        None
    }
    /// Goes on from what [`Adapter::memory`] gave, on a network whose affine vector is the one of that time.
    fn set_memory(&mut self, net: &mut dyn Executor, memory: StepMemory) -> Result<(), AdaptError> {
        let _ = (net, memory);
        Ok(())
    }
}

/// The predictions of a step, kept so that the network is free to go on.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    values: Vec<f32>,
    classes: usize,
}

impl Kept {
    pub fn keep(&mut self, logits: Logits) {
        self.values.clear();
        self.values.extend_from_slice(logits.values());
        self.classes = logits.classes();
    }

    pub fn logits(&self) -> Logits<'_> {
        Logits::new(&self.values, self.classes)
    }
}
