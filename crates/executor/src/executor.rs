use crate::{ExecError, ExecutorState, Logits, NormMode, StepResult, StepRun};
use flipcast_graph::AffineTable;
use flipcast_tensor::{Batch, Tensor};

/// A network on some device: forward, backward to the affine vector, and steps made of both.
pub trait Executor: Send {
    /// Runs the batch, which may be smaller than planned, and keeps what `backward` needs.
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError>;

    /// The logits of the batch in each of two norm modes, of which the network is left in the second. No backward pass follows.
    ///
    /// As provided, these are two forward passes. An executor that overrides this runs once what both modes have in common and
    /// gives the same bits.
    fn forward_in_modes(&mut self, batch: &Batch, modes: [NormMode; 2]) -> Result<[Vec<f32>; 2], ExecError> {
        let mut logits = [Vec::new(), Vec::new()];
        for (logits, mode) in logits.iter_mut().zip(modes) {
            self.set_norm_mode(mode)?;
            logits.extend_from_slice(self.forward(batch)?.values());
        }
        self.state_mut().ready = false;
        Ok(logits)
    }

    /// The gradient of every norm's scale and shift, in the order of the affine table, from that of the logits of the
    /// last forward pass. May be called once per forward pass.
    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError>;

    /// The value of a tapped node in the last forward pass: `[image, channel]`, or `[image, y, x, channel]`.
    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError>;

    /// The affine vector and the norm mode.
    fn state(&self) -> &ExecutorState;

    /// The affine vector and the norm mode, to change.
    fn state_mut(&mut self) -> &mut ExecutorState;

    /// Predicts the batch with the current affine vector and norm mode, then moves the vector as `run` asks; `run` keeps
    /// the logits from before the update. A step whose loss uses no image moves nothing, and neither does one that fails.
    ///
    /// As provided, the loss and the optimizer run on the host. An executor that overrides this gives the same numbers.
    fn step(&mut self, run: &mut StepRun, batch: &Batch) -> Result<StepResult, ExecError> {
        run.step_on_host(self, batch, |_, _| {})
    }

    /// Makes the statistics that the last forward pass normalised with the running ones, so that statistics can be gathered
    /// over a stream.
    fn absorb_statistics(&mut self) -> Result<(), ExecError> {
        Err(ExecError::NotReady { needed: "an executor that can change its running statistics" })
    }

    /// Restores the running statistics of the weights.
    fn reset_statistics(&mut self) -> Result<(), ExecError> {
        Ok(())
    }

    /// Restores everything to what it was when the network was made: the source vector, the running statistics of the weights, the
    /// norm mode, and no pass behind it. What it computes from then on is what a new network computes, bit for bit.
    fn reset(&mut self) -> Result<(), ExecError> {
        self.reset_affine();
        self.reset_statistics()?;
        self.set_norm_mode(NormMode::Running)
    }

    /// [`ExecutorState::affine`].
    fn affine(&self) -> &[f32] {
        self.state().affine()
    }

    /// [`ExecutorState::affine_mut`].
    fn affine_mut(&mut self) -> &mut [f32] {
        self.state_mut().affine_mut()
    }

    /// [`ExecutorState::source_affine`].
    fn source_affine(&self) -> &[f32] {
        self.state().source_affine()
    }

    /// [`ExecutorState::affine_table`].
    fn affine_table(&self) -> &AffineTable {
        self.state().affine_table()
    }

    /// [`ExecutorState::reset_affine`].
    fn reset_affine(&mut self) {
        self.state_mut().reset_affine();
    }

    /// [`ExecutorState::norm_mode`].
    fn norm_mode(&self) -> NormMode {
        self.state().norm_mode()
    }

    /// [`ExecutorState::set_norm_mode`].
    fn set_norm_mode(&mut self, mode: NormMode) -> Result<(), ExecError> {
        self.state_mut().set_norm_mode(mode)
    }

    /// [`ExecutorState::num_classes`].
    fn num_classes(&self) -> usize {
        self.state().num_classes()
    }
}
