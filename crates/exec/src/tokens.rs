//! Layers of transformers: what is prepared for them once, and their steps forward and backward.

use crate::network::Network;
use crate::places::views;
use crate::{Exactness, ExecError, Isa};
use flipcast_executor::node_param;
use flipcast_graph::{
    Arrangement, Attention, BufferId, ChannelRun, Dims, GradTarget, Graph, NodeId, Op, PickTable, ValueId,
};
use flipcast_kernels as k;
use flipcast_kernels::{AttentionShape, Cells, Target};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::sync::Arc;

/// A plan's steps and the layers made for them belong together.
const NOT_THE_LAYER: &str = "a step names a layer of its own kind";

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
    /// Channels picked, input by input.
    Pick(Vec<Moves>),
    /// A learned value per token and channel, added.
    Position(Vec<f32>),
    /// A learned factor per channel.
    Scale(Vec<f32>),
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
        let learned = || node_param(graph, node, params);
        Ok(Some(match &graph.node(node).op {
            Op::Attention(attention) => {
                Self::Attention(prepare_attention(attention, from, &learned()?, isa, exactness))
            }
            Op::Arrange(arrangement) => {
                let cells = arrangement.cells(from, to);
                Self::Arrange(Moves::new(cells, from.pixels(), from.channels, learned()?))
            }
            Op::AddPosition { .. } => Self::Position(learned()?),
            Op::Scale => Self::Scale(learned()?),
            _ => return Ok(None),
        }))
    }
}

impl TokenLayer {
    /// The channels that `runs` pick from inputs of `from` for an output of `to`.
    pub fn pick(runs: &[ChannelRun], from: &[Dims], to: Dims) -> Self {
        let moves = from.iter().enumerate().map(|(input, &from)| {
            let PickTable { unit, cells } = PickTable::new(runs, input, from, to);
            Moves::new(cells, from.len() / unit, unit, Vec::new())
        });
        Self::Pick(moves.collect())
    }
}

/// Attention over the groups of an input of `dims`, with its bias spread out to `[head][query][key]`.
fn prepare_attention(attention: &Attention, dims: Dims, table: &[f32], isa: Isa, exactness: Exactness) -> k::Attention {
    let groups = attention.groups(dims).expect("dims were inferred from this");
    let heads = attention.heads;
    let bias = attention.spread_bias(table);
    let shape = AttentionShape {
        tokens: dims.pixels(),
        heads,
        head_channels: dims.channels / (3 * heads),
        scale: attention.scale,
        group: groups.size,
        order: &groups.tokens,
        bias: bias.as_deref(),
        regions: groups.regions.as_deref().map(|regions| (regions, Attention::MASK)),
    };
    k::Attention::new(isa, &shape, exactness)
}

impl Moves {
    fn new(forward: Vec<u32>, tokens: usize, channels: usize, learned: Vec<f32>) -> Self {
        let backward = Arrangement::inverse(&forward, tokens);
        Self { forward, backward, learned, channels }
    }

    fn cells(&self) -> Cells<'_> {
        Cells { table: &self.forward, tokens: self.backward.len(), channels: self.channels, vacant: &self.learned }
    }

    /// Every token appears once at most, so the backward pass is a move as well.
    fn cells_back(&self) -> Cells<'_> {
        Cells { table: &self.backward, tokens: self.forward.len(), channels: self.channels, vacant: &[] }
    }
}

impl Network {
    /// Runs a forward step of a layer in this file.
    pub(crate) fn token_step(&mut self, node: NodeId, source: ValueId, target: ValueId) {
        let (kernels, images, extent) = (Arc::clone(&self.kernels), self.images, self.extent(source));
        let ([values, out], team) = self.stored([source, target]);
        let target = |values| Target { values, accumulate: false };
        match kernels.token_layer(node) {
            TokenLayer::Attention(attention) => attention.forward(team, images, values, out),
            TokenLayer::Arrange(moves) => k::arrange(team, images, moves.cells(), values, target(out)),
            TokenLayer::Pick(_) => unreachable!("{NOT_THE_LAYER}"),
            TokenLayer::Position(position) => k::add_repeated(team, images, values, position, out),
            TokenLayer::Scale(factors) => k::scale(team, extent, values, factors, target(out)),
        }
    }

    /// Joins channels of several values. The first input also clears the channels of the others, which then add theirs.
    pub(crate) fn pick_step(&mut self, node: NodeId, sources: &[ValueId], target: ValueId) {
        let (kernels, images) = (Arc::clone(&self.kernels), self.images);
        let TokenLayer::Pick(inputs) = kernels.token_layer(node) else { unreachable!("{NOT_THE_LAYER}") };
        for (input, (moves, &source)) in inputs.iter().zip(sources).enumerate() {
            let ([values, out], team) = self.stored([source, target]);
            k::arrange(team, images, moves.cells(), values, Target { values: out, accumulate: input > 0 });
        }
    }

    pub(crate) fn pick_backward(&mut self, node: NodeId, input: usize, gradient: BufferId, target: GradTarget) {
        let (kernels, images) = (Arc::clone(&self.kernels), self.images);
        let TokenLayer::Pick(inputs) = kernels.token_layer(node) else { unreachable!("{NOT_THE_LAYER}") };
        let (from, to, team) = self.gradients(gradient, target);
        k::arrange(team, images, inputs[input].cells_back(), from, to);
    }

    pub(crate) fn attention_backward(&mut self, node: NodeId, source: ValueId, from: BufferId, target: GradTarget) {
        let kernels = Arc::clone(&self.kernels);
        let TokenLayer::Attention(attention) = kernels.token_layer(node) else { unreachable!("{NOT_THE_LAYER}") };
        let ranges = [self.stored_range(source), self.gradient_range(from), self.gradient_range(target.buffer)];
        let [input, gradient, values] = views(&mut self.arena, ranges);
        let target = Target { values, accumulate: target.accumulate };
        attention.backward(&mut self.team, self.images, input, gradient, target);
    }

    pub(crate) fn arrange_backward(&mut self, node: NodeId, gradient: BufferId, target: GradTarget) {
        let (kernels, images) = (Arc::clone(&self.kernels), self.images);
        let TokenLayer::Arrange(moves) = kernels.token_layer(node) else { unreachable!("{NOT_THE_LAYER}") };
        let (from, to, team) = self.gradients(gradient, target);
        k::arrange(team, images, moves.cells_back(), from, to);
    }

    pub(crate) fn scale_backward(&mut self, node: NodeId, source: ValueId, gradient: BufferId, target: GradTarget) {
        let (kernels, extent) = (Arc::clone(&self.kernels), self.extent(source));
        let TokenLayer::Scale(factors) = kernels.token_layer(node) else { unreachable!("{NOT_THE_LAYER}") };
        let (from, to, team) = self.gradients(gradient, target);
        k::scale(team, extent, from, factors, to);
    }
}
