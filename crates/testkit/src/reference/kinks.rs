use super::run::ReferenceRun;
use super::{activation, pool};
use flipcast_graph::Op;

impl ReferenceRun {
    /// How near the run comes to a point where a derivative jumps: the smallest distance of an activation's input
    /// from a kink, or of a max pool's winner from the runner-up. Infinite when there is no such point.
    ///
    /// A distance of exactly zero is not counted: it belongs to values that a layer before holds in place, such as
    /// the zeros of a dead ReLU, and stays zero under small changes.
    pub fn kink_clearance(&self) -> f64 {
        let mut clearance = f64::INFINITY;
        let mut count = |distance: f64| {
            if distance > 0.0 {
                clearance = clearance.min(distance);
            }
        };
        for (node, out) in self.graph.nodes().iter().zip(&self.values) {
            let Some(input) = node.inputs.first().map(|id| &self.values[id.index()]) else {
                continue;
            };
            match &node.op {
                Op::Activation(activation) => {
                    for &kink in activation::kinks(*activation) {
                        input.values.iter().for_each(|v| count((v - kink).abs()));
                    }
                }
                Op::MaxPool(pool) => {
                    for (i, &best) in out.values.iter().enumerate() {
                        pool::window(input, *pool, out.position(i)).for_each(|v| count(best - v));
                    }
                }
                _ => {}
            }
        }
        clearance
    }
}

#[cfg(test)]
mod tests {
    use crate::{Reference, ReferenceNorm};
    use flipcast_graph::{Activation, GraphBuilder, Pool};
    use flipcast_tensor::{Batch, Tensor};
    use std::collections::HashMap;

    #[test]
    fn clearance_is_the_smallest_distance_that_is_not_zero() {
        let (mut g, x) = GraphBuilder::new(1);
        let x = g.activation("relu6", x, Activation::Relu6);
        let x = g.max_pool("pool", x, Pool::new(2, 1, 0));
        let x = g.linear("fc", x, 1, 1);
        let graph = g.finish(x).unwrap();
        let params = HashMap::from([
            ("fc.weight".to_owned(), Tensor::new([1, 1], vec![1.0]).unwrap()),
            ("fc.bias".to_owned(), Tensor::zeros([1])),
        ]);
        let reference = Reference::new(&graph, &params).unwrap();
        let clearance = |values: [f32; 4]| {
            let batch = Batch::new([1, 2, 2, 1], values.to_vec()).unwrap();
            let run = reference.forward(&batch, ReferenceNorm::Running, &[]);
            run.unwrap().kink_clearance()
        };
        assert_eq!(clearance([1.0, 3.0, 0.0, -2.0]), 1.0);
        assert_eq!(clearance([2.0, 5.75, 2.0, 2.0]), 0.25);
        assert_eq!(clearance([2.0, 3.5, 3.0, 2.0]), 0.5);
    }
}
