use super::pickle::PickleError;
use super::zip::ZipError;
use crate::text::list_names;
use flipcast_ground::Hint;
use flipcast_tensor::{DType, Shape};
use std::io;

/// Why a weight file could not be read. Names taken from the file are escaped and shortened.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The operating system refused.
    #[error("cannot read `{path}`")]
    Read {
        /// The file asked for.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A folder, pipe or device.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// The file asked for.
        path: String,
    },
    /// Nothing in it.
    #[error("the file is empty, expected safetensors, ONNX or a file made by PyTorch")]
    Empty,
    /// Neither safetensors nor a torch file.
    #[error("the file starts with `{start}`, expected safetensors, ONNX or a file made by PyTorch")]
    UnknownFormat {
        /// The first bytes, escaped.
        start: String,
    },
    /// The tar archives of the earliest torch versions.
    #[error("the file is a tar archive, expected safetensors, ONNX or a file made by PyTorch")]
    TarArchive,
    /// A compiled module, which holds code besides weights.
    #[error("the file is a TorchScript module, expected a state dict")]
    TorchScript,
    /// A pickle, but not one of `torch.save`.
    #[error("the file is a pickle without the torch magic number, expected one made by `torch.save`")]
    PlainPickle,
    /// The older torch format in a version that never existed.
    #[error("the torch file has format version `{found}`, expected 1001")]
    LegacyVersion {
        /// What stands in its place.
        found: String,
    },
    /// Fewer bytes than the file says it has.
    #[error("{what} needs {needed} bytes, but the file has {found} left")]
    Truncated {
        /// What was being read.
        what: String,
        /// Bytes declared.
        needed: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// More bytes than the file says it has.
    #[error("{found} bytes follow {what}, expected none")]
    TrailingBytes {
        /// What should have been the end.
        what: &'static str,
        /// Bytes left over.
        found: u64,
    },
    /// A safetensors header beyond the format's own limit.
    #[error("the safetensors header declares {declared} bytes, at most {limit} are allowed")]
    HeaderTooLong {
        /// Bytes declared.
        declared: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A safetensors header that is not what the format prescribes.
    #[error("the safetensors header is malformed")]
    BadHeader {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// Text that is not UTF-8.
    #[error("{what} is not valid UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Which text.
        what: &'static str,
        /// First bad byte, counted from the start of that text.
        offset: usize,
    },
    /// An element type compute has no use for.
    #[error("tensor data has element type `{found}`, expected a float, a signed integer, a byte or a truth value")]
    UnsupportedDType {
        /// The type's name in the file.
        found: String,
    },
    /// Two tensors of one name.
    #[error("tensor `{name}` appears twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// Shape and byte count disagree.
    #[error("tensor `{name}` of shape {shape} and type {dtype} needs {expected} bytes, found {found}")]
    SizeMismatch {
        /// The tensor.
        name: String,
        /// Its declared shape.
        shape: Shape,
        /// Its declared type.
        dtype: DType,
        /// Bytes these ask for.
        expected: u64,
        /// Bytes the file gives it.
        found: u64,
    },
    /// Safetensors offsets that run backwards, overlap the tensor before or leave bytes between.
    #[error(
        "tensor `{name}` lies at bytes {start} to {end}, expected it to start at {expected_start} and not to end before"
    )]
    BadOffsets {
        /// The tensor.
        name: String,
        /// Declared start.
        start: u64,
        /// Declared end.
        end: u64,
        /// Where the tensor before it ends.
        expected_start: u64,
    },
    /// An element count that does not fit the address space.
    #[error("tensor `{name}` of shape {shape} has more elements than memory can hold")]
    TooLarge {
        /// The tensor.
        name: String,
        /// Its declared shape.
        shape: Shape,
    },
    /// An absurd rank.
    #[error("tensor `{name}` has {found} axes, at most {limit} are supported")]
    TooManyAxes {
        /// The tensor.
        name: String,
        /// Declared axes.
        found: usize,
        /// Supported axes.
        limit: usize,
    },
    /// A view that repeats elements by a stride of zero.
    #[error("tensor `{name}` of shape {shape} repeats its elements by a stride of 0, expected each to be stored")]
    RepeatedElements {
        /// The tensor.
        name: String,
        /// Its declared shape.
        shape: Shape,
    },
    /// A view of elements its storage does not have.
    #[error("tensor `{name}` of shape {shape} reaches outside its storage of {stored} elements")]
    OutsideStorage {
        /// The tensor.
        name: String,
        /// Its declared shape.
        shape: Shape,
        /// Elements in the storage.
        stored: u64,
    },
    /// A torch tensor whose storage, offset, shape or strides are not numbers that can be.
    #[error("the {field} of tensor `{name}` is {found}, expected {expected}")]
    BadTensorField {
        /// The tensor.
        name: String,
        /// Which of its fields.
        field: &'static str,
        /// What the field must be.
        expected: &'static str,
        /// What the file holds.
        found: String,
    },
    /// A torch storage declared differently in two places.
    #[error("storage `{key}` has {found} {unit}, but its tensors declare {declared}")]
    StorageMismatch {
        /// The storage.
        key: String,
        /// What is counted.
        unit: &'static str,
        /// Count the tensors declare.
        declared: u64,
        /// Count found.
        found: u64,
    },
    /// A torch storage that is referred to but absent, or present but unknown.
    #[error("storage `{key}` {problem}")]
    StorageUnknown {
        /// The storage.
        key: String,
        /// Which of the two.
        problem: &'static str,
    },
    /// Views that share storages far beyond what tied weights explain.
    #[error("the tensors take {declared} bytes together, at most {limit} are allowed for a file of {file} bytes")]
    TooMuchSharing {
        /// Bytes of all tensors.
        declared: u64,
        /// Bytes allowed.
        limit: u64,
        /// Bytes in the file.
        file: u64,
    },
    /// A pickle names a constructor that is not on the allow-list. Nothing was executed.
    #[error("the file asks for `{module}.{name}`, which is not among the constructors weights need")]
    ForbiddenGlobal {
        /// Python module.
        module: String,
        /// Name in that module.
        name: String,
    },
    /// A pickle that is not well-formed.
    #[error("the pickle is malformed at byte {offset}")]
    Pickle {
        /// Offset of the opcode, counted from the start of the pickle.
        offset: usize,
        /// What is wrong with it.
        #[source]
        source: PickleError,
    },
    /// A torch archive that is not well-formed.
    #[error("the torch archive is malformed")]
    Zip {
        /// What is wrong with it.
        #[from]
        source: ZipError,
    },
    /// An exported program whose tables are not what the format prescribes.
    #[error("`{what}` of the exported program is malformed")]
    BadProgram {
        /// The record.
        what: String,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// An exported program of the time before the archive format.
    #[error(
        "the exported program has the format of PyTorch 2.7 and before, expected an archive with `models/model.json`"
    )]
    OldProgram,
    /// A package of compiled code, without the layers it was compiled from.
    #[error("the package holds compiled code alone, expected an exported program with `models/model.json`")]
    CompiledProgram,
    /// A tensor of an exported program that only Python could build.
    #[error("tensor `{name}` is stored as a pickle, expected its values")]
    PickledTensor {
        /// The tensor.
        name: String,
    },
    /// A protocol buffer that is damaged.
    #[error("the ONNX file is malformed before byte {at}: {problem}")]
    BadProtobuf {
        /// Where in the file.
        at: usize,
        /// What is there.
        problem: &'static str,
    },
    /// No network in an ONNX file, or several.
    #[error("the ONNX file holds {found} graphs, expected one")]
    OnnxGraphs {
        /// How many.
        found: usize,
    },
    /// Tensors that are stored by their values other than zero.
    #[error("the ONNX file holds sparse tensors, expected dense ones")]
    SparseTensors,
    /// Values of a tensor in a file that does not lie beside the model.
    #[error("tensor `{name}` has its values in `{location}`, expected a file in the model's folder")]
    OutsideFolder {
        /// The tensor.
        name: String,
        /// Where its values are said to be.
        location: String,
    },
    /// A torch archive written on a machine of the other byte order.
    #[error("the torch archive has byte order `{found}`, expected `little`")]
    ByteOrder {
        /// What the archive says.
        found: String,
    },
    /// No dict of tensors where one is expected.
    #[error("no state dict in {place}, found {found}")]
    NoStateDict {
        /// Where it was looked for.
        place: String,
        /// What is there instead.
        found: String,
    },
    /// Several dicts of tensors, and no rule to prefer one.
    #[error("several state dicts: {}", list_names(candidates))]
    AmbiguousStateDict {
        /// Where they are; `.` is the top level.
        candidates: Vec<String>,
    },
    /// A tensor whose key in the state dict is not text.
    #[error("a tensor of the state dict is filed under {found}, expected a name")]
    UnnamedTensor {
        /// What the key is.
        found: &'static str,
    },
    /// A tensor asked for by a name the file does not have.
    #[error("tensor `{name}` is not in the file, which holds {held} tensors")]
    MissingTensor {
        /// The name asked for.
        name: String,
        /// Tensors the file holds.
        held: usize,
    },
}

impl Hint for ImportError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::UnknownFormat { start } if start.starts_with("version https://git-lfs") => {
                "this is a Git LFS pointer; fetch the real file with `git lfs pull`"
            }
            Self::UnknownFormat { start } if start.trim_start().starts_with('<') => {
                "this looks like a web page; the download may have failed"
            }
            Self::TarArchive | Self::PlainPickle | Self::ByteOrder { .. } => {
                "load it in Python and save the state dict again with a current `torch.save`"
            }
            Self::TorchScript | Self::ForbiddenGlobal { .. } => {
                "save `model.state_dict()` instead of the model or the whole checkpoint"
            }
            Self::Truncated { .. } | Self::Empty => "the download may be incomplete",
            Self::Zip { source: ZipError::NoEndRecord | ZipError::Truncated { .. } }
            | Self::Pickle { source: PickleError::Truncated, .. } => "the download may be incomplete",
            Self::Zip { source: ZipError::Compressed { .. } } => {
                "`torch.save` never compresses; load the file in Python and save it again"
            }
            Self::OldProgram => "load it with `torch.export.load` in a current PyTorch and save it again",
            Self::CompiledProgram => "save the program itself with `torch.export.save`",
            Self::PickledTensor { .. } => "export a model whose weights are plain tensors, not of a tensor subclass",
            Self::UnsupportedDType { .. } => "convert the weights to float32 before saving",
            Self::RepeatedElements { .. } => "call `.contiguous()` on the tensor before saving",
            Self::AmbiguousStateDict { .. } => "choose one of them by name",
            _ => return None,
        };
        Some(advice.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_file_is_explained() {
        let start = "version https://git-lfs.github.com".to_owned();
        let hint = ImportError::UnknownFormat { start }.hint();
        assert!(hint.is_some_and(|hint| hint.contains("git lfs pull")));
    }
}
