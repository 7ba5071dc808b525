use crate::Dims;

/// Why a graph could not be built.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum GraphError {
    /// Two nodes share a name.
    #[error("two nodes are named `{name}`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A node got a value with the wrong number of channels.
    #[error("`{node}` takes {expected} channels, but its input `{input}` has {found}")]
    ChannelMismatch {
        /// The node.
        node: String,
        /// Its input.
        input: String,
        /// Channels it takes.
        expected: usize,
        /// Channels the input has.
        found: usize,
    },
    /// A setting makes no sense, such as stride 0 or groups that do not divide the channels.
    #[error("`{node}` has {setting} = {value}, expected {expected}")]
    BadSetting {
        /// The node.
        node: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// What would be accepted.
        expected: String,
    },
    /// The output is not a classifier head.
    #[error("the output `{node}` does not give logits, expected a linear layer")]
    OutputIsNotLogits {
        /// The node given as output.
        node: String,
    },
}

/// Why a graph cannot be planned for a batch and input size.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PlanError {
    /// A batch of no images.
    #[error("a batch of 0 images cannot be planned, expected at least 1")]
    EmptyBatch,
    /// The images are too small for some layer.
    #[error("images of {input} leave nothing for `{node}`, whose input is {found}")]
    TooSmall {
        /// Extents of the images.
        input: Dims,
        /// The layer that does not fit.
        node: String,
        /// Extents of its input.
        found: Dims,
    },
    /// Two operands do not fit each other.
    #[error("`{node}` combines {left} with {right}")]
    ShapeMismatch {
        /// The node.
        node: String,
        /// First operand.
        left: Dims,
        /// Second operand.
        right: Dims,
    },
    /// A linear layer was given the wrong number of channels, or the head more than one pixel.
    #[error("`{node}` takes 1 x 1 x {expected}, found {found}; pool or flatten first")]
    NotFlat {
        /// The linear layer.
        node: String,
        /// Inputs it takes.
        expected: usize,
        /// Extents found.
        found: Dims,
    },
    /// Windows of attention do not tile the map.
    #[error("`{node}` cuts {found} into windows of {size} x {size}, which do not tile it; pad first")]
    Windows {
        /// The attention.
        node: String,
        /// Rows and columns of a window.
        size: usize,
        /// Extents of its input.
        found: Dims,
    },
    /// A position embedding was made for another number of tokens.
    #[error("`{node}` has values for {expected} tokens, found {found}")]
    Tokens {
        /// The position embedding.
        node: String,
        /// Tokens it is for.
        expected: usize,
        /// Extents of its input.
        found: Dims,
    },
    /// A tap names no node.
    #[error("there is no node `{name}` to tap; the nearest are {nearest}")]
    UnknownTap {
        /// The name asked for.
        name: String,
        /// The most similar names, quoted.
        nearest: String,
    },
    /// The arena would not fit the address space.
    #[error("a batch of {batch} images of {input} needs more memory than can be addressed")]
    TooLarge {
        /// Images.
        batch: usize,
        /// Extents of an image.
        input: Dims,
    },
}
