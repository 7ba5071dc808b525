use super::attention::AttentionRun;
use super::norm::{NormParams, normalise};
use super::{ReferenceError, ReferenceNorm, ReferenceRun, ReferenceValue};
use super::{activation, conv, dense, pool, tokens};
use flipcast_graph::{AffineTable, Dims, Graph, Node, NormLayer, Op};
use flipcast_tensor::{Batch, Shape, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph with its parameters in `f64`, ready to run.
#[derive(Clone, Debug)]
pub struct Reference {
    graph: Arc<Graph>,
    table: AffineTable,
    params: HashMap<String, Vec<f64>>,
}

impl Reference {
    /// Takes the parameters the graph names from `params`; others are ignored.
    pub fn new(graph: &Graph, params: &HashMap<String, Tensor>) -> Result<Self, ReferenceError> {
        let mut taken = HashMap::new();
        for spec in graph.params() {
            let expected = Shape::new(spec.shape);
            let Some(tensor) = params.get(&spec.name) else {
                let name = spec.name;
                return Err(ReferenceError::MissingParam { name, expected });
            };
            if *tensor.shape() != expected {
                return Err(ReferenceError::ShapeMismatch { name: spec.name, expected, found: tensor.shape().clone() });
            }
            let values = tensor.values().iter().map(|&v| f64::from(v)).collect();
            taken.insert(spec.name, values);
        }
        Ok(Self { graph: Arc::new(graph.clone()), table: graph.affine_table(), params: taken })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The scales and shifts the weights came with, in the order of [`Graph::affine_table`].
    pub fn affine(&self) -> Vec<f64> {
        self.table.names().flat_map(|(name, _)| self.params[&name].iter().copied()).collect()
    }

    /// Runs all nodes with the scales and shifts in `affine`, in the order of [`Graph::affine_table`].
    pub fn forward(&self, batch: &Batch, mode: ReferenceNorm, affine: &[f64]) -> Result<ReferenceRun, ReferenceError> {
        self.check_affine(affine)?;
        let expected = self.graph.input_channels();
        if batch.channels() != expected {
            let found = batch.channels();
            return Err(ReferenceError::Channels { expected, found });
        }
        let dims = self.graph.infer_dims(batch.height(), batch.width())?;
        let mut run = ReferenceRun {
            values: Vec::with_capacity(dims.len()),
            graph: Arc::clone(&self.graph),
            mode,
            affine: affine.to_vec(),
            branches: Vec::new(),
        };
        for (node, &dims) in self.graph.nodes().iter().zip(&dims) {
            let value = match node.op {
                Op::Input { .. } => {
                    ReferenceValue { dims, values: batch.values().iter().map(|&v| f64::from(v)).collect() }
                }
                _ => self.evaluate(node, dims, &run)?,
            };
            run.values.push(Arc::new(value));
        }
        Ok(run)
    }

    /// `run` with other scales and shifts; only nodes that depend on a changed one are computed.
    pub fn forward_again(&self, run: &ReferenceRun, affine: &[f64]) -> Result<ReferenceRun, ReferenceError> {
        self.check_affine(affine)?;
        let mut again = ReferenceRun { affine: affine.to_vec(), branches: Vec::new(), ..run.clone() };
        let mut changed = Vec::with_capacity(run.values.len());
        for (i, node) in self.graph.nodes().iter().enumerate() {
            let own = self.affine_range(node);
            let differs =
                affine[own.clone()] != run.affine[own] || node.inputs.iter().any(|input| changed[input.index()]);
            if differs {
                let value = self.evaluate(node, run.values[i].dims, &again)?;
                again.values[i] = Arc::new(value);
            }
            changed.push(differs);
        }
        Ok(again)
    }

    /// Computes `node`, whose value has the extents `dims`, from the values of its inputs in `run`.
    fn evaluate(&self, node: &Node, dims: Dims, run: &ReferenceRun) -> Result<ReferenceValue, ReferenceError> {
        let input = |i: usize| run.values[node.inputs[i].index()].as_ref();
        let param = |suffix: &str| self.param(node, suffix);
        let unknown = || ReferenceError::unknown_op(node);
        Ok(match &node.op {
            Op::Conv2d(conv) => {
                let resolved = conv.resolve(input(0).dims).ok_or_else(unknown)?;
                let bias = conv.bias.then(|| param("bias"));
                conv::convolve(input(0), conv, resolved, param("weight"), bias)
            }
            Op::Norm(layer) => {
                let params = self.norm_params(node, layer, run);
                normalise(input(0), layer, self.norm_mode(node, run), &params)
            }
            Op::Activation(kind) => input(0).map(activation::activate(*kind)),
            Op::MaxPool(pool) => pool::max_pool(input(0), *pool, dims),
            Op::AvgPool(pool) => pool::avg_pool(input(0), *pool, dims),
            Op::GlobalAvgPool => pool::global_avg_pool(input(0)),
            Op::Add => dense::add(input(0), input(1)),
            Op::Mul => dense::mul(input(0), input(1)),
            Op::Linear { .. } => dense::linear(input(0), param("weight"), Some(param("bias"))),
            Op::Projection { .. } => dense::linear(input(0), param("weight"), None),
            Op::Attention(attention) => {
                let table = attention.weights().map_or(&[][..], |(name, _)| param(name));
                let run = AttentionRun::new(input(0), attention, table).ok_or_else(unknown)?;
                run.forward()
            }
            Op::Arrange(arrangement) => tokens::arrange(input(0), *arrangement, dims, param("")),
            Op::PickChannels(runs) => {
                let inputs: Vec<_> = (0..node.inputs.len()).map(input).collect();
                tokens::pick_channels(&inputs, runs, dims)
            }
            Op::AddPosition { .. } => tokens::add_position(input(0), param("")),
            Op::Scale => tokens::scale(input(0), param("")),
            Op::Flatten => dense::flatten(input(0)),
            Op::Transpose { rows, .. } => dense::transpose(input(0), *rows),
            Op::ShortcutA { stride, .. } => dense::shortcut_a(input(0), *stride, dims),
            Op::Input { .. } => return Err(unknown()),
        })
    }

    /// A parameter of `node`, the one with the node's own name for an empty suffix; empty when it has none of that name.
    pub(super) fn param(&self, node: &Node, suffix: &str) -> &[f64] {
        let found = match suffix {
            "" => self.params.get(&node.name),
            _ => self.params.get(&format!("{}.{suffix}", node.name)),
        };
        found.map_or(&[][..], Vec::as_slice)
    }

    /// Which statistics the norm `node` uses in `run`.
    pub(super) fn norm_mode(&self, node: &Node, run: &ReferenceRun) -> ReferenceNorm {
        let names: Vec<&str> = self.graph.norms().map(|(id, _)| self.graph.node(id).name.as_str()).collect();
        let place = names.iter().position(|name| *name == node.name);
        run.mode.of(place.expect("a norm is one of the graph's"), names.len())
    }

    /// The parameters of a norm layer, with the scale and shift of `run`.
    pub(super) fn norm_params<'a>(&'a self, node: &Node, layer: &NormLayer, run: &'a ReferenceRun) -> NormParams<'a> {
        let (scale, shift) = run.affine[self.affine_range(node)].split_at(layer.channels);
        NormParams {
            scale,
            shift,
            running_mean: self.param(node, "running_mean"),
            running_var: self.param(node, "running_var"),
        }
    }

    /// Where a norm's scale and shift lie in the affine vector; empty for other nodes.
    pub(super) fn affine_range(&self, node: &Node) -> std::ops::Range<usize> {
        let entry = match node.op {
            Op::Norm(_) => self.table.entries().iter().find(|e| e.name == node.name),
            _ => None,
        };
        entry.map_or(0..0, |entry| entry.scale().start..entry.shift().end)
    }

    fn check_affine(&self, affine: &[f64]) -> Result<(), ReferenceError> {
        let (expected, found) = (self.table.len(), affine.len());
        if found != expected {
            return Err(ReferenceError::AffineLength { expected, found });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    #[test]
    fn running_again_equals_running_anew() {
        for case in cases().iter().step_by(7) {
            let reference = case.reference();
            let batch = case.batch();
            let mut affine = reference.affine();
            let first = reference.forward(&batch, ReferenceNorm::Batch, &affine).unwrap();
            let last = affine.len() - 1;
            affine[last / 2] += 0.25;
            affine[last] -= 0.5;
            let anew = reference.forward(&batch, ReferenceNorm::Batch, &affine).unwrap();
            let again = reference.forward_again(&first, &affine).unwrap();
            assert_eq!(anew.values, again.values, "{}", case.name);
        }
    }

    #[test]
    fn a_missing_parameter_is_named() {
        let mut case = cases().swap_remove(0);
        case.params.remove("fc.bias");
        let error = Reference::new(&case.graph, &case.params).unwrap_err();
        assert!(matches!(&error, ReferenceError::MissingParam { name, .. } if name == "fc.bias"), "{error}");
    }

    #[test]
    fn a_wrong_shape_is_refused() {
        let mut case = cases().swap_remove(0);
        case.params.insert("fc.bias".into(), Tensor::zeros([1, 2]));
        let error = Reference::new(&case.graph, &case.params).unwrap_err();
        assert!(matches!(error, ReferenceError::ShapeMismatch { .. }), "{error}");
    }

    #[test]
    fn a_short_affine_vector_is_refused() {
        let case = cases().swap_remove(0);
        let error = case.reference().forward(&case.batch(), ReferenceNorm::Running, &[1.0]).unwrap_err();
        assert!(matches!(error, ReferenceError::AffineLength { found: 1, .. }), "{error}");
    }

    #[test]
    fn images_with_other_channels_are_refused() {
        let case = cases().swap_remove(0);
        let reference = case.reference();
        let batch = Batch::new([1, 9, 9, 2], vec![0.0; 162]).unwrap();
        let error = reference.forward(&batch, ReferenceNorm::Running, &reference.affine()).unwrap_err();
        assert!(matches!(error, ReferenceError::Channels { found: 2, .. }), "{error}");
    }
}
