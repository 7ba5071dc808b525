use flipcast_exec::{DeviceSteps, ExecError, Executor, Logits, NormMode};
use flipcast_graph::AffineTable;
use flipcast_tensor::{Batch, Tensor};

/// What an executor around another does in its own way; the rest it leaves to the other, once it is [`Wrapped`].
pub trait Wrapper {
    /// The executor inside.
    fn inner(&self) -> &dyn Executor;
    /// The executor inside, to change.
    fn inner_mut(&mut self) -> &mut dyn Executor;
    /// [`Executor::forward`].
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.inner_mut().forward(batch)
    }
    /// [`Executor::steps`].
    fn steps(&mut self) -> Option<&mut dyn DeviceSteps>;
}

/// A [`Wrapper`] as an executor.
#[derive(Clone, Debug)]
pub struct Wrapped<W>(pub W);

impl<W: Wrapper> Executor for Wrapped<W> {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.0.forward(batch)
    }
    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        self.0.inner_mut().backward(logit_gradient)
    }
    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        self.0.inner_mut().tap(name)
    }
    fn affine(&self) -> &[f32] {
        self.0.inner().affine()
    }
    fn affine_mut(&mut self) -> &mut [f32] {
        self.0.inner_mut().affine_mut()
    }
    fn source_affine(&self) -> &[f32] {
        self.0.inner().source_affine()
    }
    fn affine_table(&self) -> &AffineTable {
        self.0.inner().affine_table()
    }
    fn norm_mode(&self) -> NormMode {
        self.0.inner().norm_mode()
    }
    fn set_norm_mode(&mut self, mode: NormMode) -> Result<(), ExecError> {
        self.0.inner_mut().set_norm_mode(mode)
    }
    fn absorb_statistics(&mut self) -> Result<(), ExecError> {
        self.0.inner_mut().absorb_statistics()
    }
    fn reset_statistics(&mut self) -> Result<(), ExecError> {
        self.0.inner_mut().reset_statistics()
    }
    fn num_classes(&self) -> usize {
        self.0.inner().num_classes()
    }
    fn reset_affine(&mut self) {
        self.0.inner_mut().reset_affine();
    }
    fn steps(&mut self) -> Option<&mut dyn DeviceSteps> {
        self.0.steps()
    }
}
