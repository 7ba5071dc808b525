use super::errors::ImportError;
use crate::text::shown;
use memmap2::Mmap;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::Path;

/// The bytes of a weight file, mapped from disk or held in memory.
pub(super) enum FileBytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Maps the regular file at `path`; pages are read as they are touched.
#[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
pub(super) fn map_file(path: &Path) -> Result<FileBytes, ImportError> {
    let failed = |source| ImportError::Read { path: shown(&path.to_string_lossy()), source };
    // Looked at before opening, because opening a pipe would wait for a writer.
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(ImportError::NotAFile { path: shown(&path.to_string_lossy()) });
    }
    if metadata.len() == 0 {
        return Ok(FileBytes::Owned(Vec::new()));
    }
    let file = File::open(path).map_err(failed)?;
    // SAFETY: the mapping is private and read-only, and the check above makes it a regular, non-empty file. Its
    // bytes are only read through `&[u8]` as plain numbers; as with every mapped file, nobody may truncate or
    // rewrite it while it is open, which `WeightFile::open` asks of its caller.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(FileBytes::Mapped(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_not_a_weight_file() {
        let error = map_file(Path::new(env!("CARGO_MANIFEST_DIR"))).err();
        assert!(matches!(error, Some(ImportError::NotAFile { .. })));
    }

    #[test]
    fn a_missing_file_names_its_path() {
        let error = map_file(Path::new("no/such/file.pth")).err();
        let text = error.expect("the file does not exist").to_string();
        assert_eq!(text, "cannot read `no/such/file.pth`");
    }

    #[test]
    fn a_mapped_file_holds_its_bytes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let bytes = map_file(&path).expect("the manifest is readable");
        assert!(bytes.starts_with(b"[package]"));
    }
}
