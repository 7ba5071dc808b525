use super::contents::Contents;
use super::errors::ImportError;
use super::exported::{is_exported, read_exported};
use super::mapping::{FileBytes, map_file};
use super::onnx::{OnnxModel, looks_like_onnx, read_onnx};
use super::safetensors::read_safetensors;
use super::stored_tensor::TensorInfo;
use super::torch_legacy::read_torch_legacy;
use super::torch_zip::read_torch_zip;
use super::zip::Archive;
use crate::text::shown;
use flipcast_tensor::Tensor;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A weight file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A JSON header and raw data.
    Safetensors,
    /// `torch.save` since version 1.6: a zip archive.
    TorchZip,
    /// `torch.save` before version 1.6: pickles and raw data in a row.
    TorchLegacy,
    /// `torch.export.save`: a zip archive with the layers besides the tensors, a network of its own.
    ExportedProgram,
    /// An ONNX file: operators besides the tensors, a network of its own.
    Onnx,
}

impl Format {
    /// Recognises the format of `bytes` by content.
    fn sniff(bytes: &[u8]) -> Result<Self, ImportError> {
        if looks_like_onnx(bytes) {
            return Ok(Self::Onnx);
        }
        // Byte 8 is a brace in no other format: in a zip it is half of a compression method, in a torch pickle a
        // digit of the magic number or of a frame length.
        if bytes.get(8) == Some(&b'{') {
            return Ok(Self::Safetensors);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return Ok(Self::TorchZip);
        }
        if bytes.first() == Some(&0x80) {
            return Ok(Self::TorchLegacy);
        }
        if bytes.get(257..262) == Some(b"ustar") {
            return Err(ImportError::TarArchive);
        }
        if bytes.is_empty() {
            return Err(ImportError::Empty);
        }
        let start = &bytes[..bytes.len().min(32)];
        Err(ImportError::UnknownFormat { start: shown(&String::from_utf8_lossy(start)) })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safetensors => "safetensors",
            Self::TorchZip => "torch (zip)",
            Self::TorchLegacy => "torch (legacy)",
            Self::ExportedProgram => "exported program",
            Self::Onnx => "ONNX",
        })
    }
}

/// A weight file: named tensors, listed at once and loaded one at a time.
pub struct WeightFile {
    /// The file, and whatever else its tensors lie in.
    sources: Vec<FileBytes>,
    format: Format,
    contents: Contents,
    index: HashMap<String, usize>,
    program: Option<StoredProgram>,
}

/// The layers of a file that is a network of its own.
pub(crate) enum StoredProgram {
    /// Where the JSON of an exported program lies.
    Exported(Range<usize>),
    Onnx(OnnxModel),
}

impl WeightFile {
    /// Opens the file at `path`, whatever its format. The file is mapped, so it must not be changed while this value
    /// lives.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        Self::from_file_bytes(map_file(path.as_ref())?, None, path.as_ref().parent())
    }

    /// Like [`open`](Self::open) for a torch checkpoint that holds several state dicts: `within` is the path of the
    /// wanted one as [`ImportError::AmbiguousStateDict`] lists it, such as `ema` or `checkpoint/model`.
    pub fn open_within(path: impl AsRef<Path>, within: &str) -> Result<Self, ImportError> {
        Self::from_file_bytes(map_file(path.as_ref())?, Some(within), path.as_ref().parent())
    }

    /// Reads a weight file that is already in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ImportError> {
        Self::from_file_bytes(FileBytes::Owned(bytes), None, None)
    }

    /// [`open_within`](Self::open_within) for a file that is already in memory.
    pub fn from_bytes_within(bytes: Vec<u8>, within: &str) -> Result<Self, ImportError> {
        Self::from_file_bytes(FileBytes::Owned(bytes), Some(within), None)
    }

    fn from_file_bytes(bytes: FileBytes, within: Option<&str>, folder: Option<&Path>) -> Result<Self, ImportError> {
        let mut format = Format::sniff(&bytes)?;
        let flat = |path: &str, what: &str| ImportError::NoStateDict {
            place: format!("`{}`", shown(path)),
            found: format!("{what}, which has no nesting"),
        };
        let mut program = None;
        let mut more = Vec::new();
        let mut contents = match format {
            Format::Safetensors => match within {
                None => read_safetensors(&bytes)?,
                Some(path) => return Err(flat(path, "a safetensors file")),
            },
            Format::TorchLegacy => read_torch_legacy(&bytes, within)?,
            Format::Onnx => {
                if let Some(path) = within {
                    return Err(flat(path, "an ONNX file"));
                }
                // A bare file name has an empty parent, which is the folder one is in.
                let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
                let (contents, model, sources) = read_onnx(&bytes, folder)?;
                program = Some(StoredProgram::Onnx(model));
                more = sources;
                contents
            }
            Format::TorchZip | Format::ExportedProgram => {
                let archive = Archive::read(&bytes)?;
                if is_exported(&archive) {
                    if let Some(path) = within {
                        return Err(flat(path, "an exported program"));
                    }
                    format = Format::ExportedProgram;
                    let (contents, place) = read_exported(&bytes, &archive)?;
                    program = Some(StoredProgram::Exported(place));
                    contents
                } else {
                    read_torch_zip(&bytes, &archive, within)?
                }
            }
        };
        let sources: Vec<FileBytes> = std::iter::once(bytes).chain(more).collect();
        contents.check_sharing(sources.iter().map(|source| source.len()).sum())?;
        // The layers of a program name its tensors in full.
        if program.is_none() {
            contents.tidy();
        }
        let index = contents.index();
        Ok(Self { sources, format, contents, index, program })
    }

    /// The layers of a network of its own; none in files that hold tensors alone.
    pub(crate) fn program(&self) -> Option<&StoredProgram> {
        self.program.as_ref()
    }

    /// Bytes of the file and of those beside it that it names.
    pub(crate) fn len(&self) -> usize {
        self.sources.iter().map(|source| source.len()).sum()
    }

    /// The bytes at `place` of the file.
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.sources[0][place]
    }

    /// The file's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Name, element type and shape of every tensor, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.contents.tensors.iter().map(|tensor| &tensor.info)
    }

    /// What the file says about tensor `name`, if it holds one.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        let i = *self.index.get(name)?;
        Some(&self.contents.tensors[i].info)
    }

    /// Loads tensor `name`, converted to `f32`. Values are not judged: they may be infinite or NaN.
    pub fn load(&self, name: &str) -> Result<Tensor, ImportError> {
        let Some(&i) = self.index.get(name) else {
            return Err(ImportError::MissingTensor { name: shown(name), held: self.contents.tensors.len() });
        };
        let tensor = &self.contents.tensors[i];
        Ok(tensor.load(&self.sources[tensor.source()]))
    }

    /// Free text the file carries: the `__metadata__` of safetensors, nothing in torch files.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.contents.metadata
    }

    /// The keys that led to the state dict in a checkpoint; empty when it is the top level.
    pub fn nesting(&self) -> &[String] {
        &self.contents.nesting
    }

    /// The prefix taken off every name, such as `module.`; empty when there was none.
    pub fn prefix(&self) -> &str {
        &self.contents.prefix
    }

    /// Entries of the state dict that are no weights: batch counters and values that are no tensors. By full name.
    pub fn skipped(&self) -> &[String] {
        &self.contents.skipped
    }

    /// SHA-256 of the whole file, in hexadecimal; of an ONNX file and then the files beside it that hold its tensors.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(&self.sources[0][..]);
        // The second source was made from the first.
        self.sources.iter().skip(2).for_each(|source| hash.update(&source[..]));
        let digest = hash.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for WeightFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightFile")
            .field("format", &self.format)
            .field("bytes", &self.sources[0].len())
            .field("tensors", &self.contents.tensors.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_start(bytes: &[u8]) -> String {
        match Format::sniff(bytes) {
            Err(ImportError::UnknownFormat { start }) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn formats_are_told_apart_by_content() {
        // A header of 0x0280 bytes starts like a pickle of protocol 2.
        let safetensors = b"\x80\x02\0\0\0\0\0\0{";
        assert_eq!(Format::sniff(safetensors).ok(), Some(Format::Safetensors));
        let zip = b"PK\x03\x04\0\0\x08\x08\0\0";
        assert_eq!(Format::sniff(zip).ok(), Some(Format::TorchZip));
        let pickle = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9";
        assert_eq!(Format::sniff(pickle).ok(), Some(Format::TorchLegacy));
    }

    #[test]
    fn other_files_are_named_by_their_first_bytes() {
        assert!(matches!(Format::sniff(b""), Err(ImportError::Empty)));
        assert_eq!(unknown_start(b"GIF89a"), "GIF89a");
        assert_eq!(unknown_start(&[b'x'; 100]).len(), 32);
    }

    #[test]
    fn a_tar_archive_is_recognised() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(matches!(Format::sniff(&tar), Err(ImportError::TarArchive)));
    }
}
