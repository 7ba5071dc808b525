use super::wire::{Field, Fields};
use crate::text::shown;
use crate::weights::ImportError;
use crate::weights::mapping::{FileBytes, map_file};
use crate::weights::stored_tensor::{StoredTensor, TensorInfo};
use flipcast_tensor::{DType, Shape};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The files that hold the values of an ONNX file's tensors.
pub(super) struct Sources<'a> {
    /// The folder of the model, where files beside it lie; none for a model in memory.
    folder: Option<&'a Path>,
    /// Values that are stored number by number, put together: source 1.
    pub joined: Vec<u8>,
    /// Files beside the model: sources 2 and up.
    pub beside: Vec<FileBytes>,
    opened: HashMap<String, usize>,
}

impl<'a> Sources<'a> {
    pub fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, joined: Vec::new(), beside: Vec::new(), opened: HashMap::new() }
    }

    /// The number of the file at `location`, which must lie in the model's folder.
    fn open(&mut self, name: &str, location: &str) -> Result<usize, ImportError> {
        if let Some(&source) = self.opened.get(location) {
            return Ok(source);
        }
        let outside = || ImportError::OutsideFolder { name: shown(name), location: shown(location) };
        let folder = self.folder.ok_or_else(outside)?;
        let relative = PathBuf::from(location);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || location.contains('\0') || !relative.components().all(plain) {
            return Err(outside());
        }
        let path = folder.join(relative);
        let failed = |source| ImportError::Read { path: shown(&path.to_string_lossy()), source };
        // A link may lead anywhere.
        let (real, root) = (path.canonicalize().map_err(failed)?, folder.canonicalize().map_err(failed)?);
        if !real.starts_with(&root) {
            return Err(outside());
        }
        self.beside.push(map_file(&real)?);
        let source = self.beside.len() + 1;
        self.opened.insert(location.to_owned(), source);
        Ok(source)
    }
}

/// What a tensor message says.
#[derive(Default)]
struct RawTensor {
    dims: Vec<i64>,
    data_type: i64,
    name: String,
    raw: Option<Range<usize>>,
    floats: Vec<u8>,
    ints: Vec<i64>,
    doubles: Vec<u8>,
    external: Vec<(String, String)>,
    is_external: bool,
}

/// Reads the tensor message at `place`. It is called `fallback` where it has no name.
pub(super) fn read_tensor(
    bytes: &[u8],
    place: Range<usize>,
    fallback: Option<&str>,
    sources: &mut Sources<'_>,
) -> Result<StoredTensor, ImportError> {
    let mut raw = read_raw(bytes, place)?;
    if let Some(name) = fallback {
        name.clone_into(&mut raw.name);
    }
    let name = raw.name.clone();
    let unsupported = || ImportError::UnsupportedDType { found: format!("ONNX number {}", raw.data_type) };
    let dtype = dtype(raw.data_type).ok_or_else(unsupported)?;
    let extents: Result<Vec<usize>, i64> =
        raw.dims.iter().map(|&size| usize::try_from(size).map_err(|_| size)).collect();
    let extents = extents.map_err(|found| ImportError::BadTensorField {
        name: shown(&name),
        field: "shape",
        expected: "numbers that are not negative",
        found: found.to_string(),
    })?;
    let info = TensorInfo { name, dtype, shape: Shape::new(extents) };
    if raw.is_external {
        return external(info, &raw.external, sources);
    }
    if let Some(place) = raw.raw {
        return StoredTensor::contiguous(info, place);
    }
    let start = sources.joined.len();
    match dtype {
        DType::F32 => sources.joined.extend(&raw.floats),
        DType::F64 => sources.joined.extend(&raw.doubles),
        DType::I64 => raw.ints.iter().for_each(|value| sources.joined.extend(value.to_le_bytes())),
        DType::I32 => raw.ints.iter().for_each(|&value| sources.joined.extend((value as i32).to_le_bytes())),
        DType::F16 | DType::BF16 | DType::I16 => {
            raw.ints.iter().for_each(|&value| sources.joined.extend((value as u16).to_le_bytes()));
        }
        DType::U8 | DType::I8 | DType::Bool => sources.joined.extend(raw.ints.iter().map(|&value| value as u8)),
    }
    Ok(StoredTensor::contiguous(info, start..sources.joined.len())?.in_source(1))
}

fn read_raw(bytes: &[u8], place: Range<usize>) -> Result<RawTensor, ImportError> {
    let mut raw = RawTensor::default();
    let mut fields = Fields::new(bytes, place);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => field.push_ints(bytes, &mut raw.dims)?,
            2 => raw.data_type = field.int().unwrap_or(0),
            4 => raw.floats.extend(stored_bytes(bytes, &field)),
            5 | 7 | 11 => field.push_ints(bytes, &mut raw.ints)?,
            8 => raw.name = field.text(bytes).unwrap_or_default(),
            9 => raw.raw = field.place(),
            10 => raw.doubles.extend(stored_bytes(bytes, &field)),
            13 => {
                if let Some(entry) = field.place() {
                    raw.external.push(read_entry(bytes, entry)?);
                }
            }
            14 => raw.is_external = field.int() == Some(1),
            _ => {}
        }
    }
    Ok(raw)
}

/// The bytes of floating-point numbers, packed or one by one.
fn stored_bytes(bytes: &[u8], field: &Field) -> Vec<u8> {
    match field {
        Field::Bytes(place) => bytes[place.clone()].to_vec(),
        Field::Fixed32(value) => value.to_vec(),
        Field::Fixed64(value) => value.to_vec(),
        Field::Varint(_) => Vec::new(),
    }
}

/// A key and its value.
pub(super) fn read_entry(bytes: &[u8], place: Range<usize>) -> Result<(String, String), ImportError> {
    let mut entry = (String::new(), String::new());
    let mut fields = Fields::new(bytes, place);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => entry.0 = field.text(bytes).unwrap_or_default(),
            2 => entry.1 = field.text(bytes).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(entry)
}

/// A tensor whose values lie in a file beside the model.
fn external(
    info: TensorInfo,
    entries: &[(String, String)],
    sources: &mut Sources<'_>,
) -> Result<StoredTensor, ImportError> {
    let entry = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let bad = |field: &'static str, found: &str| ImportError::BadTensorField {
        name: shown(&info.name),
        field,
        expected: "a number of bytes inside the file",
        found: shown(found),
    };
    let number = |field: &'static str, key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text.parse::<usize>().map(Some).map_err(|_| bad(field, text)),
    };
    let source = sources.open(&info.name, entry("location").unwrap_or_default())?;
    let stored = sources.beside[source - 2].len();
    let start = number("offset of external data", "offset")?.unwrap_or(0);
    let length = number("length of external data", "length")?;
    let length = length.or_else(|| info.shape.checked_len()?.checked_mul(info.dtype.size()));
    let end = length.and_then(|length| start.checked_add(length)).filter(|&end| end <= stored);
    let end = end.ok_or_else(|| bad("place of external data", &format!("{start} and on of {stored}")))?;
    Ok(StoredTensor::contiguous(info, start..end)?.in_source(source))
}

fn dtype(number: i64) -> Option<DType> {
    Some(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        16 => DType::BF16,
        _ => return None,
    })
}
