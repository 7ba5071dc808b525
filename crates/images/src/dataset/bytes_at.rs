use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flate2::read::MultiGzDecoder;

use super::DataError;

/// Largest encoded image, label file or header that is read into memory at once.
pub(super) const MAX_FILE_BYTES: u64 = 512 << 20;
/// A gzipped archive may unpack to this many times its size, or to `MIN_UNPACKED` bytes. Images hardly shrink in an archive;
/// more is a bomb.
const MAX_GROWTH: u64 = 20;
const MIN_UNPACKED: u64 = 4 << 30;

/// A file read at offsets from several threads.
pub(crate) struct FileAt {
    path: PathBuf,
    len: u64,
    file: Mutex<File>,
}

impl FileAt {
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::new(path, open_regular(path)?)
    }

    /// The same, where a gzipped file is unpacked once into a nameless temporary file, which can then be read in any order.
    /// It takes disk space in the folder for temporary files until the dataset is dropped, and no memory.
    pub fn open_unpacked(path: &Path) -> Result<Self, DataError> {
        let mut file = open_regular(path)?;
        let mut start = Vec::new();
        (&mut file).take(2).read_to_end(&mut start).map_err(DataError::io(path))?;
        file.rewind().map_err(DataError::io(path))?;
        if start != [0x1F, 0x8B] {
            return Self::new(path, file);
        }
        let packed = file.metadata().map_err(DataError::io(path))?.len();
        let limit = packed.saturating_mul(MAX_GROWTH).max(MIN_UNPACKED);
        let mut unpacked = tempfile::tempfile().map_err(DataError::write(&std::env::temp_dir()))?;
        let mut reader = MultiGzDecoder::new(std::io::BufReader::new(file)).take(limit + 1);
        let mut buffer = vec![0; 1 << 18];
        let mut len = 0;
        loop {
            let read = reader.read(&mut buffer).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => DataError::Truncated {
                    path: path.into(),
                    what: "the gzip data".into(),
                    declared: packed + 1,
                    found: packed,
                },
                _ => DataError::format(path, "the gzip data", e, "intact data"),
            })?;
            if read == 0 {
                break;
            }
            len += read as u64;
            if len > limit {
                let what = "the unpacked archive".into();
                return Err(DataError::TooLarge { path: path.into(), what, declared: len, limit });
            }
            unpacked.write_all(&buffer[..read]).map_err(DataError::write(&std::env::temp_dir()))?;
        }
        Self::new(path, unpacked)
    }

    fn new(path: &Path, file: File) -> Result<Self, DataError> {
        let len = file.metadata().map_err(DataError::io(path))?.len();
        Ok(Self { path: path.into(), len, file: Mutex::new(file) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's own name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Another handle, at the start, for a reader that goes through the file. It shares its position with this one.
    pub fn rewound(&self) -> Result<File, DataError> {
        let mut file = self.lock().try_clone().map_err(DataError::io(&self.path))?;
        file.rewind().map_err(DataError::io(&self.path))?;
        Ok(file)
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
        let mut file = self.lock();
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(DataError::io(&self.path))?;
        Ok(bytes)
    }

    /// Every read seeks first, so a position left by a panicking reader does no harm.
    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Opens a plain file. A pipe or device is refused before it is opened, because opening one may wait for ever.
pub(crate) fn open_regular(path: &Path) -> Result<File, DataError> {
    let found = std::fs::metadata(path).map_err(DataError::io(path))?;
    if !found.is_file() {
        let found = if found.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(DataError::NotAFile { path: path.into(), found });
    }
    File::open(path).map_err(DataError::io(path))
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
    text(path, read_file(path)?)
}

/// All text that `reader`, a pipe called `path`, gives until it is closed.
pub(super) fn read_pipe(path: &Path, reader: impl Read) -> Result<String, DataError> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(DataError::io(path))?;
    check_size(path, "the text", bytes.len() as u64)?;
    text(path, bytes)
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, DataError> {
    String::from_utf8(bytes).map_err(|e| DataError::format(path, "the text", e, "UTF-8"))
}
