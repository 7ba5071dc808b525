use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::DataError;

/// Largest encoded image, label file or header that is read into memory at once.
pub(super) const MAX_FILE_BYTES: u64 = 512 << 20;

/// A file read at offsets from several threads.
pub(super) struct FileAt {
    path: PathBuf,
    len: u64,
    file: Mutex<File>,
}

impl FileAt {
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let len = file.metadata().map_err(DataError::io(path))?.len();
        Ok(Self { path: path.into(), len, file: Mutex::new(file) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The `len` bytes from `offset`, after checking that they exist; `what` names them in an error.
    pub fn read(&self, offset: u64, len: u64, what: &str) -> Result<Vec<u8>, DataError> {
        let end = offset.saturating_add(len);
        if end > self.len {
            return Err(DataError::Truncated {
                path: self.path.clone(),
                what: what.into(),
                declared: end,
                found: self.len,
            });
        }
        check_size(&self.path, what, len)?;
        let mut bytes = vec![0; len as usize];
        // Every read seeks first, so a position left by a panicking reader does no harm.
        let mut file = self.file.lock().unwrap_or_else(|e| e.into_inner());
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(DataError::io(&self.path))?;
        Ok(bytes)
    }
}

/// Refuses what is too large to hold.
pub(super) fn check_size(path: &Path, what: &str, len: u64) -> Result<(), DataError> {
    if len > MAX_FILE_BYTES {
        return Err(DataError::TooLarge { path: path.into(), what: what.into(), declared: len, limit: MAX_FILE_BYTES });
    }
    Ok(())
}

/// A whole file of bounded size.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = FileAt::open(path)?;
    file.read(0, file.len(), "the file")
}

/// A whole text file of bounded size.
pub(super) fn read_text(path: &Path) -> Result<String, DataError> {
    String::from_utf8(read_file(path)?).map_err(|e| DataError::format(path, "the text", e, "UTF-8"))
}
