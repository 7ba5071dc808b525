use crate::ExecError;
use crate::checks::all_finite;
use flipcast_graph::{AffineTable, Graph, NodeId, ParamSpec};
use flipcast_tensor::{Shape, Tensor};
use std::collections::HashMap;

/// The values of `name`, which must have the extents `expected` and be finite.
pub fn param<'a>(params: &'a HashMap<String, Tensor>, name: &str, expected: &[usize]) -> Result<&'a [f32], ExecError> {
    let expected = Shape::new(expected);
    let Some(tensor) = params.get(name) else {
        return Err(ExecError::MissingParam { name: name.to_owned(), expected });
    };
    if *tensor.shape() != expected {
        return Err(ExecError::ParamShape { name: name.to_owned(), expected, found: tensor.shape().clone() });
    }
    if !all_finite(tensor.values()) {
        return Err(ExecError::NonFiniteParam { name: name.to_owned() });
    }
    Ok(tensor.values())
}

/// The values of the only parameter of `node`; empty when it has none.
pub fn node_param(graph: &Graph, node: NodeId, params: &HashMap<String, Tensor>) -> Result<Vec<f32>, ExecError> {
    let specs = graph.node_params(node);
    let values = specs.iter().map(|ParamSpec { name, shape }| param(params, name, shape));
    Ok(values.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The scales and shifts of all norm layers in one vector, in the order of `table`.
pub fn affine_params(table: &AffineTable, params: &HashMap<String, Tensor>) -> Result<Vec<f32>, ExecError> {
    let mut affine = vec![0.0; table.len()];
    for (name, range) in table.names() {
        affine[range.clone()].copy_from_slice(param(params, &name, &[range.len()])?);
    }
    Ok(affine)
}
