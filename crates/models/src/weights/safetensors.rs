use super::contents::Contents;
use super::errors::ImportError;
use super::reader::Reader;
use super::stored_tensor::{StoredTensor, TensorInfo};
use crate::text::shown;
use flipcast_tensor::{DType, Shape};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The format's own bound on its header.
const MAX_HEADER: u64 = 100_000_000;

/// Data start at a multiple of this.
const ALIGNMENT: usize = 8;

/// The header key that holds free text instead of a tensor.
const METADATA: &str = "__metadata__";

/// Reads a safetensors file: the header's length in eight bytes, the header in JSON, the data. The tensors must
/// cover the data exactly, without overlap and without holes.
pub(super) fn read_safetensors(bytes: &[u8]) -> Result<Contents, ImportError> {
    let (header, data_start) = read_header(bytes)?;
    let data_len = (bytes.len() - data_start) as u64;
    let mut tensors = header.tensors;
    tensors.sort_by_key(|(_, declared)| declared.data_offsets);
    let mut names = HashSet::new();
    let mut stored = Vec::with_capacity(tensors.len());
    let mut previous_end = 0;
    for (name, declared) in &tensors {
        if !names.insert(name) {
            return Err(ImportError::DuplicateTensor { name: shown(name) });
        }
        let (start, end) = declared.data_offsets;
        check_offsets(name, (start, end), previous_end, data_len)?;
        // Both ends are within the data, so they fit a `usize`.
        let range = data_start + start as usize..data_start + end as usize;
        stored.push(StoredTensor::contiguous(declared.info(name)?, range)?);
        previous_end = end;
    }
    if previous_end != data_len {
        return Err(ImportError::TrailingBytes { what: "the last tensor", found: data_len - previous_end });
    }
    Ok(Contents { tensors: stored, metadata: header.metadata, ..Contents::default() })
}

/// The parsed header and the offset at which the data begins.
fn read_header(bytes: &[u8]) -> Result<(Header, usize), ImportError> {
    let mut reader = Reader::new(bytes, 0);
    let truncated = |needed, found: usize| ImportError::Truncated {
        what: "the safetensors header".to_owned(),
        needed,
        found: found as u64,
    };
    let declared = reader.u64().ok_or_else(|| truncated(8, bytes.len()))?;
    if declared > MAX_HEADER {
        return Err(ImportError::HeaderTooLong { declared, limit: MAX_HEADER });
    }
    let left = reader.left();
    let header = reader.take_declared(declared).ok_or_else(|| truncated(declared, left))?;
    let text = std::str::from_utf8(header)
        .map_err(|error| ImportError::NotUtf8 { what: "the safetensors header", offset: error.valid_up_to() })?;
    let header = serde_json::from_str(text).map_err(|source| ImportError::BadHeader { source })?;
    Ok((header, reader.at()))
}

/// Checks one tensor's place against the end of the tensor before it and the end of the data.
fn check_offsets(name: &str, (start, end): (u64, u64), previous_end: u64, data_len: u64) -> Result<(), ImportError> {
    let name = shown(name);
    if start != previous_end || end < start {
        return Err(ImportError::BadOffsets { name, start, end, expected_start: previous_end });
    }
    if end > data_len {
        return Err(ImportError::Truncated {
            what: format!("the data up to tensor `{name}`"),
            needed: end,
            found: data_len,
        });
    }
    Ok(())
}

/// The header as it stands in the file; repeated names are kept so that they can be refused by name.
struct Header {
    tensors: Vec<(String, DeclaredTensor)>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct DeclaredTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl DeclaredTensor {
    fn info(&self, name: &str) -> Result<TensorInfo, ImportError> {
        let dtype = match self.dtype.as_str() {
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            "F32" => DType::F32,
            "F64" => DType::F64,
            "U8" => DType::U8,
            "I8" => DType::I8,
            "I16" => DType::I16,
            "I32" => DType::I32,
            "I64" => DType::I64,
            "BOOL" => DType::Bool,
            other => {
                return Err(ImportError::UnsupportedDType { found: shown(other) });
            }
        };
        // An extent beyond the address space is as hopeless as the largest one; `TooLarge` follows.
        let extents = self.shape.iter();
        let extents: Vec<usize> = extents.map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect();
        Ok(TensorInfo { name: name.to_owned(), dtype, shape: Shape::new(extents) })
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { tensors: Vec::new(), metadata: BTreeMap::new() };
                let mut metadata = None;
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        if metadata.replace(map.next_value()?).is_some() {
                            return Err(de::Error::duplicate_field(METADATA));
                        }
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                header.metadata = metadata.unwrap_or_default();
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A safetensors file of lists of `f32` by name, in the order given, with free text.
pub fn write_safetensors<'a>(
    metadata: impl IntoIterator<Item = (String, String)>,
    tensors: impl IntoIterator<Item = (String, &'a [f32])>,
) -> Vec<u8> {
    let metadata: Map<String, Value> = metadata.into_iter().map(|(key, value)| (key, value.into())).collect();
    let mut header = Map::from_iter([(METADATA.to_owned(), Value::Object(metadata))]);
    let mut data: Vec<u8> = Vec::new();
    for (name, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": [values.len()], "data_offsets": [start, data.len()] });
        header.insert(name, entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut header);
    bytes.append(&mut data);
    bytes
}
