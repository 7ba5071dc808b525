use flipcast_graph::{Node, PlanError};
use flipcast_tensor::Shape;

/// Why the reference could not run.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ReferenceError {
    /// A parameter of the graph was not given.
    #[error("there is no tensor `{name}`, but the graph needs it with shape {expected}")]
    MissingParam {
        /// The parameter.
        name: String,
        /// Its shape.
        expected: Shape,
    },
    /// A parameter has another shape than the graph says.
    #[error("tensor `{name}` has shape {found}, but the graph expects {expected}")]
    ShapeMismatch {
        /// The parameter.
        name: String,
        /// Its shape according to the graph.
        expected: Shape,
        /// Its shape.
        found: Shape,
    },
    /// The images do not fit the graph.
    #[error("the graph cannot run on these images")]
    Dims(#[from] PlanError),
    /// The images have the wrong number of channels.
    #[error("the images have {found} channels, but the graph takes {expected}")]
    Channels {
        /// Channels of the graph's input.
        expected: usize,
        /// Channels of the images.
        found: usize,
    },
    /// The scales and shifts do not fill the affine table.
    #[error("the affine vector has {found} elements, but the graph's norms have {expected}")]
    AffineLength {
        /// Length of the affine table.
        expected: usize,
        /// Length given.
        found: usize,
    },
    /// The logit gradient does not fit the logits.
    #[error("the logit gradient has {found} elements, but the run has {expected} logits")]
    GradientLength {
        /// Logits of the run.
        expected: usize,
        /// Length given.
        found: usize,
    },
    /// The graph has an operator that the reference does not know yet.
    #[error("`{node}` is an operator the reference does not know: {op}")]
    UnknownOp {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
    },
}

impl ReferenceError {
    pub(super) fn unknown_op(node: &Node) -> Self {
        Self::UnknownOp { node: node.name.clone(), op: format!("{:?}", node.op) }
    }
}
