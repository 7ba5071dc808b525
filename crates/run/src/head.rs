//! The last linear layer, for estimators that perturb its input.

use flipcast_estimate::{AettaConfig, Embeddings, EstimateError, Head, Score, aetta};
use flipcast_graph::Op;
use flipcast_models::Model;

/// Agreement under dropout before the head of `model`; `None` if its last layer is not linear.
pub(crate) fn aetta_of(model: &Model, embeddings: &Embeddings) -> Option<Result<Score, EstimateError>> {
    let graph = model.graph();
    let node = graph.node(graph.output());
    let classes = model.num_classes();
    if !matches!(node.op, Op::Linear { .. }) {
        return None;
    }
    let weight = model.param(&format!("{}.weight", node.name))?.values();
    let bias = model.param(&format!("{}.bias", node.name))?.values().to_vec();
    if weight.len() != embeddings.dims() * classes {
        return None;
    }
    let head = Head::new(weight, bias);
    Some(head.and_then(|head| aetta(embeddings, &head, &AettaConfig::published(classes))))
}
