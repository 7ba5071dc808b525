//! The last linear layer, for estimators that perturb its input.

use flipcast_estimate::{EstimateError, Head};
use flipcast_graph::Op;
use flipcast_models::Model;

/// The head of `model` for embeddings of `dims` values; `None` if its last layer is not linear.
pub(crate) fn head_of(model: &Model, dims: usize) -> Result<Option<Head>, EstimateError> {
    let graph = model.graph();
    let node = graph.node(graph.output());
    if !matches!(node.op, Op::Linear { .. }) {
        return Ok(None);
    }
    let param = |name: &str| model.param(&format!("{}.{name}", node.name));
    let (Some(weight), Some(bias)) = (param("weight"), param("bias")) else {
        return Ok(None);
    };
    if weight.values().len() != dims * model.num_classes() {
        return Ok(None);
    }
    Head::new(weight.values(), bias.values().to_vec()).map(Some)
}
