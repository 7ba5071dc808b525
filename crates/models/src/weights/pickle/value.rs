use super::globals::Global;
use flipcast_tensor::DType;

/// Index into one of the heap's tables.
pub(in crate::weights) type Id = u32;

/// A pickled value. Text and bytes borrow from the pickle; containers live in the [`Heap`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::weights) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// Two's complement, little-endian, more than eight bytes.
    BigInt(&'a [u8]),
    Float(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
    List(Id),
    Tuple(Id),
    Dict(Id),
    Tensor(Id),
    Storage(Id),
    Global(Global),
    /// An object weights do not need; what it holds is not kept.
    Opaque,
}

impl Value<'_> {
    /// The kind, for messages.
    pub(in crate::weights) fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a truth value",
            Self::Int(_) | Self::BigInt(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Str(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Tuple(_) => "a tuple",
            Self::Dict(_) => "a dict",
            Self::Tensor(_) => "a tensor",
            Self::Storage(_) => "a storage",
            Self::Global(_) => "a constructor",
            Self::Opaque => "an opaque object",
        }
    }
}

/// A tensor as pickled; its fields are checked when its name is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::weights) struct TensorRef<'a> {
    pub(in crate::weights) storage: Id,
    pub(in crate::weights) first: Value<'a>,
    pub(in crate::weights) shape: Value<'a>,
    pub(in crate::weights) strides: Value<'a>,
}

/// A storage as pickled: a named array whose elements stand elsewhere in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::weights) struct StorageRef<'a> {
    pub(in crate::weights) key: &'a str,
    pub(in crate::weights) dtype: DType,
    /// Elements in the whole storage.
    pub(in crate::weights) len: u64,
    /// First element and element count of the part meant, where it is not the whole.
    pub(in crate::weights) part: Option<(u64, u64)>,
}

/// Everything values refer to.
#[derive(Debug)]
pub(in crate::weights) struct Heap<'a> {
    sequences: Vec<Vec<Value<'a>>>,
    dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    tensors: Vec<TensorRef<'a>>,
    storages: Vec<StorageRef<'a>>,
}

impl<'a> Heap<'a> {
    /// A heap that holds the empty tuple, which pickles use by the thousand.
    pub(super) fn new() -> Self {
        Self { sequences: vec![Vec::new()], dicts: Vec::new(), tensors: Vec::new(), storages: Vec::new() }
    }

    /// The one empty tuple.
    pub(super) fn empty_tuple(&self) -> Value<'a> {
        Value::Tuple(0)
    }

    pub(super) fn add_tuple(&mut self, items: Vec<Value<'a>>) -> Value<'a> {
        Value::Tuple(push(&mut self.sequences, items))
    }

    pub(super) fn add_list(&mut self, items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(push(&mut self.sequences, items))
    }

    pub(super) fn add_dict(&mut self, entries: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        Value::Dict(push(&mut self.dicts, entries))
    }

    pub(super) fn add_tensor(&mut self, tensor: TensorRef<'a>) -> Value<'a> {
        Value::Tensor(push(&mut self.tensors, tensor))
    }

    pub(super) fn add_storage(&mut self, storage: StorageRef<'a>) -> Value<'a> {
        Value::Storage(push(&mut self.storages, storage))
    }

    /// The items of a list or tuple.
    pub(in crate::weights) fn items(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match value {
            Value::List(id) | Value::Tuple(id) => Some(&self.sequences[id as usize]),
            _ => None,
        }
    }

    /// The items of a list, to add to.
    pub(super) fn list_mut(&mut self, id: Id) -> &mut Vec<Value<'a>> {
        &mut self.sequences[id as usize]
    }

    /// The entries of a dict, in the order they were set.
    pub(in crate::weights) fn dict(&self, id: Id) -> &[(Value<'a>, Value<'a>)] {
        &self.dicts[id as usize]
    }

    /// The entries of a dict, to add to.
    pub(super) fn dict_mut(&mut self, id: Id) -> &mut Vec<(Value<'a>, Value<'a>)> {
        &mut self.dicts[id as usize]
    }

    pub(in crate::weights) fn tensor(&self, id: Id) -> TensorRef<'a> {
        self.tensors[id as usize]
    }

    pub(in crate::weights) fn storage(&self, id: Id) -> StorageRef<'a> {
        self.storages[id as usize]
    }

    /// Every storage the pickle mentions, once per mention.
    pub(in crate::weights) fn storages(&self) -> &[StorageRef<'a>] {
        &self.storages
    }
}

fn push<T>(table: &mut Vec<T>, entry: T) -> Id {
    let id = Id::try_from(table.len()).expect("the opcode limit is far below 2^32");
    table.push(entry);
    id
}
