use super::reader::Reader;
use crate::text::shown;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Marks a value that stands in a 64-bit field elsewhere.
const IN_ZIP64: u32 = u32::MAX;
/// Tag of the extra field with 64-bit sizes.
const ZIP64_EXTRA: u16 = 1;
/// Length of the end record without its comment.
const END_LEN: usize = 22;
/// Length of the record that points to the 64-bit end record.
const LOCATOR_LEN: usize = 20;

/// The longest record name, a folder and a key.
const MAX_NAME: usize = 1024;

/// Why an archive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ZipError {
    /// No end record, without which nothing can be found.
    #[error("the zip archive has no end record, expected one in its last 65557 bytes")]
    NoEndRecord,
    /// A part lies outside the file.
    #[error("the {part} reaches outside the file")]
    Truncated {
        /// Which part.
        part: &'static str,
    },
    /// A part does not start with its signature.
    #[error("found {found:#010x} where the {part} starts, expected {expected:#010x}")]
    Signature {
        /// Which part.
        part: &'static str,
        /// What stands there.
        found: u32,
        /// Its signature.
        expected: u32,
    },
    /// The directory holds another number of records than the end record says.
    #[error("the directory lists {found} records, but the end record declares {declared}")]
    RecordCount {
        /// Declared records.
        declared: u64,
        /// Listed records.
        found: u64,
    },
    /// A record name that is not UTF-8.
    #[error("a record name in the directory at byte {offset} is not valid UTF-8")]
    NotUtf8 {
        /// Offset of the directory entry.
        offset: usize,
    },
    /// A record name no file system would take, which every lookup would pay for.
    #[error("a record name has {found} bytes, at most {limit} are supported")]
    LongName {
        /// Its length.
        found: usize,
        /// The longest supported.
        limit: usize,
    },
    /// Two records of one name.
    #[error("record `{record}` is listed twice")]
    DuplicateRecord {
        /// The name.
        record: String,
    },
    /// Directory and record disagree on the name.
    #[error("record `{record}` has another name in the directory than in its own header")]
    NameMismatch {
        /// The name in the directory.
        record: String,
    },
    /// Compression, which torch never uses.
    #[error("record `{record}` is compressed by method {method}, expected it to be stored as is")]
    Compressed {
        /// The record.
        record: String,
        /// The zip format's number for the method.
        method: u16,
    },
    /// Encryption, which torch never uses.
    #[error("record `{record}` is encrypted, expected it to be stored as is")]
    Encrypted {
        /// The record.
        record: String,
    },
    /// Stored and original size differ although nothing is compressed.
    #[error("record `{record}` stores {stored} bytes, but declares {declared}")]
    SizeMismatch {
        /// The record.
        record: String,
        /// Declared size.
        declared: u64,
        /// Stored size.
        stored: u64,
    },
    /// A record that must be there.
    #[error("the archive has no record `{record}`")]
    MissingRecord {
        /// The name.
        record: String,
    },
    /// More than one record that could be the object's pickle.
    #[error("the archive holds {found} records named `data.pkl`, expected one")]
    SeveralPickles {
        /// How many.
        found: usize,
    },
}

/// The directory of a zip archive. Records are looked into only when asked for.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    records: BTreeMap<&'a str, Record>,
}

struct Record {
    flags: u16,
    method: u16,
    stored: u64,
    declared: u64,
    header_at: u64,
}

/// Where the directory lies and how many records it lists.
struct Directory {
    at: u64,
    len: u64,
    records: u64,
}

impl<'a> Archive<'a> {
    /// Reads the directory of `bytes`.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ZipError> {
        let directory = find_directory(bytes)?;
        let outside = ZipError::Truncated { part: "directory" };
        let range = checked_range(bytes, directory.at, directory.len).ok_or(outside)?;
        let mut reader = Reader::new(&bytes[..range.end], range.start);
        let mut records = BTreeMap::new();
        let mut found = 0;
        while reader.left() > 0 {
            let offset = reader.at();
            let (name, record) = read_entry(&mut reader)?;
            let name = std::str::from_utf8(name).map_err(|_| ZipError::NotUtf8 { offset })?;
            if name.len() > MAX_NAME {
                return Err(ZipError::LongName { found: name.len(), limit: MAX_NAME });
            }
            match records.entry(name) {
                Entry::Vacant(slot) => slot.insert(record),
                Entry::Occupied(_) => {
                    let record = shown(name);
                    return Err(ZipError::DuplicateRecord { record });
                }
            };
            found += 1;
        }
        let declared = directory.records;
        if found != declared {
            return Err(ZipError::RecordCount { declared, found });
        }
        Ok(Self { bytes, records })
    }

    /// All record names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.records.keys().copied()
    }

    /// Whether there is a record `name`.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.records.contains_key(name)
    }

    /// Where the bytes of record `name` lie in the file. Their checksum is not compared: torch may leave it out.
    pub(super) fn locate(&self, name: &str) -> Result<Range<usize>, ZipError> {
        let Some(record) = self.records.get(name) else {
            let record = shown(name);
            return Err(ZipError::MissingRecord { record });
        };
        if record.flags & 1 != 0 {
            let record = shown(name);
            return Err(ZipError::Encrypted { record });
        }
        if record.method != 0 {
            return Err(ZipError::Compressed { record: shown(name), method: record.method });
        }
        if record.stored != record.declared {
            return Err(ZipError::SizeMismatch {
                record: shown(name),
                declared: record.declared,
                stored: record.stored,
            });
        }
        let (local_name, data_at) = read_local_header(self.bytes, record.header_at)?;
        if local_name != name.as_bytes() {
            let record = shown(name);
            return Err(ZipError::NameMismatch { record });
        }
        checked_range(self.bytes, data_at as u64, record.stored).ok_or(ZipError::Truncated { part: "data of a record" })
    }
}

/// `at..at + len`, if that lies inside `bytes`.
fn checked_range(bytes: &[u8], at: u64, len: u64) -> Option<Range<usize>> {
    let start = usize::try_from(at).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Finds the end record and, where there is one, its 64-bit twin.
fn find_directory(bytes: &[u8]) -> Result<Directory, ZipError> {
    const SIGNATURE: &[u8] = b"PK\x05\x06";
    let last = bytes.len().checked_sub(END_LEN);
    let last = last.ok_or(ZipError::NoEndRecord)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    // A comment of any length follows the record, so it is searched for from the end.
    let is_end = |&at: &usize| {
        let comment = usize::from(u16::from_le_bytes([bytes[at + 20], bytes[at + 21]]));
        bytes[at..].starts_with(SIGNATURE) && at + END_LEN + comment == bytes.len()
    };
    let end = (first..=last).rev().find(is_end);
    let end = end.ok_or(ZipError::NoEndRecord)?;
    if let Some(directory) = find_zip64_directory(bytes, end)? {
        return Ok(directory);
    }
    let mut reader = Reader::new(bytes, end + 10);
    let mut read = || {
        Some(Directory {
            records: u64::from(reader.u16()?),
            len: u64::from(reader.u32()?),
            at: u64::from(reader.u32()?),
        })
    };
    read().ok_or(ZipError::Truncated { part: "end record" })
}

/// Follows the locator right before the end record, if there is one.
fn find_zip64_directory(bytes: &[u8], end: usize) -> Result<Option<Directory>, ZipError> {
    const LOCATOR: &[u8] = b"PK\x06\x07";
    const SIGNATURE: u32 = 0x0606_4b50;
    let part = "64-bit end record";
    let Some(locator) = end.checked_sub(LOCATOR_LEN) else {
        return Ok(None);
    };
    if !bytes[locator..].starts_with(LOCATOR) {
        return Ok(None);
    }
    let read = || {
        let at = Reader::new(bytes, locator + 8).u64()?;
        let mut reader = Reader::new(bytes, usize::try_from(at).ok()?);
        let found = reader.u32()?;
        reader.take(28)?;
        let records = reader.u64()?;
        let len = reader.u64()?;
        let at = reader.u64()?;
        Some((found, Directory { at, len, records }))
    };
    let (found, directory) = read().ok_or(ZipError::Truncated { part })?;
    check_signature(part, found, SIGNATURE)?;
    Ok(Some(directory))
}

/// Reads one directory entry.
fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Record), ZipError> {
    const SIGNATURE: u32 = 0x0201_4b50;
    let part = "directory entry";
    let mut read = || {
        let found = reader.u32()?;
        reader.take(4)?;
        let flags = reader.u16()?;
        let method = reader.u16()?;
        reader.take(8)?;
        let stored = reader.u32()?;
        let declared = reader.u32()?;
        let name_len = usize::from(reader.u16()?);
        let extra_len = usize::from(reader.u16()?);
        let comment_len = usize::from(reader.u16()?);
        reader.take(8)?;
        let header_at = reader.u32()?;
        let name = reader.take(name_len)?;
        let extra = reader.take(extra_len)?;
        reader.take(comment_len)?;
        // The 64-bit field holds only the values that did not fit, in this order.
        let mut wide = zip64_field(extra);
        let mut widen = |narrow: u32| match narrow {
            IN_ZIP64 => wide.u64(),
            narrow => Some(u64::from(narrow)),
        };
        let declared = widen(declared)?;
        let stored = widen(stored)?;
        let header_at = widen(header_at)?;
        let record = Record { flags, method, stored, declared, header_at };
        Some((found, name, record))
    };
    let (found, name, record) = read().ok_or(ZipError::Truncated { part })?;
    check_signature(part, found, SIGNATURE)?;
    Ok((name, record))
}

/// The payload of the 64-bit extra field, empty when there is none.
fn zip64_field(extra: &[u8]) -> Reader<'_> {
    let mut reader = Reader::new(extra, 0);
    while let (Some(tag), Some(len)) = (reader.u16(), reader.u16()) {
        match reader.take(usize::from(len)) {
            Some(field) if tag == ZIP64_EXTRA => return Reader::new(field, 0),
            Some(_) => {}
            None => break,
        }
    }
    Reader::new(&[], 0)
}

/// The name in a record's own header, and the offset of the data behind it.
fn read_local_header(bytes: &[u8], at: u64) -> Result<(&[u8], usize), ZipError> {
    const SIGNATURE: u32 = 0x0403_4b50;
    let part = "header of a record";
    let read = || {
        let mut reader = Reader::new(bytes, usize::try_from(at).ok()?);
        let found = reader.u32()?;
        reader.take(22)?;
        let name_len = usize::from(reader.u16()?);
        let extra_len = usize::from(reader.u16()?);
        let name = reader.take(name_len)?;
        reader.take(extra_len)?;
        Some((found, name, reader.at()))
    };
    let (found, name, data_at) = read().ok_or(ZipError::Truncated { part })?;
    check_signature(part, found, SIGNATURE)?;
    Ok((name, data_at))
}

fn check_signature(part: &'static str, found: u32, expected: u32) -> Result<(), ZipError> {
    if found == expected { Ok(()) } else { Err(ZipError::Signature { part, found, expected }) }
}
