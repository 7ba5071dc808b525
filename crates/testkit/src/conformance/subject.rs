use crate::{Case, ReferenceNorm};
use flipcast_tensor::Batch;

/// An executor under test. It runs a case with the scales and shifts in the case's parameters.
///
/// A subject that cannot go on may panic; naming the case in the message saves the reader a search.
pub trait Subject {
    /// The logits, image after image.
    fn forward(&mut self, case: &Case, batch: &Batch, mode: ReferenceNorm) -> Vec<f32>;

    /// The gradient over the affine vector, in the order of the graph's affine table, of the scalar function of the
    /// logits whose derivative is `logit_gradient`.
    fn gradient(&mut self, case: &Case, batch: &Batch, mode: ReferenceNorm, logit_gradient: &[f32]) -> Vec<f32>;

    /// The values of `nodes` in a forward pass, each in the reference's layout, from a subject that rounds so coarsely that
    /// values may fall on the other side of a kink.
    fn values(
        &mut self,
        _case: &Case,
        _batch: &Batch,
        _mode: ReferenceNorm,
        _nodes: &[String],
    ) -> Option<Vec<Vec<f32>>> {
        None
    }

    /// Why this case is left out, for a subject that does not support all of it.
    fn unsupported(&self, _case: &Case) -> Option<String> {
        None
    }
}
