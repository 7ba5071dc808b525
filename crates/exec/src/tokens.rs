//! Layers of transformers: what is prepared for them once, and their steps forward and backward.

use crate::kernels::param;
use crate::network::Network;
use crate::places::views;
use crate::{Exactness, ExecError, Isa};
use flipcast_graph::{Arrangement, Attention, BufferId, Dims, GradTarget, Graph, NodeId, Op, ParamSpec, Step, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{AttentionShape, Cells};
use flipcast_tensor::Tensor;
use std::collections::HashMap;

/// A move of tokens, and what vacant cells take.
#[derive(Debug)]
pub(crate) struct Moves {
    forward: Vec<u32>,
    backward: Vec<u32>,
    learned: Vec<f32>,
    channels: usize,
}

/// What a layer without a matrix needs.
#[derive(Debug)]
pub(crate) enum TokenLayer {
    Attention(k::Attention),
    Arrange(Moves),
    /// A position embedding or a factor per channel.
    Learned(Vec<f32>),
}

impl TokenLayer {
    /// The layer of `node` from an input of `from` to an output of `to`; `None` if it is of another kind.
    pub fn new(
        graph: &Graph,
        node: NodeId,
        [from, to]: [Dims; 2],
        params: &HashMap<String, Tensor>,
        (isa, exactness): (Isa, Exactness),
    ) -> Result<Option<Self>, ExecError> {
        let learned = || learned(graph, node, params);
        Ok(Some(match &graph.node(node).op {
            Op::Attention(attention) => {
                Self::Attention(prepare_attention(attention, from, &learned()?, isa, exactness))
            }
            Op::Arrange(arrangement) => Self::Arrange(Moves::new(*arrangement, [from, to], learned()?)),
            Op::AddPosition { .. } | Op::Scale => Self::Learned(learned()?),
            _ => return Ok(None),
        }))
    }
}

/// The values of the only parameter of `node`; empty when it has none.
fn learned(graph: &Graph, node: NodeId, params: &HashMap<String, Tensor>) -> Result<Vec<f32>, ExecError> {
    let specs = graph.node_params(node);
    let values = specs.iter().map(|ParamSpec { name, shape }| param(params, name, shape));
    Ok(values.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Attention over the groups of an input of `dims`, with its bias spread out to `[head][query][key]`.
fn prepare_attention(attention: &Attention, dims: Dims, table: &[f32], isa: Isa, exactness: Exactness) -> k::Attention {
    let groups = attention.groups(dims).expect("dims were inferred from this");
    let rows = attention.bias_rows();
    let heads = attention.heads;
    let bias: Vec<f32> = (0..heads)
        .flat_map(|head| rows.iter().map(move |&row| row as usize * heads + head))
        .filter(|_| attention.relative_bias)
        .map(|at| table[at])
        .collect();
    let shape = AttentionShape {
        tokens: dims.pixels(),
        heads,
        head_channels: dims.channels / (3 * heads),
        scale: attention.scale,
        group: groups.size,
        order: &groups.tokens,
        bias: attention.relative_bias.then_some(bias.as_slice()),
        regions: groups.regions.as_deref().map(|regions| (regions, Attention::MASK)),
    };
    k::Attention::new(isa, &shape, exactness)
}

impl Moves {
    fn new(arrangement: Arrangement, [from, to]: [Dims; 2], learned: Vec<f32>) -> Self {
        let forward = arrangement.cells(from, to);
        let mut backward = vec![Cells::VACANT; from.pixels()];
        for (cell, &token) in forward.iter().enumerate() {
            if token != Arrangement::VACANT {
                backward[token as usize] = cell as u32;
            }
        }
        Self { forward, backward, learned, channels: from.channels }
    }

    fn cells(&self) -> Cells<'_> {
        Cells { table: &self.forward, tokens: self.backward.len(), channels: self.channels, vacant: &self.learned }
    }

    /// Every token appears once at most, so the way back is a move as well.
    fn cells_back(&self) -> Cells<'_> {
        Cells { table: &self.backward, tokens: self.forward.len(), channels: self.channels, vacant: &[] }
    }
}

impl Network {
    /// Runs a forward step of a layer in this file.
    pub(crate) fn token_step(&mut self, step: &Step) {
        let Some((node, source, target)) = step.token_place() else {
            unreachable!("every planned step is implemented");
        };
        let kernels = std::sync::Arc::clone(&self.kernels);
        let extent = self.extent(source);
        let ranges = [self.stored_range(source), self.stored_range(target)];
        let [values, out] = views(&mut self.arena, ranges);
        let workers = &mut self.workers;
        match (kernels.token_layer(node), step) {
            (TokenLayer::Attention(attention), _) => {
                attention.forward(workers, &mut self.scratch, self.images, values, out);
            }
            (TokenLayer::Arrange(moves), _) => {
                k::arrange(workers, self.images, moves.cells(), values, out, false);
            }
            (TokenLayer::Learned(position), Step::AddPosition { .. }) => {
                k::add_repeated(workers, self.images, values, position, out);
            }
            (TokenLayer::Learned(factors), _) => {
                k::scale(workers, extent, values, factors, out, false);
            }
        }
    }

    /// Carries a gradient back through a layer in this file; `source` is the value it read, where the gradient depends on it
    /// or its extents do.
    pub(crate) fn token_backward(
        &mut self,
        node: NodeId,
        source: Option<ValueId>,
        gradient: BufferId,
        target: GradTarget,
    ) {
        let kernels = std::sync::Arc::clone(&self.kernels);
        let extent = source.map(|source| self.extent(source));
        let (from, to) = (self.gradient_range(gradient), self.gradient_range(target.buffer));
        let (workers, add) = (&mut self.workers, target.accumulate);
        match (kernels.token_layer(node), source, extent) {
            (TokenLayer::Attention(attention), Some(source), _) => {
                let flipcast_graph::Storage::Buffer(buffer) = self.plan.value(source).storage else {
                    unreachable!("attention reads stored values");
                };
                let values = self.plan.range(buffer, self.images);
                let [values, gradient, to] = views(&mut self.arena, [values, from, to]);
                let scratch = &mut self.scratch;
                attention.backward(workers, scratch, self.images, (values, gradient), (to, add));
            }
            (TokenLayer::Arrange(moves), ..) => {
                let [gradient, to] = views(&mut self.arena, [from, to]);
                k::arrange(workers, self.images, moves.cells_back(), gradient, to, add);
            }
            (TokenLayer::Learned(factors), _, Some(extent)) => {
                let [gradient, to] = views(&mut self.arena, [from, to]);
                k::scale(workers, extent, gradient, factors, to, add);
            }
            _ => unreachable!("every planned step is implemented"),
        }
    }
}
