//! ONNX files: a protocol buffer of operators and tensors, with large tensors in files beside it.
//!
//! Only the messages that describe a network are read, by a reader of the wire format that knows no schema but theirs. Tensors
//! stay where they are in the file; the few that are stored number by number are put together when the file is read.

mod model;
mod tensor;
mod wire;

pub(crate) use model::{Attribute, Dim, Node, OnnxModel};
pub(super) use model::{looks_like_onnx, read_onnx};
