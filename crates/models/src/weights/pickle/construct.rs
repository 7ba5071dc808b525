use super::errors::PickleError;
use super::globals::Global;
use super::machine::Machine;
use super::value::{StorageRef, TensorRef, Value};
use crate::weights::errors::ImportError;

/// The longest storage key; torch uses decimal numbers.
const MAX_KEY: usize = 256;

impl<'a> Machine<'a> {
    /// What `constructor` makes of the tuple `arguments`.
    pub(super) fn construct(&mut self, constructor: Value<'a>, arguments: Value<'a>) -> Result<Value<'a>, ImportError> {
        let operation = "constructing an object";
        let Value::Global(global) = constructor else {
            return Err(self.wrong(operation, "a constructor", constructor));
        };
        if !matches!(arguments, Value::Tuple(_)) {
            return Err(self.wrong(operation, "a tuple of arguments", arguments));
        }
        match global {
            Global::Dict => self.construct_dict(arguments),
            Global::Tensor => self.construct_tensor(arguments),
            Global::Parameter => match self.arguments(arguments, "making a parameter")? {
                [tensor @ Value::Tensor(_)] => Ok(tensor),
                [other] => Err(self.wrong("making a parameter", "a tensor", other)),
            },
            Global::Size => match self.arguments(arguments, "making a size")? {
                [sizes @ (Value::Tuple(_) | Value::List(_))] => Ok(sizes),
                [other] => Err(self.wrong("making a size", "a tuple", other)),
            },
            Global::Storage(_) => Err(self.wrong(operation, "no storage type", constructor)),
            Global::Inert => Ok(Value::Opaque),
        }
    }

    /// Applies `state` to the object on top of the stack. Only attributes arrive this way, such as the version
    /// table of a state dict, so nothing is kept.
    pub(super) fn build(&mut self, _state: Value<'a>) -> Result<(), ImportError> {
        match self.peek()? {
            Value::Dict(_) | Value::Opaque => Ok(()),
            other => Err(self.wrong("setting attributes", "a dict or an opaque object", other)),
        }
    }

    /// A storage from its persistent id: kind, type, key, device, length, and in the older format a part of it.
    pub(super) fn load_persistent(&mut self, id: Value<'a>) -> Result<Value<'a>, ImportError> {
        let operation = "referring to a storage";
        let [kind, dtype, key, _device, len] = self.arguments(id, operation)?;
        if kind != Value::Str("storage") {
            return Err(self.wrong(operation, "the word `storage`", kind));
        }
        let Value::Global(Global::Storage(dtype)) = dtype else {
            return Err(self.wrong(operation, "a storage type", dtype));
        };
        let Value::Str(key) = key else {
            return Err(self.wrong(operation, "a string as key", key));
        };
        if key.len() > MAX_KEY {
            return Err(self.fault(PickleError::LongKey { found: key.len(), limit: MAX_KEY }));
        }
        let len = self.count(len, operation)?;
        let part = match self.heap.items(id).and_then(|items| items.get(5).copied()) {
            None | Some(Value::None) => None,
            Some(part) => {
                let [_key, first, len] = self.arguments(part, "referring to a part of a storage")?;
                Some((self.count(first, operation)?, self.count(len, operation)?))
            }
        };
        let storage = StorageRef { key, dtype, len, part };
        Ok(self.heap.add_storage(storage))
    }

    /// An empty dict, or one from a list of pairs as Python 2 wrote it.
    fn construct_dict(&mut self, arguments: Value<'a>) -> Result<Value<'a>, ImportError> {
        let operation = "making a dict";
        let Some(&pairs) = self.heap.items(arguments).and_then(<[_]>::first) else {
            return Ok(self.heap.add_dict(Vec::new()));
        };
        let len = self.heap.items(pairs).map(<[_]>::len);
        let len = len.ok_or_else(|| self.wrong(operation, "a list of pairs", pairs))?;
        // The list may be one that was remembered, so its items are not yet paid for.
        self.spend(len)?;
        let mut entries = Vec::with_capacity(len);
        for &pair in self.heap.items(pairs).unwrap_or_default() {
            let [key, value] = self.arguments(pair, operation)?;
            entries.push((key, value));
        }
        Ok(self.heap.add_dict(entries))
    }

    /// A tensor from storage, first element, shape and strides; whether gradients are needed does not matter here.
    fn construct_tensor(&mut self, arguments: Value<'a>) -> Result<Value<'a>, ImportError> {
        let operation = "making a tensor";
        let [storage, first, shape, strides] = self.arguments(arguments, operation)?;
        let Value::Storage(storage) = storage else {
            return Err(self.wrong(operation, "a storage", storage));
        };
        let flags = self.heap.items(arguments).and_then(|items| items.get(6));
        match flags {
            None | Some(Value::None) => {}
            Some(&Value::Dict(id)) if self.heap.dict(id).is_empty() => {}
            Some(_) => return Err(self.fault(PickleError::PendingMath)),
        }
        let tensor = TensorRef { storage, first, shape, strides };
        Ok(self.heap.add_tensor(tensor))
    }

    /// The first `N` items of a tuple or list.
    fn arguments<const N: usize>(
        &self,
        sequence: Value<'a>,
        operation: &'static str,
    ) -> Result<[Value<'a>; N], ImportError> {
        let Some(items) = self.heap.items(sequence) else {
            return Err(self.wrong(operation, "a tuple", sequence));
        };
        items
            .first_chunk()
            .copied()
            .ok_or_else(|| self.fault(PickleError::ArgumentCount { operation, expected: N, found: items.len() }))
    }

    /// A number of elements.
    fn count(&self, value: Value<'a>, operation: &'static str) -> Result<u64, ImportError> {
        match value {
            Value::Int(count) if count >= 0 => Ok(count.unsigned_abs()),
            other => Err(self.wrong(operation, "an element count", other)),
        }
    }
}
