//! Forward lowering: nodes become steps, and norms and activations become derived values.

use super::steps::*;
use super::types::*;
use crate::{Activation, Arrangement, Dims, Graph, Node, NodeId, NormKind, Op, PlanError};

/// The forward half of a plan, before memory is assigned.
pub(super) struct Lowered {
    pub values: Vec<Value>,
    pub norms: Vec<NormSlot>,
    pub steps: Vec<Step>,
    /// Floats per image of every buffer.
    pub buffers: Vec<usize>,
    pub logits: ValueId,
    pub taps: Vec<(NodeId, ValueId)>,
}

impl Plan {
    /// Plans `graph` as `options` ask.
    pub fn new(graph: &Graph, options: PlanOptions) -> Result<Self, PlanError> {
        if options.batch == 0 {
            return Err(PlanError::EmptyBatch);
        }
        let dims = graph.infer_dims(options.height, options.width)?;
        let mut tapped = vec![graph.embedding(), graph.output()];
        for name in &options.taps {
            let node = graph.find(name).ok_or_else(|| unknown_tap(graph, name))?;
            tapped.push(node);
        }
        let lowered = Lowering::new(graph, dims, tapped).run();
        super::memory::assign(graph, lowered, options)
    }
}

fn unknown_tap(graph: &Graph, name: &str) -> PlanError {
    let nearest = flipcast_ground::nearest_quoted(name, graph.nodes().iter().map(|node| node.name.as_str()));
    PlanError::UnknownTap { name: name.to_owned(), nearest }
}

/// The inputs whose values a node reads; a crop's second lends only its extents.
fn read_inputs(node: &Node) -> &[NodeId] {
    match node.op {
        Op::Arrange(_) => &node.inputs[..1],
        _ => &node.inputs,
    }
}

struct Lowering<'a> {
    graph: &'a Graph,
    dims: Vec<Dims>,
    tapped: Vec<NodeId>,
    /// How many nodes read each node.
    uses: Vec<usize>,
    value_of: Vec<Option<ValueId>>,
    stored_copy: Vec<Option<ValueId>>,
    values: Vec<Value>,
    norms: Vec<NormSlot>,
    steps: Vec<Step>,
    buffers: Vec<usize>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, dims: Vec<Dims>, tapped: Vec<NodeId>) -> Self {
        let mut uses = vec![0; graph.nodes().len()];
        for node in graph.nodes() {
            for input in read_inputs(node) {
                uses[input.0] += 1;
            }
        }
        Self {
            graph,
            dims,
            tapped,
            uses,
            value_of: vec![None; graph.nodes().len()],
            stored_copy: Vec::new(),
            values: Vec::new(),
            norms: Vec::new(),
            steps: Vec::new(),
            buffers: Vec::new(),
        }
    }

    fn run(mut self) -> Lowered {
        for index in 0..self.graph.nodes().len() {
            let value = self.lower(NodeId(index));
            self.value_of[index] = Some(value);
        }
        let logits = self.value(self.graph.output());
        let mut taps: Vec<_> = self.tapped.iter().map(|&node| (node, self.value(node))).collect();
        taps.sort();
        taps.dedup();
        Lowered { values: self.values, norms: self.norms, steps: self.steps, buffers: self.buffers, logits, taps }
    }

    fn value(&self, node: NodeId) -> ValueId {
        self.value_of[node.0].expect("nodes are lowered in order")
    }

    fn lower(&mut self, id: NodeId) -> ValueId {
        let graph = self.graph;
        let node = graph.node(id);
        let input = |lowering: &Self, i: usize| lowering.value(node.inputs[i]);
        match &node.op {
            Op::Input { .. } => self.push(id, Storage::Input),
            Op::Conv2d(_) | Op::Linear { .. } | Op::Projection { .. } => {
                let source = input(self, 0);
                self.push_step(id, |target| Step::Conv { node: id, source, target, statistics: None })
            }
            Op::Norm(layer) => {
                let norm = NormId(self.norms.len());
                let source = self.stored(input(self, 0));
                self.norms.push(NormSlot { node: id, layer: *layer, dims: self.dims[id.0] });
                if layer.kind == NormKind::Layer {
                    return self.push_step(id, |target| Step::LayerNorm { norm, source, target });
                }
                if !self.gather_in_conv(norm, source, layer.kind) {
                    self.steps.push(Step::Statistics { norm, source });
                }
                let activation = Activation::Identity;
                self.push(id, Storage::Derived { base: source, norm: Some(norm), activation })
            }
            Op::Activation(activation) => self.lower_activation(id, input(self, 0), *activation),
            Op::Add => {
                let terms = vec![input(self, 0), input(self, 1)];
                let activation = self.activation_after(id);
                self.push_step(id, |target| Step::Join { terms, activation, target })
            }
            Op::Mul => {
                let source = self.stored(input(self, 0));
                let gate = self.stored(input(self, 1));
                self.push_step(id, |target| Step::Mul { source, gate, target })
            }
            Op::MaxPool(pool) => {
                let (pool, source) = (*pool, input(self, 0));
                self.push_step(id, |target| Step::MaxPool { pool, source, target })
            }
            Op::AvgPool(pool) => {
                let (pool, source) = (*pool, input(self, 0));
                self.push_step(id, |target| Step::AvgPool { pool, source, target })
            }
            Op::GlobalAvgPool => {
                let source = input(self, 0);
                self.push_step(id, |target| Step::GlobalAvgPool { source, target })
            }
            Op::Attention(_) => {
                let source = self.stored(input(self, 0));
                self.push_step(id, |target| Step::Attention { node: id, source, target })
            }
            // Nothing to pad or to cut off.
            Op::Arrange(Arrangement::PadToMultiple { .. } | Arrangement::CropLike)
                if self.dims[id.0] == self.dims[node.inputs[0].0] =>
            {
                input(self, 0)
            }
            Op::Arrange(_) => {
                let source = self.stored(input(self, 0));
                self.push_step(id, |target| Step::Arrange { node: id, source, target })
            }
            Op::PickChannels(_) => {
                let sources = node.inputs.iter().map(|&input| self.stored(self.value(input))).collect();
                self.push_step(id, |target| Step::Pick { node: id, sources, target })
            }
            Op::AddPosition { .. } => {
                let source = self.stored(input(self, 0));
                self.push_step(id, |target| Step::AddPosition { node: id, source, target })
            }
            Op::Scale => {
                let source = self.stored(input(self, 0));
                self.push_step(id, |target| Step::Scale { node: id, source, target })
            }
            Op::Flatten if self.dims[node.inputs[0].0].pixels() == 1 => input(self, 0),
            // A transpose writes what a flatten does, and only calls its extents otherwise.
            Op::Flatten | Op::Transpose { .. } => {
                let source = self.stored(input(self, 0));
                self.push_step(id, |target| Step::Flatten { source, target })
            }
            Op::ShortcutA { stride, .. } => {
                let (stride, source) = (*stride, self.stored(input(self, 0)));
                self.push_step(id, |target| Step::ShortcutA { stride, source, target })
            }
        }
    }

    /// An activation becomes part of the value it reads: of a join that already applies it, of a norm nobody else reads, or
    /// of any stored value.
    fn lower_activation(&mut self, id: NodeId, source: ValueId, activation: Activation) -> ValueId {
        let input = self.graph.node(id).inputs[0];
        let fused = matches!(self.graph.node(input).op, Op::Add)
            && activation != Activation::Identity
            && self.activation_after(input) == activation;
        if fused {
            return source;
        }
        match self.values[source.0].storage {
            Storage::Derived { base, norm: Some(norm), activation: Activation::Identity }
                if self.uses[input.0] == 1 =>
            {
                self.push(id, Storage::Derived { base, norm: Some(norm), activation })
            }
            _ => {
                let base = self.stored(source);
                self.push(id, Storage::Derived { base, norm: None, activation })
            }
        }
    }

    /// The activation a join of `id` can apply itself: its only reader's, if the gradient can be taken from the output.
    fn activation_after(&self, id: NodeId) -> Activation {
        if self.uses[id.0] != 1 || self.tapped.contains(&id) {
            return Activation::Identity;
        }
        let reader = self.graph.nodes().iter().find(|node| read_inputs(node).contains(&id));
        match reader.map(|node| &node.op) {
            Some(Op::Activation(activation)) if activation.derivative_from_output() => *activation,
            _ => Activation::Identity,
        }
    }

    /// Lets the convolution that writes `source` gather the statistics of `norm`, if there is one that is free.
    fn gather_in_conv(&mut self, norm: NormId, source: ValueId, kind: NormKind) -> bool {
        let producer = self.steps.iter_mut().find(|step| step.target() == Some(source));
        match producer {
            Some(Step::Conv { statistics: statistics @ None, .. }) if kind == NormKind::Batch => {
                *statistics = Some(norm);
                true
            }
            _ => false,
        }
    }

    /// A stored value with the numbers of `value`.
    fn stored(&mut self, value: ValueId) -> ValueId {
        if let Storage::Buffer(_) = self.values[value.0].storage {
            return value;
        }
        if let Some(copy) = self.stored_copy[value.0] {
            return copy;
        }
        let node = self.values[value.0].node;
        let target =
            self.push_step(node, |target| Step::Join { terms: vec![value], activation: Activation::Identity, target });
        self.stored_copy[value.0] = Some(target);
        target
    }

    /// A new stored value of `node`, and the step that writes it.
    fn push_step(&mut self, node: NodeId, step: impl FnOnce(ValueId) -> Step) -> ValueId {
        self.buffers.push(self.dims[node.0].len());
        let buffer = BufferId(self.buffers.len() - 1);
        let target = self.push(node, Storage::Buffer(buffer));
        self.steps.push(step(target));
        target
    }

    fn push(&mut self, node: NodeId, storage: Storage) -> ValueId {
        self.values.push(Value { node, dims: self.dims[node.0], storage });
        self.stored_copy.push(None);
        ValueId(self.values.len() - 1)
    }
}
