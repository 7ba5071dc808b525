use crate::text::shown;
use flipcast_graph::{GraphError, PlanError};
use flipcast_ground::Hint;
use std::fmt;

/// Why an exported program is no network that runs here.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not the JSON of an exported program.
    #[error("`models/model.json` is malformed")]
    Json {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// Another version of the format.
    #[error("the exported program has schema {major}.{minor}, expected 8")]
    Schema {
        /// The version that changes when old readers fail.
        major: u64,
        /// The version that changes when something is added.
        minor: u64,
    },
    /// An ONNX file of another version.
    #[error("the ONNX file has opset {found}, expected 13 to 22")]
    Opset {
        /// Version of the standard operators.
        found: i64,
    },
    /// Something goes in that is no tensor.
    #[error("the exported program has an input of kind `{found}`, expected tensors alone")]
    Signature {
        /// Its kind.
        found: String,
    },
    /// Not one input.
    #[error("the network takes {found} inputs, expected one batch of images")]
    Inputs {
        /// How many.
        found: usize,
    },
    /// Not one output.
    #[error("the network gives {found} results, expected the logits alone")]
    Outputs {
        /// How many.
        found: usize,
    },
    /// The input is no batch of images.
    #[error("the network takes a tensor of {rank} axes, expected images of batch, channels, rows and columns")]
    Images {
        /// Axes of the input.
        rank: usize,
    },
    /// Images of a size that cannot be.
    #[error("the program was exported with images of extents {found:?}, expected 1 to 16384 along every axis")]
    Example {
        /// Batch, channels, rows and columns.
        found: [usize; 4],
    },
    /// One call cannot be lowered.
    #[error("cannot run {place}")]
    Call {
        /// Which one.
        place: Box<Place>,
        /// Why not.
        #[source]
        problem: Box<CallError>,
    },
    /// The result is no logits.
    #[error("the result `{name}` is {found}, expected one value per image and class")]
    NotLogits {
        /// Its name in the program.
        name: String,
        /// What it is.
        found: String,
    },
    /// The layers do not fit each other.
    #[error("the layers of the network do not fit each other")]
    Graph {
        /// The first that does not.
        #[source]
        source: GraphError,
    },
    /// The layers do not fit the images they were exported with.
    #[error("the layers of the network do not fit its example images")]
    Plan {
        /// The first that does not.
        #[source]
        source: PlanError,
    },
    /// The program holds for one image size, and is asked for another.
    #[error("the program was exported for images of {exported}, and `{layer}` holds for no others, found {found}")]
    OtherSize {
        /// Rows and columns of the example.
        exported: String,
        /// Rows and columns asked for.
        found: String,
        /// The layer.
        layer: String,
    },
}

/// A call in an exported program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The operator, such as `aten.conv2d.default`.
    pub operator: String,
    /// The module it was called in; empty at the top.
    pub module: String,
    /// Its name in the program.
    pub node: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", shown(&self.operator))?;
        if !self.module.is_empty() {
            write!(f, " in module `{}`", shown(&self.module))?;
        }
        write!(f, " (node `{}`)", shown(&self.node))
    }
}

/// Why one call of an exported program cannot be lowered.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CallError {
    /// The operator is not in the table.
    #[error("the operator is not among the {known} that are understood")]
    UnknownOperator {
        /// Operators in the table.
        known: usize,
    },
    /// An argument that must be there, or of another kind.
    #[error("argument `{argument}` is {found}, expected {expected}")]
    Argument {
        /// Its name.
        argument: &'static str,
        /// What it is.
        found: String,
        /// What is understood.
        expected: String,
    },
    /// A name that no earlier call gave.
    #[error("it reads `{name}`, which no earlier call makes")]
    UnknownValue {
        /// The name.
        name: String,
    },
    /// A name given twice.
    #[error("it makes `{name}`, which is there already")]
    DuplicateValue {
        /// The name.
        name: String,
    },
    /// A tensor the archive does not hold.
    #[error("the archive holds no tensor `{name}`")]
    MissingTensor {
        /// The name.
        name: String,
    },
    /// A value that was changed in place through another view of it.
    #[error("it reads `{name}`, another view of which was changed in place")]
    ChangedInPlace {
        /// The name.
        name: String,
    },
    /// A layer in training mode.
    #[error("the layer was exported in training mode")]
    Training,
    /// A value that is arranged in a way the operator does not take here.
    #[error("its operand has axes {found}, expected {expected}")]
    Layout {
        /// The axes, in terms of batch, channels, rows and columns.
        found: String,
        /// What is understood.
        expected: String,
    },
    /// Extents that do not fit each other.
    #[error("the extents do not fit: {problem}")]
    Extents {
        /// Which ones.
        problem: String,
    },
}

impl Hint for ProgramError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Schema { major, .. } if *major > 8 => {
                "the file is newer than this flipcast; export with PyTorch 2.15"
            }
            Self::Schema { .. } => "load it with `torch.export.load` in a current PyTorch and save it again",
            Self::Opset { .. } => {
                "export the network with `opset_version=20`, or convert it with `onnx.version_converter`"
            }
            Self::Inputs { .. } | Self::Signature { .. } | Self::Images { .. } => {
                "export a module whose `forward` takes one tensor of images"
            }
            Self::Outputs { .. } => "export a module whose `forward` returns the logits alone",
            Self::Example { .. } => "export the network with an example of the images it is used for",
            Self::NotLogits { .. } => "export the network with its classifier and without a softmax behind it",
            Self::OtherSize { .. } => "export the network with images of the size that is used",
            Self::Call { problem, .. } => return problem.hint(),
            Self::Json { .. } | Self::Graph { .. } | Self::Plan { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

impl Hint for CallError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Training => "call `model.eval()` before `torch.export.export`",
            Self::UnknownOperator { .. } | Self::Argument { .. } | Self::Layout { .. } => {
                "docs/exported-programs.md lists what is understood; write the module with those operators, or load the \
                 weights alone into a known architecture"
            }
            Self::ChangedInPlace { .. } => "write the module without the operation in place",
            Self::UnknownValue { .. }
            | Self::DuplicateValue { .. }
            | Self::MissingTensor { .. }
            | Self::Extents { .. } => return None,
        };
        Some(advice.to_owned())
    }
}
