use flipcast_graph::GraphError;
use flipcast_tensor::TensorError;

/// Why golden data could not be used.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// A file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The index is not the expected JSON.
    #[error("`{path}` is not an index of golden cases")]
    Index {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A case of the index describes no network that can be built.
    #[error("case {case} has {field} = {found}, expected {expected}")]
    BadField {
        /// Position in the index.
        case: usize,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A file is not in the safetensors format.
    #[error("`{path}` is not a safetensors file")]
    Format {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A tensor's element type is not one golden files use.
    #[error("tensor `{name}` in `{path}` has elements of type {found}, expected F32, F64 or I64")]
    ElementType {
        /// The file.
        path: String,
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
    },
    /// A tensor is not in the file.
    #[error("there is no tensor `{name}` in `{path}`")]
    MissingTensor {
        /// The file.
        path: String,
        /// The tensor.
        name: String,
    },
    /// A tensor does not have the shape the index says.
    #[error("tensor `{name}` in `{path}` has shape {found:?}, expected {expected:?}")]
    ShapeMismatch {
        /// The file.
        path: String,
        /// The tensor.
        name: String,
        /// Extents according to the index.
        expected: Vec<usize>,
        /// Extents in the file.
        found: Vec<usize>,
    },
    /// A tensor's shape and values disagree.
    #[error("a tensor in `{path}` is inconsistent")]
    Tensor {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: TensorError,
    },
    /// The network could not be built.
    #[error("the golden network cannot be built")]
    Graph(#[from] GraphError),
}
