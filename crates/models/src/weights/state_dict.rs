use super::contents::Contents;
use super::errors::ImportError;
use super::pickle::{Id, Pickle, StorageRef, TensorRef, Value};
use super::stored_tensor::{MAX_RANK, StoredTensor, StridedWindow, TensorInfo};
use crate::text::{list_names, shown};
use flipcast_tensor::Shape;
use std::collections::HashSet;
use std::ops::Range;

/// Keys under which training scripts file a model's weights.
const WRAPPERS: [&str; 15] = [
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "weights",
    "params",
    "ema",
    "ema_state_dict",
    "ema_model",
    "model_ema",
    "params_ema",
    "state_dict_ema",
];

/// Wrappers within wrappers that are followed.
const MAX_NESTING: usize = 4;

/// Separates keys in a candidate's path.
const SEPARATOR: &str = "/";
/// The path of the top level.
const TOP_LEVEL: &str = ".";

/// Finds the state dict of `pickle` and the place of each of its tensors. `wanted` is a path of keys to look under,
/// for files that hold several; `locate` gives the bytes of a whole storage.
pub(super) fn read_state_dict(
    pickle: &Pickle<'_>,
    wanted: Option<&str>,
    locate: &dyn Fn(&StorageRef<'_>) -> Result<Range<usize>, ImportError>,
) -> Result<Contents, ImportError> {
    let found = match wanted {
        None => find_only(pickle, pickle.root, Vec::new())?,
        Some(path) => find_wanted(pickle, path)?,
    };
    let mut names = HashSet::new();
    let mut contents = Contents::default();
    for &(key, value) in pickle.heap.dict(found.dict) {
        let Value::Tensor(tensor) = value else {
            if let Value::Str(name) = key {
                contents.skipped.push(name.to_owned());
            }
            continue;
        };
        let name = match key {
            Value::Str(name) => name,
            Value::Bytes(bytes) => {
                let valid = std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
                return Err(ImportError::NotUtf8 { what: "a tensor name", offset: valid });
            }
            other => {
                let found = other.kind();
                return Err(ImportError::UnnamedTensor { found });
            }
        };
        if !names.insert(name) {
            return Err(ImportError::DuplicateTensor { name: shown(name) });
        }
        let tensor = pickle.heap.tensor(tensor);
        let stored = place_tensor(pickle, name, tensor, locate)?;
        contents.tensors.push(stored);
    }
    contents.nesting = found.path.into_iter().map(str::to_owned).collect();
    Ok(contents)
}

/// A dict that holds tensors, and the keys that lead to it.
struct Candidate<'a> {
    dict: Id,
    path: Vec<&'a str>,
}

impl Candidate<'_> {
    fn shown_path(&self) -> String {
        if self.path.is_empty() { TOP_LEVEL.to_owned() } else { self.path.join(SEPARATOR) }
    }
}

/// The one state dict in `value`.
fn find_only<'a>(pickle: &Pickle<'a>, value: Value<'a>, path: Vec<&'a str>) -> Result<Candidate<'a>, ImportError> {
    let mut search = Search { pickle, seen: HashSet::new(), found: Vec::new() };
    search.visit(value, &path);
    if search.found.len() > 1 {
        let candidates = search.found.iter().map(Candidate::shown_path).collect();
        return Err(ImportError::AmbiguousStateDict { candidates });
    }
    search.found.pop().ok_or_else(|| ImportError::NoStateDict {
        place: if path.is_empty() { "the file".to_owned() } else { format!("`{}`", shown(&path.join(SEPARATOR))) },
        found: describe(pickle, value),
    })
}

/// The state dict at or below `path`.
fn find_wanted<'a>(pickle: &Pickle<'a>, path: &str) -> Result<Candidate<'a>, ImportError> {
    let mut value = pickle.root;
    let mut keys = Vec::new();
    let wanted = path.split(SEPARATOR);
    for wanted in wanted.filter(|key| !key.is_empty() && *key != TOP_LEVEL) {
        let Some((key, inner)) = find_entry(pickle, value, wanted) else {
            return Err(ImportError::NoStateDict {
                place: format!("`{}`", shown(path)),
                found: describe(pickle, value),
            });
        };
        keys.push(key);
        value = inner;
    }
    match value {
        // Asked for by name, so tensors right here win over wrappers beside them.
        Value::Dict(dict) if tensors_in(pickle, dict).next().is_some() => Ok(Candidate { dict, path: keys }),
        other => find_only(pickle, other, keys),
    }
}

struct Search<'p, 'a> {
    pickle: &'p Pickle<'a>,
    /// Dicts already visited: pickles may share them, even with themselves.
    seen: HashSet<Id>,
    found: Vec<Candidate<'a>>,
}

impl<'a> Search<'_, 'a> {
    /// Collects the state dicts in `value`. A dict with wrappers is no candidate itself unless it also holds tensors
    /// of more than one element: a lone number beside `state_dict` is a score.
    fn visit(&mut self, value: Value<'a>, path: &[&'a str]) {
        let Value::Dict(dict) = value else { return };
        if path.len() > MAX_NESTING || !self.seen.insert(dict) {
            return;
        }
        let before = self.found.len();
        for wrapper in WRAPPERS {
            if let Some((key, inner)) = find_entry(self.pickle, value, wrapper) {
                self.visit(inner, &[path, &[key]].concat());
            }
        }
        let wrapped = self.found.len() > before;
        let mut tensors = tensors_in(self.pickle, dict);
        let is_candidate = match wrapped {
            true => tensors.any(|tensor| !is_number(self.pickle, tensor)),
            false => tensors.next().is_some(),
        };
        if is_candidate {
            let path = path.to_vec();
            self.found.push(Candidate { dict, path });
        }
    }
}

/// The last entry of the dict `value` under `wanted`, as Python would find it.
fn find_entry<'a>(pickle: &Pickle<'a>, value: Value<'a>, wanted: &str) -> Option<(&'a str, Value<'a>)> {
    let Value::Dict(dict) = value else {
        return None;
    };
    let entries = pickle.heap.dict(dict).iter().rev();
    entries
        .filter_map(|&(key, value)| match key {
            Value::Str(key) => Some((key, value)),
            _ => None,
        })
        .find(|&(key, _)| key == wanted)
}

fn tensors_in<'a>(pickle: &Pickle<'a>, dict: Id) -> impl Iterator<Item = TensorRef<'a>> {
    let entries = pickle.heap.dict(dict).iter();
    entries.filter_map(|&(_, value)| match value {
        Value::Tensor(id) => Some(pickle.heap.tensor(id)),
        _ => None,
    })
}

/// Whether a tensor has no more than one element.
fn is_number(pickle: &Pickle<'_>, tensor: TensorRef<'_>) -> bool {
    let extents = pickle.heap.items(tensor.shape).unwrap_or_default();
    // Many tensors may share one endless shape, so its length is looked at first.
    extents.len() <= MAX_RANK && extents.iter().all(|&extent| extent == Value::Int(1))
}

/// What stands where a state dict should be.
fn describe(pickle: &Pickle<'_>, value: Value<'_>) -> String {
    let Value::Dict(dict) = value else {
        return value.kind().to_owned();
    };
    let entries = pickle.heap.dict(dict).iter();
    let keys: Vec<&str> = entries
        .filter_map(|&(key, _)| match key {
            Value::Str(key) => Some(key),
            _ => None,
        })
        .collect();
    if keys.is_empty() { "a dict without names".to_owned() } else { format!("a dict of {}", list_names(&keys)) }
}

/// Checks a pickled tensor and finds its bytes.
fn place_tensor(
    pickle: &Pickle<'_>,
    name: &str,
    tensor: TensorRef<'_>,
    locate: &dyn Fn(&StorageRef<'_>) -> Result<Range<usize>, ImportError>,
) -> Result<StoredTensor, ImportError> {
    let first = read_size(name, "offset", tensor.first)?;
    let shape = read_sizes(pickle, name, "shape", tensor.shape)?;
    let strides = read_sizes(pickle, name, "strides", tensor.strides)?;
    let storage = pickle.heap.storage(tensor.storage);
    let info = TensorInfo { name: name.to_owned(), dtype: storage.dtype, shape: Shape::new(shape) };
    let window = StridedWindow { storage: storage_part(&storage, locate(&storage)?)?, first, strides };
    StoredTensor::strided(info, window)
}

/// The bytes of the part of a storage a tensor refers to, out of those of the whole.
fn storage_part(storage: &StorageRef<'_>, whole: Range<usize>) -> Result<Range<usize>, ImportError> {
    let Some((first, len)) = storage.part else {
        return Ok(whole);
    };
    let end = first.checked_add(len);
    if end.is_none_or(|end| end > storage.len) {
        return Err(ImportError::StorageMismatch {
            key: shown(storage.key),
            unit: "elements",
            declared: first.saturating_add(len),
            found: storage.len,
        });
    }
    // Within the whole, whose elements are `storage.len`, so nothing here can overflow.
    let size = storage.dtype.size();
    let start = whole.start + first as usize * size;
    Ok(start..start + len as usize * size)
}

fn read_size(name: &str, field: &'static str, value: Value<'_>) -> Result<usize, ImportError> {
    let found = match value {
        Value::Int(size) => match usize::try_from(size) {
            Ok(size) => return Ok(size),
            Err(_) => size.to_string(),
        },
        other => other.kind().to_owned(),
    };
    Err(ImportError::BadTensorField { name: shown(name), field, expected: "non-negative integers", found })
}

fn read_sizes(
    pickle: &Pickle<'_>,
    name: &str,
    field: &'static str,
    value: Value<'_>,
) -> Result<Vec<usize>, ImportError> {
    match pickle.heap.items(value) {
        Some(items) => items.iter().map(|&item| read_size(name, field, item)).collect(),
        None => Err(ImportError::BadTensorField {
            name: shown(name),
            field,
            expected: "a tuple",
            found: value.kind().to_owned(),
        }),
    }
}
