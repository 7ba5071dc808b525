use super::contents::Contents;
use super::errors::ImportError;
use super::stored_tensor::{StoredTensor, StridedWindow, TensorInfo};
use super::torch_zip::check_byte_order;
use super::zip::{Archive, ZipError};
use crate::text::shown;
use flipcast_tensor::{DType, Shape};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// The record with the layers, below the archive's one folder.
const PROGRAM: &str = "models/model.json";
/// What `torch.export.save` wrote before it had an archive format of its own.
const OLD_PROGRAM: &str = "serialized_exported_program.json";
/// Folders of tensors with the table that describes them: weights and buffers that are saved, and all other constants.
const TABLES: [(&str, &str); 2] =
    [("data/weights", "model_weights_config.json"), ("data/constants", "model_constants_config.json")];

/// Whether the archive is a package of `torch.export` and not one of `torch.save`.
pub(super) fn is_exported(archive: &Archive<'_>) -> bool {
    let ends =
        |name: &str, end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    archive.names().any(|name| ends(name, "archive_format") || ends(name, PROGRAM) || name == OLD_PROGRAM)
}

/// Reads the archive `torch.export.save` writes: the tensors, and where in `bytes` the JSON of the layers lies. The sample
/// inputs beside them are a pickle, and stay unread.
pub(super) fn read_exported(bytes: &[u8], archive: &Archive<'_>) -> Result<(Contents, Range<usize>), ImportError> {
    if archive.holds(OLD_PROGRAM) {
        return Err(ImportError::OldProgram);
    }
    let roots: Vec<&str> = archive.names().filter_map(|name| name.strip_suffix(PROGRAM)).collect();
    let root = match roots[..] {
        [root] if root.is_empty() || root.ends_with('/') => root,
        [] if archive.names().any(|name| name.contains("data/aotinductor/")) => {
            return Err(ImportError::CompiledProgram);
        }
        _ => return Err(ZipError::MissingRecord { record: PROGRAM.to_owned() }.into()),
    };
    check_byte_order(bytes, archive, root.trim_end_matches('/'))?;
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for (folder, table) in TABLES {
        let table = format!("{root}{folder}/{table}");
        if !archive.holds(&table) {
            continue;
        }
        let malformed = |source| ImportError::BadProgram { what: shown(&table), source };
        let table: Table = serde_json::from_slice(&bytes[archive.locate(&table)?]).map_err(malformed)?;
        for (name, entry) in table.config.0 {
            if entry.use_pickle {
                return Err(ImportError::PickledTensor { name: shown(&name) });
            }
            if !names.insert(name.clone()) {
                return Err(ImportError::DuplicateTensor { name: shown(&name) });
            }
            let Some(meta) = entry.tensor_meta else {
                continue;
            };
            let storage = archive.locate(&format!("{root}{folder}/{}", entry.path_name))?;
            tensors.push(meta.stored(name, storage)?);
        }
    }
    Ok((Contents { tensors, ..Contents::default() }, archive.locate(&format!("{root}{PROGRAM}"))?))
}

#[derive(Deserialize)]
struct Table {
    config: Entries<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    path_name: String,
    #[serde(default)]
    use_pickle: bool,
    /// Absent for constants that are no tensors.
    tensor_meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    dtype: u32,
    sizes: Vec<Number>,
    strides: Vec<Number>,
    storage_offset: Number,
}

/// A number that may also be an expression of symbols, though never where a stored tensor is described.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Number {
    AsInt(i64),
    AsExpr(serde::de::IgnoredAny),
}

impl Meta {
    fn stored(&self, name: String, storage: Range<usize>) -> Result<StoredTensor, ImportError> {
        let number = |field: &'static str, number: &Number| {
            let found = match number {
                Number::AsInt(value) => usize::try_from(*value).map_err(|_| value.to_string()),
                Number::AsExpr(_) => Err("an expression".to_owned()),
            };
            let expected = "a number that is not negative";
            found.map_err(|found| ImportError::BadTensorField { name: shown(&name), field, expected, found })
        };
        let numbers = |field, of: &[Number]| of.iter().map(|n| number(field, n)).collect::<Result<Vec<_>, _>>();
        let shape = Shape::new(numbers("shape", &self.sizes)?);
        let strides = numbers("strides", &self.strides)?;
        let first = number("storage offset", &self.storage_offset)?;
        let dtype =
            self.dtype().ok_or_else(|| ImportError::UnsupportedDType { found: format!("number {}", self.dtype) })?;
        StoredTensor::strided(TensorInfo { name, dtype, shape }, StridedWindow { storage, first, strides })
    }

    /// The numbers of `torch.export`'s own schema, which are not those of a `torch.dtype`.
    fn dtype(&self) -> Option<DType> {
        Some(match self.dtype {
            1 => DType::U8,
            2 => DType::I8,
            3 => DType::I16,
            4 => DType::I32,
            5 => DType::I64,
            6 => DType::F16,
            7 => DType::F32,
            8 => DType::F64,
            12 => DType::Bool,
            13 => DType::BF16,
            _ => return None,
        })
    }
}

/// The entries of a JSON object in their order, repeated names included.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for All<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(All(PhantomData))
    }
}
