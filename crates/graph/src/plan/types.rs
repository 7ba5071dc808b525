use crate::{Activation, Dims, NodeId, NormLayer, Pool};
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

/// A forward step. Sources may be derived values; targets are stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// A convolution or linear layer, by node.
    Conv {
        /// The layer, for its settings and weights.
        node: NodeId,
        /// What it reads.
        source: ValueId,
        /// What it writes.
        target: ValueId,
        /// The batch norm whose statistics are gathered while the target is written.
        statistics: Option<NormId>,
    },
    /// Statistics of a stored value for a norm that no convolution precedes.
    Statistics {
        /// The norm.
        norm: NormId,
        /// The value.
        source: ValueId,
    },
    /// `activation(sum of terms)`; with one term it only stores a derived value.
    Join {
        /// One or two terms.
        terms: Vec<ValueId>,
        /// Applied to the sum; its derivative can be read off the result.
        activation: Activation,
        /// The result.
        target: ValueId,
    },
    /// Max pool; remembers which tap won.
    MaxPool {
        /// The window.
        pool: Pool,
        /// What it reads.
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Average pool.
    AvgPool {
        /// The window.
        pool: Pool,
        /// What it reads.
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Mean over all pixels.
    GlobalAvgPool {
        /// What it reads.
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Product with a gate; both factors are stored.
    Mul {
        /// The value.
        source: ValueId,
        /// The gate, of the same extents or of one pixel.
        gate: ValueId,
        /// The product.
        target: ValueId,
    },
    /// Pixels to channels in PyTorch's order.
    Flatten {
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Strided shortcut with zero channels around.
    ShortcutA {
        /// Step between pixels.
        stride: usize,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Layer norm of a stored value.
    LayerNorm {
        /// The norm.
        norm: NormId,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
}

impl Step {
    /// What the step reads.
    pub fn sources(&self) -> Vec<ValueId> {
        match self {
            Self::Join { terms, .. } => terms.clone(),
            Self::Mul { source, gate, .. } => vec![*source, *gate],
            Self::Conv { source, .. }
            | Self::Statistics { source, .. }
            | Self::MaxPool { source, .. }
            | Self::AvgPool { source, .. }
            | Self::GlobalAvgPool { source, .. }
            | Self::Flatten { source, .. }
            | Self::ShortcutA { source, .. }
            | Self::LayerNorm { source, .. } => vec![*source],
        }
    }

    /// What the step writes into the arena; statistics write none of it.
    pub fn target(&self) -> Option<ValueId> {
        match self {
            Self::Statistics { .. } => None,
            Self::Conv { target, .. }
            | Self::Join { target, .. }
            | Self::MaxPool { target, .. }
            | Self::AvgPool { target, .. }
            | Self::GlobalAvgPool { target, .. }
            | Self::Mul { target, .. }
            | Self::Flatten { target, .. }
            | Self::ShortcutA { target, .. }
            | Self::LayerNorm { target, .. } => Some(*target),
        }
    }
}

/// The gradient of a stored value as a backward step reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradSource {
    /// It lies in a buffer.
    Plain(BufferId),
    /// It is recomputed from the gradient of the derived `value` on top of it.
    ThroughNorm {
        /// The derived value.
        value: ValueId,
        /// Its gradient.
        gradient: BufferId,
    },
}

/// Where a backward step leaves a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradTarget {
    /// The buffer.
    pub buffer: BufferId,
    /// Whether another contribution lies there already.
    pub accumulate: bool,
}

/// What happens to the gradient of a join once it is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinBackward {
    /// The joined value.
    pub joined: ValueId,
    /// Its activation, whose slope was noted in the forward pass.
    pub activation: Activation,
    /// Terms that are batch norms with nothing on top, whose sums are gathered in the same pass.
    pub sums: Vec<ValueId>,
}

/// What happens to a gradient while a convolution writes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Then {
    /// Nothing: others add to it, or somebody else goes on.
    Nothing,
    /// It is that of a derived value: its norm's sums are gathered.
    Sums(ValueId),
    /// It is that of a join.
    Join(JoinBackward),
}

/// A backward step. Named after the forward step it undoes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackwardStep {
    /// Gradients of a norm's scale and shift, and the tables that carry the gradient through it.
    NormSums {
        /// The derived value on top of the norm.
        value: ValueId,
        /// Its gradient.
        gradient: BufferId,
    },
    /// Stores a gradient carried through norm and activation. May work in place.
    ThroughNorm {
        /// The derived value.
        value: ValueId,
        /// Its gradient.
        gradient: BufferId,
        /// The gradient of its base.
        target: GradTarget,
    },
    /// Passes the complete gradient of a join on, in place.
    Join {
        /// The gradient.
        gradient: BufferId,
        /// What happens to it.
        join: JoinBackward,
    },
    /// Adds or copies one gradient buffer into another.
    Copy {
        /// Values per image.
        len: usize,
        /// From.
        gradient: BufferId,
        /// To.
        target: GradTarget,
    },
    /// Convolution or linear layer.
    Conv {
        /// The layer.
        node: NodeId,
        /// Gradient of its output.
        gradient: GradSource,
        /// Gradient of its input.
        target: GradTarget,
        /// What happens to the target while it is written, if it is complete then.
        then: Then,
    },
    /// Max pool.
    MaxPool {
        /// The forward step's target, which identifies the remembered taps.
        forward: ValueId,
        /// The window.
        pool: Pool,
        /// Gradient of its output.
        gradient: BufferId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Average pool.
    AvgPool {
        /// Value it wrote.
        forward: ValueId,
        /// The window.
        pool: Pool,
        /// Gradient of its output.
        gradient: BufferId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Mean over all pixels.
    GlobalAvgPool {
        /// Gradient of its output.
        gradient: BufferId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Product: either factor may want its gradient.
    Mul {
        /// The value.
        source: ValueId,
        /// The gate.
        gate: ValueId,
        /// Gradient of the product.
        gradient: BufferId,
        /// Gradient of the value.
        source_target: Option<GradTarget>,
        /// Gradient of the gate.
        gate_target: Option<GradTarget>,
    },
    /// Pixels to channels.
    Flatten {
        /// Value it read.
        source: ValueId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Strided shortcut.
    ShortcutA {
        /// Step between pixels.
        stride: usize,
        /// Value it read.
        source: ValueId,
        /// Value it wrote.
        forward: ValueId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Layer norm: gradients of scale and shift, and of the input if wanted.
    LayerNorm {
        /// The norm.
        norm: NormId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: Option<GradTarget>,
    },
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
        self.taps
            .iter()
            .find(|(tapped, _)| *tapped == node)
            .map(|(_, value)| *value)
    }

    /// The place of `buffer` in the arena when it holds `images` images.
    pub fn range(&self, buffer: BufferId, images: usize) -> Range<usize> {
        let plan = &self.buffers[buffer.0];
        plan.offset..plan.offset + plan.per_image * images
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
        match self.values[id.0].storage {
            Storage::Derived { base, .. } => base,
            _ => id,
        }
    }
}
