use super::steps::*;
use super::types::*;
use crate::{Graph, Op};

impl Plan {
    /// Floating-point operations of the convolutions and linear layers per image, forward and backward, counting a
    /// multiplication and an addition each and every filter tap, padded or not.
    pub fn flops(&self, graph: &Graph) -> (u64, u64) {
        let flops = |node: crate::NodeId, pixels: usize| {
            let per_pixel = match &graph.node(node).op {
                Op::Conv2d(conv) => {
                    conv.out_channels * conv.in_channels / conv.groups * conv.kernel[0] * conv.kernel[1]
                }
                Op::Linear { inputs, outputs } | Op::Projection { inputs, outputs } => inputs * outputs,
                _ => 0,
            };
            2 * (per_pixel * pixels) as u64
        };
        let pixels_of = |node: crate::NodeId| {
            let value = self.values.iter().find(|value| value.node == node);
            value.map_or(0, |value| value.dims.pixels())
        };
        let forward = self.forward.iter().map(|step| match step {
            Step::Conv { node, .. } => flops(*node, pixels_of(*node)),
            _ => 0,
        });
        let backward = self.backward.iter().map(|step| match step {
            BackwardStep::Conv { node, .. } => flops(*node, pixels_of(*node)),
            _ => 0,
        });
        (forward.sum(), backward.sum())
    }
}
