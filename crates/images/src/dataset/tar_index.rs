use std::fs::File;
use std::io::Read;
use std::path::Path;

use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::DataError;
use super::archive::{ArchiveIndex, PackedFile, bad_entry, check_within, entry_path};
use super::bytes_at::FileAt;
use super::files::Packing;

/// Block length of the format; every entry takes at least one.
const BLOCK: u64 = 512;
/// Longest extension header: a long name, or records that override header fields.
const MAX_EXTENSION: u64 = 1 << 20;

/// An opened tar and what it holds.
pub(super) struct TarFile {
    pub file: FileAt,
    pub index: ArchiveIndex,
}

/// What extension headers say about the entry behind them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl TarFile {
    /// Reads the headers of the tar at `path`, plain or gzipped, and skips the contents.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = FileAt::open_unpacked(path)?;
        let index = read_tar(&file)?;
        Ok(Self { file, index })
    }
}

fn read_tar(file: &FileAt) -> Result<ArchiveIndex, DataError> {
    let (path, total) = (file.path(), file.len());
    check_magic(file)?;
    let mut archive = Archive::new(file.rewound()?);
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    let mut last = 0;
    let mut extensions = Extensions::default();
    // Raw entries: the library would read extension headers of any length into memory.
    for entry in archive.entries_with_seek().map_err(DataError::io(path))?.raw(true) {
        let mut entry = entry.map_err(|e| damaged(path, total, e))?;
        let kind = entry.header().entry_type();
        let (offset, len) = (entry.raw_file_position(), entry.size());
        last = offset.saturating_add(len);
        match kind {
            EntryType::XGlobalHeader => continue,
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader => {
                extensions.read(file, kind, &mut entry)?;
                continue;
            }
            _ => {}
        }
        let stated = std::mem::take(&mut extensions);
        let name = stated.path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let name = String::from_utf8_lossy(&name).into_owned();
        let clean = entry_path(path, &name)?;
        let bad = |problem| bad_entry(path, &name, problem);
        match kind {
            EntryType::Directory => folders.push(clean),
            EntryType::GNUSparse => return Err(bad("is sparse")),
            _ if stated.sparse => return Err(bad("is sparse")),
            EntryType::Regular | EntryType::Continuous => {
                if stated.size.is_some_and(|size| size != len) {
                    return Err(bad("states two lengths"));
                }
                check_within(file, &name, offset, len)?;
                files.push(PackedFile { path: clean, offset, stored: len, packing: Packing::Plain });
            }
            EntryType::Link | EntryType::Symlink => return Err(bad("is a link")),
            _ => return Err(bad("is no plain file")),
        }
    }
    // An archive ends with blocks of zeros; one that was cut off between two entries lacks them.
    let declared = last.saturating_add(BLOCK - 1) / BLOCK * BLOCK + BLOCK;
    if total < declared {
        return Err(DataError::Truncated { path: path.into(), what: "the end mark".into(), declared, found: total });
    }
    Ok(ArchiveIndex { files, folders })
}

impl Extensions {
    fn read(&mut self, file: &FileAt, kind: EntryType, entry: &mut Entry<'_, File>) -> Result<(), DataError> {
        let (path, len) = (file.path(), entry.size());
        let what = "an extension header";
        if len > MAX_EXTENSION {
            let what = what.into();
            return Err(DataError::TooLarge { path: path.into(), what, declared: len, limit: MAX_EXTENSION });
        }
        check_within(file, what, entry.raw_file_position(), len)?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(DataError::io(path))?;
        match kind {
            EntryType::GNULongName => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                bytes.truncate(end);
                self.path = Some(bytes);
            }
            EntryType::XHeader => {
                for record in PaxExtensions::new(&bytes) {
                    let record = record.map_err(|e| damaged(path, file.len(), e))?;
                    match record.key_bytes() {
                        b"path" => self.path = Some(record.value_bytes().to_vec()),
                        b"size" => {
                            let size = record.value().ok().and_then(|text| text.parse().ok());
                            let bad = || DataError::format(path, what, "a size that is no number", "a number");
                            self.size = Some(size.ok_or_else(bad)?);
                        }
                        key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                        _ => {}
                    }
                }
            }
            // Where a link points does not matter: links are refused.
            _ => {}
        }
        Ok(())
    }
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

/// Refuses archives that are packed in another way than with gzip by name.
fn check_magic(file: &FileAt) -> Result<(), DataError> {
    let start = file.read(0, file.len().min(6), "the start")?;
    let found = match start.as_slice() {
        [0xFD, b'7', b'z', b'X', b'Z', 0] => "xz data",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd data",
        [b'B', b'Z', b'h', ..] => "bzip2 data",
        _ if file.len() < BLOCK => "shorter than one block",
        _ => return Ok(()),
    };
    Err(DataError::format(file.path(), "the archive", found, "a tar, plain or gzipped"))
}
