use std::fs::File;
use std::path::{Component, Path};

use tar::{Archive, EntryType};

use super::DataError;

/// Block length of the format; every entry takes at least one.
const BLOCK: u64 = 512;

/// What a tar archive holds: one row per file, in archive order.
pub(super) struct TarIndex {
    pub files: Vec<TarFile>,
    /// Every folder named, with or without files, without a trailing slash.
    pub folders: Vec<String>,
}

/// Where a file's bytes lie.
pub(super) struct TarFile {
    pub path: String,
    pub offset: u64,
    pub len: u64,
}

impl TarIndex {
    /// Reads the headers of `path` and skips the contents.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let total = file.metadata().map_err(DataError::io(path))?.len();
        check_magic(path, total)?;
        let mut archive = Archive::new(file);
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let mut last = 0;
        for entry in archive.entries_with_seek().map_err(DataError::io(path))? {
            let entry = entry.map_err(|e| damaged(path, total, e))?;
            let kind = entry.header().entry_type();
            last = entry.raw_file_position().saturating_add(entry.size());
            if kind == EntryType::XGlobalHeader {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let bad = |problem| DataError::BadEntry { path: path.into(), entry: name.clone(), problem };
            let clean = relative(&name).ok_or_else(|| bad("leaves the archive"))?;
            match kind {
                EntryType::Directory => folders.push(clean),
                EntryType::Regular | EntryType::Continuous => {
                    let (offset, len) = (entry.raw_file_position(), entry.size());
                    let end = offset.saturating_add(len);
                    if end > total {
                        return Err(DataError::Truncated {
                            path: path.into(),
                            what: format!("entry `{name}`"),
                            declared: end,
                            found: total,
                        });
                    }
                    files.push(TarFile { path: clean, offset, len });
                }
                EntryType::Link | EntryType::Symlink => return Err(bad("is a link")),
                _ => return Err(bad("is no plain file")),
            }
        }
        // An archive ends with blocks of zeros; one that was cut off between two entries lacks them.
        let declared = last.saturating_add(BLOCK - 1) / BLOCK * BLOCK + BLOCK;
        if total < declared {
            return Err(DataError::Truncated {
                path: path.into(),
                what: "the end mark".into(),
                declared,
                found: total,
            });
        }
        Ok(Self { files, folders })
    }
}

/// The path with `.` parts removed; `None` when it is absolute or climbs.
fn relative(name: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

fn damaged(path: &Path, total: u64, error: std::io::Error) -> DataError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return DataError::Truncated {
            path: path.into(),
            what: "an entry header".into(),
            declared: total.next_multiple_of(BLOCK).max(total + 1),
            found: total,
        };
    }
    DataError::format(path, "an entry header", error, "a tar header")
}

/// Refuses compressed archives by name, because they cannot be read in place.
fn check_magic(path: &Path, total: u64) -> Result<(), DataError> {
    let start = super::bytes_at::FileAt::open(path)?.read(0, total.min(6), "the start")?;
    let found = match start.as_slice() {
        [0x1F, 0x8B, ..] => "gzip data",
        [0xFD, b'7', b'z', b'X', b'Z', 0] => "xz data",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd data",
        [b'B', b'Z', b'h', ..] => "bzip2 data",
        _ if total < BLOCK => "shorter than one block",
        _ => return Ok(()),
    };
    Err(DataError::format(path, "the archive", found, "an uncompressed tar"))
}
