use super::pool::winner;
use super::{ReferenceRun, ReferenceValue};
use flipcast_graph::{Activation, Graph, NodeId, Op};
use std::fmt;

/// A place where an executor took another branch than the reference: on the other side of an activation's kink, or
/// with another winner of a max pool. Gradients differ there although values hardly do.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// The activation or max pool.
    pub node: String,
    /// Position of the output element, image after image, channels last.
    pub index: usize,
    /// How far the reference is from the other branch: distance of the activation's input from the kink, or of the
    /// max pool's winner from the value that won in the executor.
    pub distance: f64,
    /// The same as a share of the root mean square of the node's input.
    pub relative: f64,
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, index, distance, relative } = self;
        write!(f, "`{node}`[{index}] is {distance:.1e} from the other branch, {relative:.1e} of the rms")
    }
}

/// The nodes whose values [`ReferenceRun::crossings`] asks for: outputs of activations with a kink, which executors
/// that fuse an activation into its neighbours still have, and inputs of max pools.
pub fn crossing_taps(graph: &Graph) -> Vec<String> {
    let mut taps: Vec<NodeId> = Vec::new();
    for node in graph.nodes() {
        match &node.op {
            Op::Activation(activation) if is_piecewise(*activation) => {
                taps.extend(graph.find(&node.name));
            }
            Op::MaxPool(_) => taps.extend(node.inputs.first()),
            _ => {}
        }
    }
    taps.sort_unstable();
    taps.dedup();
    taps.iter().map(|&id| graph.node(id).name.clone()).collect()
}

impl ReferenceRun {
    /// Every place where an executor took another branch. `value_of` gives its value of a node named by
    /// [`crossing_taps`], in the reference's layout. Of the activations, ReLU and ReLU6 are looked at.
    ///
    /// # Panics
    /// If a value has another length than the reference's.
    pub fn crossings<E>(&self, mut value_of: impl FnMut(&str) -> Result<Vec<f32>, E>) -> Result<Vec<Crossing>, E> {
        let mut values_like = |name: &str, ours: &ReferenceValue| value_of(name).map(|theirs| like(name, ours, theirs));
        let mut found = Vec::new();
        for (node, out) in self.graph.nodes().iter().zip(&self.values) {
            let Some(&id) = node.inputs.first() else {
                continue;
            };
            let input = self.values[id.index()].as_ref();
            let mut push = |index: usize, distance: f64| {
                found.push(Crossing {
                    node: node.name.clone(),
                    index,
                    distance,
                    relative: distance / root_mean_square(input),
                });
            };
            match &node.op {
                Op::Activation(activation) if is_piecewise(*activation) => {
                    let theirs = values_like(&node.name, out)?;
                    for (i, (&ours, &theirs)) in out.values.iter().zip(&theirs.values).enumerate() {
                        if branch(*activation, ours) != branch(*activation, theirs) {
                            let kinks = super::activation::kinks(*activation).iter();
                            let distances = kinks.map(|kink| (input.values[i] - kink).abs());
                            push(i, distances.fold(f64::INFINITY, f64::min));
                        }
                    }
                }
                Op::MaxPool(pool) => {
                    let theirs = values_like(&self.graph.node(id).name, input)?;
                    for i in 0..out.values.len() {
                        let at @ [n, _, _, c] = out.position(i);
                        let won = winner(&theirs, *pool, at);
                        if let Some((y, x)) = won.filter(|_| won != winner(input, *pool, at)) {
                            push(i, out.values[i] - input.at(n, y, x, c));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// This run with an executor's branches in place of its own, for [`Reference::backward`](crate::Reference::backward): an
    /// executor whose gradient is that of its own branches errs by nothing but rounding. `value_of` is as in
    /// [`ReferenceRun::crossings`].
    ///
    /// # Panics
    /// If a value has another length than the reference's.
    pub fn along<E>(&self, mut value_of: impl FnMut(&str) -> Result<Vec<f32>, E>) -> Result<Self, E> {
        let mut branches = vec![None; self.values.len()];
        for (i, node) in self.graph.nodes().iter().enumerate() {
            let told_by = match &node.op {
                Op::Activation(activation) if is_piecewise(*activation) => i,
                Op::MaxPool(_) => node.inputs[0].index(),
                _ => continue,
            };
            let name = &self.graph.nodes()[told_by].name;
            branches[i] = Some(like(name, &self.values[told_by], value_of(name)?));
        }
        Ok(Self { branches, ..self.clone() })
    }
}

/// An executor's values of the node `name`, with the extents of the reference's.
fn like(name: &str, ours: &ReferenceValue, theirs: Vec<f32>) -> ReferenceValue {
    let (found, expected) = (theirs.len(), ours.values.len());
    assert_eq!(found, expected, "values of `{name}`");
    ReferenceValue { dims: ours.dims, values: theirs.into_iter().map(f64::from).collect() }
}

/// Whether the branch an input took can be told from the output.
fn is_piecewise(activation: Activation) -> bool {
    matches!(activation, Activation::Relu | Activation::Relu6)
}

/// Which piece of `activation` gave this output.
fn branch(activation: Activation, output: f64) -> usize {
    let positive = usize::from(output > 0.0);
    match activation {
        Activation::Relu6 => positive + usize::from(output >= 6.0),
        _ => positive,
    }
}

fn root_mean_square(value: &ReferenceValue) -> f64 {
    let sum: f64 = value.values.iter().map(|v| v * v).sum();
    (sum / value.values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reference, ReferenceNorm};
    use flipcast_graph::{GraphBuilder, Pool};
    use flipcast_tensor::{Batch, Shape, Tensor};
    use std::collections::HashMap;

    /// ReLU6 and a max pool of one window over these four pixels.
    fn run(pixels: [f32; 4]) -> ReferenceRun {
        let (mut g, x) = GraphBuilder::new(1);
        let x = g.activation("act", x, Activation::Relu6);
        let whole = Pool::new(2, 1, 0);
        let x = g.max_pool("pool", x, whole);
        let x = g.linear("fc", x, 1, 1);
        let graph = g.finish(x).unwrap();
        let params = HashMap::from([
            ("fc.weight".to_owned(), Tensor::zeros([1, 1])),
            ("fc.bias".to_owned(), Tensor::zeros([1])),
        ]);
        assert_eq!(crossing_taps(&graph), ["act"]);
        let reference = Reference::new(&graph, &params).unwrap();
        let batch = Batch::new([1, 2, 2, 1], pixels.to_vec()).unwrap();
        reference.forward(&batch, ReferenceNorm::Running, &[]).unwrap()
    }

    /// Where an executor with these activations took another branch.
    fn crossings(run: &ReferenceRun, activations: [f32; 4]) -> Vec<Crossing> {
        let found = run.crossings(|name| match name {
            "act" => Ok(activations.to_vec()),
            _ => Err(name.to_owned()),
        });
        found.unwrap()
    }

    #[test]
    fn other_values_on_the_same_branches_are_no_crossing() {
        let run = run([-1.0, 2.0, 3.0, 7.0]);
        assert_eq!(crossings(&run, [0.0, 2.5, 3.5, 6.0]), []);
    }

    #[test]
    fn both_kinks_of_relu6_are_seen() {
        let run = run([-0.25, 5.0, 5.5, 7.0]);
        let found = crossings(&run, [0.125, 5.0, 6.0, 6.5]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].index, found[0].distance), (0, 0.25));
        assert_eq!((found[1].index, found[1].distance), (2, 0.5));
    }

    /// A norm before the activation, so that there is something to differentiate.
    #[test]
    fn gradients_go_along_the_branches_of_the_executor() {
        let (mut g, x) = GraphBuilder::new(1);
        let x = g.batch_norm("norm", x, 0.0);
        let x = g.activation("act", x, Activation::Relu);
        let x = g.max_pool("pool", x, Pool::new(2, 1, 0));
        let x = g.linear("fc", x, 1, 1);
        let graph = g.finish(x).unwrap();
        let one = |value: f32, extents: &[usize]| Tensor::new(Shape::new(extents), vec![value]).unwrap();
        let params = [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)];
        let mut params: HashMap<String, Tensor> =
            params.into_iter().map(|(name, value)| (format!("norm.{name}"), one(value, &[1]))).collect();
        params.insert("fc.weight".to_owned(), one(1.0, &[1, 1]));
        params.insert("fc.bias".to_owned(), one(0.0, &[1]));
        let reference = Reference::new(&graph, &params).unwrap();
        let batch = Batch::new([1, 2, 2, 1], vec![-1.0, 3.0, 2.0, -4.0]).unwrap();
        let run = reference.forward(&batch, ReferenceNorm::Running, &reference.affine()).unwrap();
        let gradient = |run: &ReferenceRun| reference.backward(run, &[1.0]).unwrap();
        assert_eq!(gradient(&run), [3.0, 1.0]);
        let along = |activations: [f32; 4]| gradient(&run.along(|_| Ok::<_, ()>(activations.to_vec())).unwrap());
        // Nothing crossed; another winner; the winner on the other side of the kink.
        assert_eq!(along([0.0, 3.0, 2.0, 0.0]), [3.0, 1.0]);
        assert_eq!(along([0.0, 2.0, 3.0, 0.0]), [2.0, 1.0]);
        assert_eq!(along([0.0; 4]), [0.0, 0.0]);
    }

    #[test]
    fn another_winner_of_a_max_pool_is_a_crossing() {
        let run = run([1.0, 5.0, 4.5, -3.0]);
        let found = crossings(&run, [1.0, 4.5, 5.0, 0.0]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].node.as_str(), found[0].distance), ("pool", 0.5));
        // The pool reads 1, 5, 4.5 and 0.
        assert_eq!(found[0].relative, 0.5 / (46.25f64 / 4.0).sqrt());
    }
}
