use super::types::{BufferId, NormId, ValueId};
use crate::{Activation, NodeId, Pool};

/// A forward step. Sources may be derived values; targets are stored.
#[derive(Clone, Debug, PartialEq)]
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
    /// Self-attention over stored queries, keys and values.
    Attention {
        /// The layer, for its settings and weights.
        node: NodeId,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Tokens moved, left out or put in.
    Arrange {
        /// The layer, for its settings and weights.
        node: NodeId,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Channels of several stored values.
    Pick {
        /// The layer, for its runs.
        node: NodeId,
        /// What it reads (stored), input by input.
        sources: Vec<ValueId>,
        /// What it writes.
        target: ValueId,
    },
    /// Sum with a learned value per token and channel.
    AddPosition {
        /// The layer, for its weights.
        node: NodeId,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
    /// Product with a learned factor per channel.
    Scale {
        /// The layer, for its weights.
        node: NodeId,
        /// What it reads (stored).
        source: ValueId,
        /// What it writes.
        target: ValueId,
    },
}

impl Step {
    /// The norm whose statistics the step gathers.
    pub fn norm(&self) -> Option<NormId> {
        match *self {
            Self::Conv { statistics, .. } => statistics,
            Self::Statistics { norm, .. } => Some(norm),
            _ => None,
        }
    }

    /// Node, source and target of a step of a transformer's layer without a matrix; `None` for other steps.
    pub fn token_place(&self) -> Option<(NodeId, ValueId, ValueId)> {
        match self {
            Self::Attention { node, source, target }
            | Self::Arrange { node, source, target }
            | Self::AddPosition { node, source, target }
            | Self::Scale { node, source, target } => Some((*node, *source, *target)),
            _ => None,
        }
    }

    /// What the step reads.
    pub fn sources(&self) -> Vec<ValueId> {
        match self {
            Self::Join { terms, .. } => terms.clone(),
            Self::Pick { sources, .. } => sources.clone(),
            Self::Mul { source, gate, .. } => vec![*source, *gate],
            Self::Conv { source, .. }
            | Self::Statistics { source, .. }
            | Self::MaxPool { source, .. }
            | Self::AvgPool { source, .. }
            | Self::GlobalAvgPool { source, .. }
            | Self::Flatten { source, .. }
            | Self::ShortcutA { source, .. }
            | Self::LayerNorm { source, .. }
            | Self::Attention { source, .. }
            | Self::Arrange { source, .. }
            | Self::AddPosition { source, .. }
            | Self::Scale { source, .. } => vec![*source],
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
            | Self::LayerNorm { target, .. }
            | Self::Attention { target, .. }
            | Self::Arrange { target, .. }
            | Self::Pick { target, .. }
            | Self::AddPosition { target, .. }
            | Self::Scale { target, .. } => Some(*target),
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
pub enum Then {
    /// Nothing: other steps add to it, or a later step continues with it.
    Nothing,
    /// It is that of a derived value: its norm's sums are gathered.
    Sums(ValueId),
    /// It is that of a join.
    Join(JoinBackward),
}

/// A backward step. Named after the forward step it undoes.
#[derive(Clone, Debug, PartialEq)]
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
    /// Self-attention: the gradient of queries, keys and values together.
    Attention {
        /// The layer.
        node: NodeId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Tokens moved.
    Arrange {
        /// The layer.
        node: NodeId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: GradTarget,
    },
    /// Channels of one of several inputs.
    Pick {
        /// The layer.
        node: NodeId,
        /// Position of the input.
        input: usize,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of that input.
        target: GradTarget,
    },
    /// Product with a learned factor per channel.
    Scale {
        /// The layer.
        node: NodeId,
        /// Value it read.
        source: ValueId,
        /// Gradient of its output.
        gradient: BufferId,
        /// Gradient of its input.
        target: GradTarget,
    },
}
