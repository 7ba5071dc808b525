//! Weight files: safetensors, both formats `torch.save` has written, exported programs and ONNX, to named tensors.
//!
//! [`WeightFile`] recognises the format by content, lists the tensors and loads them one at a time. Checkpoints
//! are searched for their state dict, the prefixes training wrappers add are stripped, and the batch counters of
//! norm layers are left out, so the names are those of the bare model.
//!
//! Pickles are read by a machine that only builds plain values: constructors come from an allow-list and none of
//! them runs. Memory stays proportional to the file: shapes are checked against stored bytes before any tensor is
//! allocated, and the pickle machine has a budget of opcodes.

mod contents;
mod errors;
mod exported;
mod file;
mod mapping;
pub(crate) mod onnx;
mod pickle;
mod reader;
mod safetensors;
mod state_dict;
mod stored_tensor;
mod torch_legacy;
mod torch_zip;
mod zip;

pub use errors::ImportError;
pub(crate) use file::StoredProgram;
pub use file::{Format, WeightFile};
pub use pickle::PickleError;
pub use safetensors::write_safetensors;
pub use stored_tensor::TensorInfo;
pub use zip::ZipError;
