use super::contents::Contents;
use super::errors::ImportError;
use super::pickle::{Pickle, StorageRef, Value, read_pickle};
use super::reader::Reader;
use super::state_dict::read_state_dict;
use crate::text::shown;
use std::collections::HashMap;
use std::ops::Range;

/// Starts every file of the format: 0x1950a86a20f9469cfc6c, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// The only version there ever was.
const VERSION: i64 = 1001;

/// Reads the format `torch.save` wrote before version 1.6: four pickles (magic number, version, machine, object), a
/// pickled list of storage keys, then per key the element count and the elements, little-endian on every machine.
/// `wanted` names the state dict where there are several.
pub(super) fn read_torch_legacy(bytes: &[u8], wanted: Option<&str>) -> Result<Contents, ImportError> {
    let mut at = 0;
    let magic = next_pickle(bytes, &mut at)?;
    if magic.root != Value::BigInt(&MAGIC) {
        return Err(ImportError::PlainPickle);
    }
    let version = next_pickle(bytes, &mut at)?;
    if version.root != Value::Int(VERSION) {
        let found = match version.root {
            Value::Int(version) => version.to_string(),
            other => other.kind().to_owned(),
        };
        return Err(ImportError::LegacyVersion { found });
    }
    let _machine = next_pickle(bytes, &mut at)?;
    let object = next_pickle(bytes, &mut at)?;
    let keys = next_pickle(bytes, &mut at)?;
    let storages = read_storages(bytes, at, &object, &keys)?;
    let locate = |storage: &StorageRef<'_>| {
        let range = storages.get(storage.key).cloned();
        range.ok_or_else(|| ImportError::StorageUnknown { key: shown(storage.key), problem: "is not in the file" })
    };
    read_state_dict(&object, wanted, &locate)
}

/// The pickle at `at`, which moves behind it.
fn next_pickle<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Pickle<'a>, ImportError> {
    let start = *at;
    let pickle = read_pickle(&bytes[start..]).map_err(|error| match error {
        // Counted from the start of the file, where the pickle is one of several.
        ImportError::Pickle { offset, source } => ImportError::Pickle { offset: start + offset, source },
        other => other,
    })?;
    *at += pickle.len;
    Ok(pickle)
}

/// Where the elements of each storage lie. Every key must be one the object mentions, with the length it mentions.
fn read_storages<'a>(
    bytes: &'a [u8],
    at: usize,
    object: &Pickle<'a>,
    keys: &Pickle<'a>,
) -> Result<HashMap<&'a str, Range<usize>>, ImportError> {
    let mentioned = mentioned_storages(object)?;
    let Some(keys) = keys.heap.items(keys.root) else {
        return Err(ImportError::StorageUnknown {
            key: keys.root.kind().to_owned(),
            problem: "stands where the list of storages should",
        });
    };
    let mut reader = Reader::new(bytes, at);
    let mut storages = HashMap::new();
    for &key in keys {
        let unknown = |key: &str, problem| ImportError::StorageUnknown { key: shown(key), problem };
        let Value::Str(key) = key else {
            return Err(unknown(key.kind(), "is not named by a string"));
        };
        let Some(&storage) = mentioned.get(key) else {
            return Err(unknown(key, "is not mentioned by the object"));
        };
        let range = read_elements(&mut reader, &storage)?;
        if storages.insert(key, range).is_some() {
            return Err(unknown(key, "is listed twice"));
        }
    }
    if reader.left() > 0 {
        return Err(ImportError::TrailingBytes { what: "the last storage", found: reader.left() as u64 });
    }
    Ok(storages)
}

/// The storages the object mentions by key; mentions of one storage must agree.
fn mentioned_storages<'a>(object: &Pickle<'a>) -> Result<HashMap<&'a str, StorageRef<'a>>, ImportError> {
    let mut mentioned: HashMap<&str, StorageRef<'_>> = HashMap::new();
    for &storage in object.heap.storages() {
        let first = *mentioned.entry(storage.key).or_insert(storage);
        if (first.dtype, first.len) != (storage.dtype, storage.len) {
            return Err(ImportError::StorageMismatch {
                key: shown(storage.key),
                unit: "elements",
                declared: storage.len,
                found: first.len,
            });
        }
    }
    Ok(mentioned)
}

/// Reads the count before a storage and steps over its elements.
fn read_elements(reader: &mut Reader<'_>, storage: &StorageRef<'_>) -> Result<Range<usize>, ImportError> {
    let left = reader.left();
    let truncated = |needed, found: usize| ImportError::Truncated {
        what: format!("storage `{}`", shown(storage.key)),
        needed,
        found: found as u64,
    };
    let count = reader.u64().ok_or_else(|| truncated(8, left))?;
    if count != storage.len {
        return Err(ImportError::StorageMismatch {
            key: shown(storage.key),
            unit: "elements",
            declared: storage.len,
            found: count,
        });
    }
    let left = reader.left();
    let needed = count.saturating_mul(storage.dtype.size() as u64);
    let start = reader.at();
    let taken = reader.take_declared(needed);
    taken.ok_or_else(|| truncated(needed, left))?;
    Ok(start..reader.at())
}
