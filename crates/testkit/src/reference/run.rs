use super::{ReferenceNorm, ReferenceValue};
use flipcast_graph::Graph;
use std::sync::Arc;

/// Every node's value in one forward pass.
#[derive(Clone, Debug)]
pub struct ReferenceRun {
    /// One value per node, in node order. Runs that differ in a few norms share the values before them.
    pub values: Vec<Arc<ReferenceValue>>,
    pub(super) graph: Arc<Graph>,
    pub(super) mode: ReferenceNorm,
    pub(super) affine: Vec<f64>,
    /// Of nodes whose branches are an executor's: its output of an activation, or its input of a max pool. Empty if there are none.
    pub(super) branches: Vec<Option<ReferenceValue>>,
}

impl ReferenceRun {
    /// The logits, image after image.
    pub fn logits(&self) -> &[f64] {
        &self.values[self.graph.output().index()].values
    }

    /// The input of the classifier head, image after image.
    pub fn embedding(&self) -> &[f64] {
        &self.values[self.graph.embedding().index()].values
    }

    /// The value of the node called `name`; `embedding` and `logits` are understood too.
    pub fn value(&self, name: &str) -> Option<&ReferenceValue> {
        let id = self.graph.find(name)?;
        Some(&self.values[id.index()])
    }
}
