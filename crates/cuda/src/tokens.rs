//! Layers of transformers: what is prepared for them once, and their steps forward and backward.

use crate::device::{DeviceMemory, DeviceSlice};
use crate::error::CudaError;
use crate::launch::Target;
use crate::launch::attention::{AttentionGradient, AttentionLayer, AttentionTables, KeptAttention};
use crate::launch::tokens::{self, Moves};
use crate::module::Kernels;
use crate::network::{CudaNetwork, CudaOptions};
use crate::precision::Element;
use flipcast_executor::node_param;
use flipcast_graph::{Arrangement, ChannelRun, Dims, Graph, NodeId, Op, PickTable, Purpose, Step, ValueId};
use flipcast_tensor::Tensor;
use std::collections::HashMap;

/// What a layer without a matrix needs.
#[derive(Debug)]
pub(crate) enum TokenLayer {
    Attention(Box<AttentionMemory>),
    Arrange(MoveMemory),
    /// Channels picked, input by input.
    Pick(Vec<MoveMemory>),
    /// A position embedding or a factor per channel.
    Learned(DeviceMemory),
}

/// An attention layer with its tables and what its backward pass needs.
#[derive(Debug)]
pub(crate) struct AttentionMemory {
    layer: AttentionLayer,
    _tables: Vec<DeviceMemory>,
    /// Result, logarithms of sums, and scratch.
    kept: Option<[DeviceMemory; 3]>,
}

/// A move of tokens, both ways.
#[derive(Debug)]
pub(crate) struct MoveMemory {
    forward: DeviceMemory,
    backward: DeviceMemory,
    learned: Option<DeviceMemory>,
    tokens: usize,
    cells: usize,
    channels: usize,
}

impl TokenLayer {
    /// The layer of `node` from an input to an output of some extents; `None` if it is of another kind.
    pub fn new(
        graph: &Graph,
        node: NodeId,
        [from, to]: [Dims; 2],
        params: &HashMap<String, Tensor>,
        kernels: &Kernels,
        options: &CudaOptions,
    ) -> Result<Option<Self>, CudaError> {
        let device = &kernels.device;
        let learned = node_param(graph, node, params)?;
        let upload = |values: &[f32]| device.upload("weights", Element::F32, values);
        Ok(Some(match &graph.node(node).op {
            Op::Attention(attention) => {
                let tables = AttentionTables::new(attention, from, &learned).expect("dims were inferred from this");
                let mut kept_tables = Vec::new();
                let mut keep = |memory: DeviceMemory| {
                    let slice = memory.slice();
                    kept_tables.push(memory);
                    slice
                };
                let order = tables.order.as_deref();
                let order = order.map(|order| device.upload_integers("attention", order)).transpose()?;
                let bias = tables.bias.as_deref().map(upload).transpose()?;
                let regions = tables.regions.as_deref();
                let regions = regions.map(|regions| device.upload_bytes("attention", regions)).transpose()?;
                let layer = AttentionLayer {
                    order: order.map(&mut keep),
                    bias: bias.map(&mut keep),
                    regions: regions.map(&mut keep),
                    tokens: tables.tokens,
                    group: tables.group,
                    heads: attention.heads,
                    head_channels: from.channels / (3 * attention.heads),
                    scale: attention.scale,
                };
                let (len, rows) = (layer.len(options.batch), layer.rows(options.batch));
                let allocate = |element, len| device.allocate("attention", element, len);
                let kept = match options.purpose {
                    Purpose::Adapt => Some([
                        allocate(kernels.precision.element(), len)?,
                        allocate(Element::F32, rows)?,
                        allocate(Element::F32, rows)?,
                    ]),
                    Purpose::Predict => None,
                };
                Self::Attention(Box::new(AttentionMemory { layer, _tables: kept_tables, kept }))
            }
            Op::Arrange(arrangement) => {
                let cells = arrangement.cells(from, to);
                Self::Arrange(MoveMemory::new(kernels, &cells, [from.pixels(), from.channels], &learned)?)
            }
            Op::AddPosition { .. } | Op::Scale => Self::Learned(upload(&learned)?),
            _ => return Ok(None),
        }))
    }
}

impl TokenLayer {
    /// The channels that `runs` pick from inputs of `from` for an output of `to`.
    pub fn pick(runs: &[ChannelRun], from: &[Dims], to: Dims, kernels: &Kernels) -> Result<Self, CudaError> {
        let moves = from.iter().enumerate().map(|(input, &from)| {
            let PickTable { unit, cells } = PickTable::new(runs, input, from, to);
            MoveMemory::new(kernels, &cells, [from.len() / unit, unit], &[])
        });
        Ok(Self::Pick(moves.collect::<Result<_, _>>()?))
    }
}

impl MoveMemory {
    /// Tables that move `tokens` of `channels` each into `cells`; vacant ones take the rows of `learned` in turn.
    fn new(
        kernels: &Kernels,
        cells: &[u32],
        [tokens, channels]: [usize; 2],
        learned: &[f32],
    ) -> Result<Self, CudaError> {
        let device = &kernels.device;
        let inverse = Arrangement::inverse(cells, tokens);
        let table = |cells: &[u32], rows| device.upload_integers("moves", &tokens::move_table(cells, rows));
        let upload = || device.upload("weights", Element::F32, learned);
        Ok(Self {
            forward: table(cells, learned.len() / channels.max(1))?,
            backward: table(&inverse, 0)?,
            learned: (!learned.is_empty()).then(upload).transpose()?,
            tokens,
            cells: cells.len(),
            channels,
        })
    }

    fn run(&self, queue: &Kernels, images: usize, values: DeviceSlice, to: Target) -> Result<(), CudaError> {
        let learned = self.learned.as_ref().map(DeviceMemory::slice);
        let extents = Moves { images, tokens: self.tokens, cells: self.cells, channels: self.channels };
        tokens::arrange(queue, extents, self.forward.slice(), learned, values, to)
    }

    fn run_back(&self, queue: &Kernels, images: usize, gradient: DeviceSlice, to: Target) -> Result<(), CudaError> {
        let extents = Moves { images, tokens: self.cells, cells: self.tokens, channels: self.channels };
        tokens::arrange(queue, extents, self.backward.slice(), None, gradient, to)
    }
}

impl CudaNetwork {
    fn token_layer(&self, node: NodeId) -> &TokenLayer {
        self.token_layers[node.index()].as_ref().expect("planned layers are prepared")
    }

    /// Runs a forward step of a layer in this file.
    pub(crate) fn token_step(
        &self,
        step: &Step,
        (node, source, target): (NodeId, ValueId, ValueId),
    ) -> Result<(), CudaError> {
        let (kernels, images) = (&self.kernels, self.images);
        let (values, out) = (self.place(source, images), self.place(target, images));
        match (self.token_layer(node), step) {
            (TokenLayer::Attention(attention), _) => {
                let kept = attention.kept();
                attention.layer.forward(kernels, images, values, out, kept)
            }
            (TokenLayer::Arrange(moves), _) => moves.run(kernels, images, values, out.into()),
            (TokenLayer::Pick(_), _) => unreachable!("a step of several sources has a function of its own"),
            (TokenLayer::Learned(position), Step::AddPosition { .. }) => {
                tokens::add_position(kernels, images, values, position.slice(), out)
            }
            (TokenLayer::Learned(factors), _) => {
                let extent = self.extent(source);
                tokens::scale_channels(kernels, extent, values, factors.slice(), out.into())
            }
        }
    }

    /// Joins channels of several values. The first input also clears the channels of the others, which then add theirs.
    pub(crate) fn pick_step(&self, node: NodeId, sources: &[ValueId], target: ValueId) -> Result<(), CudaError> {
        let TokenLayer::Pick(inputs) = self.token_layer(node) else {
            unreachable!("a step names a layer of its own kind");
        };
        for (input, (moves, &source)) in inputs.iter().zip(sources).enumerate() {
            let to = Target { slice: self.place(target, self.images), accumulate: input > 0 };
            moves.run(&self.kernels, self.images, self.place(source, self.images), to)?;
        }
        Ok(())
    }

    /// Carries a gradient back to one input of such a join.
    pub(crate) fn pick_backward(
        &self,
        node: NodeId,
        input: usize,
        gradient: DeviceSlice,
        target: Target,
    ) -> Result<(), CudaError> {
        let TokenLayer::Pick(inputs) = self.token_layer(node) else {
            unreachable!("a step names a layer of its own kind");
        };
        inputs[input].run_back(&self.kernels, self.images, gradient, target)
    }

    /// Carries a gradient back through a layer in this file; `source` is the value it read, where the gradient depends on it
    /// or its extents do.
    pub(crate) fn token_backward(
        &self,
        node: NodeId,
        source: Option<ValueId>,
        gradient: DeviceSlice,
        target: Target,
    ) -> Result<(), CudaError> {
        let (kernels, images) = (&self.kernels, self.images);
        match (self.token_layer(node), source) {
            (TokenLayer::Attention(attention), Some(source)) => {
                let (Some(kept), Some([_, _, pulls])) = (attention.kept(), &attention.kept) else {
                    unreachable!("networks that adapt keep what attention needs");
                };
                let of = AttentionGradient {
                    values: self.place(source, images),
                    kept,
                    gradient,
                    pulls: pulls.slice(),
                    target,
                };
                attention.layer.backward(kernels, images, of)
            }
            (TokenLayer::Arrange(moves), _) => moves.run_back(kernels, images, gradient, target),
            (TokenLayer::Learned(factors), Some(source)) => {
                let extent = self.extent(source);
                tokens::scale_channels(kernels, extent, gradient, factors.slice(), target)
            }
            _ => unreachable!("every planned step is implemented"),
        }
    }
}

impl AttentionMemory {
    fn kept(&self) -> Option<KeptAttention> {
        let [output, log_sums, _] = self.kept.as_ref()?;
        Some(KeptAttention { output: output.slice(), log_sums: log_sums.slice() })
    }
}
