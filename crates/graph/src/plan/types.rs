use super::steps::{BackwardStep, Step};
use crate::{Activation, Dims, NodeId, NormLayer};
use std::ops::Range;

/// A value's position in [`Plan::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) usize);

/// A buffer's position in the plan's list of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub(crate) usize);

/// A norm layer's position in [`Plan::norms`] and in the affine table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NormId(pub(crate) usize);

impl ValueId {
    /// The position as a number.
    pub fn index(self) -> usize {
        self.0
    }
}

impl NormId {
    /// The position as a number.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where a value's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The caller's batch.
    Input,
    /// A buffer in the arena.
    Buffer(BufferId),
    /// `activation(norm(base))`, recomputed wherever it is read. `base` is stored.
    Derived {
        /// The stored value it comes from.
        base: ValueId,
        /// The norm in between, if any.
        norm: Option<NormId>,
        /// The activation on top.
        activation: Activation,
    },
}

/// One tensor of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The node that computes it.
    pub node: NodeId,
    /// Extents per image.
    pub dims: Dims,
    /// Where it lies.
    pub storage: Storage,
}

/// A batch or group norm whose scale and shift tables are made from statistics of a stored value, or a layer norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSlot {
    /// The node.
    pub node: NodeId,
    /// Its settings.
    pub layer: NormLayer,
    /// Extents of what it normalises.
    pub dims: Dims,
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Forward only: memory is reused as soon as a value was last read.
    Predict,
    /// Forward and backward.
    Adapt,
}

/// What to plan for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Largest batch.
    pub batch: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Forward only, or both ways.
    pub purpose: Purpose,
    /// Nodes whose values must be readable after a forward pass, besides `embedding` and `logits`.
    pub taps: Vec<String>,
}

/// A buffer of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferPlan {
    /// Floats per image.
    pub per_image: usize,
    /// First and last step that uses it; backward steps follow the forward ones.
    pub first: usize,
    pub last: usize,
    /// Start in the arena, in floats.
    pub offset: usize,
}

/// Everything about a run that can be decided before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) options: PlanOptions,
    pub(crate) values: Vec<Value>,
    pub(crate) norms: Vec<NormSlot>,
    pub(crate) forward: Vec<Step>,
    pub(crate) backward: Vec<BackwardStep>,
    pub(crate) buffers: Vec<BufferPlan>,
    pub(crate) arena_len: usize,
    pub(crate) peak_len: usize,
    pub(crate) logits: ValueId,
    pub(crate) logit_gradient: Option<BufferId>,
    pub(crate) taps: Vec<(NodeId, ValueId)>,
}

impl Plan {
    /// What was planned for.
    pub fn options(&self) -> &PlanOptions {
        &self.options
    }

    /// All values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value at `id`.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// All norm layers, in the order of the affine table.
    pub fn norms(&self) -> &[NormSlot] {
        &self.norms
    }

    /// Forward steps in order.
    pub fn forward(&self) -> &[Step] {
        &self.forward
    }

    /// Backward steps in order; empty when planned to predict.
    pub fn backward(&self) -> &[BackwardStep] {
        &self.backward
    }

    /// Whether a gradient passes back through the convolution or linear layer of `node`.
    pub fn undoes(&self, node: NodeId) -> bool {
        self.backward.iter().any(|step| matches!(step, BackwardStep::Conv { node: undone, .. } if *undone == node))
    }

    /// The logits.
    pub fn logits(&self) -> ValueId {
        self.logits
    }

    /// Where the caller's logit gradient goes.
    pub fn logit_gradient(&self) -> Option<BufferId> {
        self.logit_gradient
    }

    /// The value of a tapped node.
    pub fn tap(&self, node: NodeId) -> Option<ValueId> {
        self.taps.iter().find(|(tapped, _)| *tapped == node).map(|(_, value)| *value)
    }

    /// The place of `buffer` in the arena when it holds `images` images.
    pub fn range(&self, buffer: BufferId, images: usize) -> Range<usize> {
        let plan = &self.buffers[buffer.0];
        plan.offset..plan.offset + plan.per_image * images
    }

    /// Buffers that forward step `at` or a later one reads, and an earlier one wrote.
    pub fn live_before(&self, at: usize) -> impl Iterator<Item = BufferId> {
        let buffers = self.buffers.iter().enumerate();
        buffers.filter(move |(_, life)| life.first < at && at <= life.last).map(|(index, _)| BufferId(index))
    }

    /// Floats in the arena.
    pub fn arena_len(&self) -> usize {
        self.arena_len
    }

    /// Most floats live at any one step: no arrangement could use fewer.
    pub fn peak_len(&self) -> usize {
        self.peak_len
    }

    /// The stored value below `id`: itself, or the base of a derived one.
    pub fn base(&self, id: ValueId) -> ValueId {
        base_of(&self.values, id)
    }
}

/// As [`Plan::base`], before there is a plan.
pub(crate) fn base_of(values: &[Value], id: ValueId) -> ValueId {
    match values[id.0].storage {
        Storage::Derived { base, .. } => base,
        Storage::Input | Storage::Buffer(_) => id,
    }
}
