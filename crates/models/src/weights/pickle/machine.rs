use super::errors::PickleError;
use super::globals::find_global;
use super::opcode as op;
use super::value::{Heap, Value};
use crate::weights::errors::ImportError;
use crate::weights::reader::Reader;
use std::collections::HashMap;

/// About fifty opcodes describe a tensor, so this is twenty thousand tensors. It bounds memory to a few hundred
/// megabytes for the most wasteful pickle, and to far less for a short one.
const MAX_OPCODES: usize = 1_000_000;
/// Open groups; a checkpoint opens about ten.
const MAX_DEPTH: usize = 1_000;

/// A pickle that was read.
#[derive(Debug)]
pub(in crate::weights) struct Pickle<'a> {
    /// The pickled object.
    pub(in crate::weights) root: Value<'a>,
    /// What it refers to.
    pub(in crate::weights) heap: Heap<'a>,
    /// Length up to and including the stop opcode.
    pub(in crate::weights) len: usize,
}

/// Reads the pickle at the start of `bytes`, which may hold more after it.
pub(in crate::weights) fn read_pickle(bytes: &[u8]) -> Result<Pickle<'_>, ImportError> {
    let mut machine = Machine {
        reader: Reader::new(bytes, 0),
        at: 0,
        steps: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        heap: Heap::new(),
    };
    machine.start()?;
    let root = loop {
        if let Some(root) = machine.step()? {
            break root;
        }
    };
    Ok(Pickle { root, heap: machine.heap, len: machine.reader.at() })
}

pub(super) struct Machine<'a> {
    reader: Reader<'a>,
    /// Offset of the opcode being run.
    at: usize,
    steps: usize,
    stack: Vec<Value<'a>>,
    /// Stack heights at which groups were opened.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    pub(super) heap: Heap<'a>,
}

impl<'a> Machine<'a> {
    /// `source` at the opcode being run.
    pub(super) fn fault(&self, source: PickleError) -> ImportError {
        let offset = self.at;
        ImportError::Pickle { offset, source }
    }

    /// A value of the wrong kind at the opcode being run.
    pub(super) fn wrong(&self, operation: &'static str, expected: &'static str, found: Value<'a>) -> ImportError {
        self.fault(PickleError::WrongValue { operation, expected, found: found.kind() })
    }

    /// Counts `steps` units of work or memory against the budget.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), ImportError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_OPCODES {
            let limit = MAX_OPCODES;
            return Err(self.fault(PickleError::TooManyOpcodes { limit }));
        }
        Ok(())
    }

    /// Reads the protocol, with which every pickle from protocol 2 on starts.
    fn start(&mut self) -> Result<(), ImportError> {
        for allowed in [op::PROTO..=op::PROTO, 2..=5] {
            self.at = self.reader.at();
            let found = self.read(Reader::u8)?;
            if !allowed.contains(&found) {
                return Err(self.fault(PickleError::Protocol { found }));
            }
        }
        Ok(())
    }

    /// Runs one opcode; gives the pickled object at the last.
    fn step(&mut self) -> Result<Option<Value<'a>>, ImportError> {
        self.at = self.reader.at();
        self.spend(1)?;
        let opcode = self.read(Reader::u8)?;
        let value = match opcode {
            op::STOP => return self.pop().map(Some),
            op::FRAME => {
                // Frames only help streaming readers.
                self.read(Reader::u64)?;
                return Ok(None);
            }
            op::MARK => {
                let limit = MAX_DEPTH;
                if self.marks.len() == limit {
                    return Err(self.fault(PickleError::TooDeep { limit }));
                }
                self.marks.push(self.stack.len());
                return Ok(None);
            }
            op::POP => {
                // Python lets this opcode close an empty group, too.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
                return Ok(None);
            }
            op::POP_MARK => {
                self.pop_group()?;
                return Ok(None);
            }
            op::BINPUT => return self.remember(|reader| reader.u8().map(u32::from)),
            op::LONG_BINPUT => return self.remember(Reader::u32),
            op::MEMOIZE => {
                let next = u32::try_from(self.memo.len()).ok();
                return self.remember(|_| next);
            }
            op::APPEND | op::APPENDS | op::ADDITEMS => return self.append(opcode),
            op::SETITEM | op::SETITEMS => return self.set_items(opcode),
            op::BUILD => {
                let state = self.pop()?;
                return self.build(state).map(|()| None);
            }
            op::DUP => self.peek()?,
            op::NONE => Value::None,
            op::NEWTRUE => Value::Bool(true),
            op::NEWFALSE => Value::Bool(false),
            op::BININT => Value::Int(i64::from(self.read(Reader::u32)? as i32)),
            op::BININT1 => Value::Int(i64::from(self.read(Reader::u8)?)),
            op::BININT2 => Value::Int(i64::from(self.read(Reader::u16)?)),
            op::LONG1 => integer(self.counted(|reader| reader.u8().map(u64::from))?),
            op::LONG4 => integer(self.counted(|reader| reader.u32().map(u64::from))?),
            op::BINFLOAT => Value::Float(f64::from_be_bytes(self.read(Reader::array)?)),
            op::SHORT_BINUNICODE => self.text(|reader| reader.u8().map(u64::from))?,
            op::BINUNICODE => self.text(|reader| reader.u32().map(u64::from))?,
            op::BINUNICODE8 => self.text(Reader::u64)?,
            op::SHORT_BINSTRING => text_or_bytes(self.counted(|reader| reader.u8().map(u64::from))?),
            op::BINSTRING => text_or_bytes(self.counted(|reader| reader.u32().map(u64::from))?),
            op::SHORT_BINBYTES => Value::Bytes(self.counted(|reader| reader.u8().map(u64::from))?),
            op::BINBYTES => Value::Bytes(self.counted(|reader| reader.u32().map(u64::from))?),
            op::BINBYTES8 | op::BYTEARRAY8 => Value::Bytes(self.counted(Reader::u64)?),
            op::EMPTY_LIST | op::EMPTY_SET => self.heap.add_list(Vec::new()),
            op::EMPTY_TUPLE => self.heap.empty_tuple(),
            op::EMPTY_DICT => self.heap.add_dict(Vec::new()),
            op::LIST => {
                let items = self.pop_group()?;
                self.heap.add_list(items)
            }
            op::TUPLE | op::FROZENSET => {
                let items = self.pop_group()?;
                self.heap.add_tuple(items)
            }
            op::TUPLE1 => self.tuple::<1>()?,
            op::TUPLE2 => self.tuple::<2>()?,
            op::TUPLE3 => self.tuple::<3>()?,
            op::DICT => {
                let items = self.pop_group()?;
                let entries = self.pairs(&items)?;
                self.heap.add_dict(entries)
            }
            op::BINGET => self.recall(|reader| reader.u8().map(u32::from))?,
            op::LONG_BINGET => self.recall(Reader::u32)?,
            op::GLOBAL => {
                let module = self.line()?;
                let name = self.line()?;
                Value::Global(find_global(module, name)?)
            }
            op::STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (module, name) {
                    (Value::Str(module), Value::Str(name)) => Value::Global(find_global(module, name)?),
                    (Value::Str(_), other) | (other, _) => {
                        return Err(self.wrong("naming a constructor", "a string", other));
                    }
                }
            }
            op::REDUCE | op::NEWOBJ => {
                let (arguments, constructor) = (self.pop()?, self.pop()?);
                self.construct(constructor, arguments)?
            }
            op::NEWOBJ_EX => {
                let _keywords = self.pop()?;
                let (arguments, constructor) = (self.pop()?, self.pop()?);
                self.construct(constructor, arguments)?
            }
            op::BINPERSID => {
                let id = self.pop()?;
                self.load_persistent(id)?
            }
            found => return Err(self.fault(PickleError::Opcode { found })),
        };
        self.stack.push(value);
        Ok(None)
    }

    fn read<T>(&mut self, take: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Result<T, ImportError> {
        take(&mut self.reader).ok_or_else(|| self.fault(PickleError::Truncated))
    }

    /// Bytes after a length that `length` reads.
    fn counted(&mut self, length: impl FnOnce(&mut Reader<'a>) -> Option<u64>) -> Result<&'a [u8], ImportError> {
        self.read(|reader| {
            let length = length(reader)?;
            reader.take_declared(length)
        })
    }

    /// Text after a length that `length` reads.
    fn text(&mut self, length: impl FnOnce(&mut Reader<'a>) -> Option<u64>) -> Result<Value<'a>, ImportError> {
        let bytes = self.counted(length)?;
        let text = std::str::from_utf8(bytes);
        text.map(Value::Str).map_err(|_| self.fault(PickleError::NotUtf8))
    }

    fn line(&mut self) -> Result<&'a str, ImportError> {
        let line = self.read(Reader::line)?;
        std::str::from_utf8(line).map_err(|_| self.fault(PickleError::NotUtf8))
    }

    /// The top of the stack; what lies below an open group is out of reach.
    pub(super) fn peek(&self) -> Result<Value<'a>, ImportError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.get(floor..).and_then(<[_]>::last);
        top.copied().ok_or_else(|| self.fault(PickleError::EmptyStack))
    }

    fn pop(&mut self) -> Result<Value<'a>, ImportError> {
        let top = self.peek()?;
        self.stack.pop();
        Ok(top)
    }

    /// The values since the last mark.
    fn pop_group(&mut self) -> Result<Vec<Value<'a>>, ImportError> {
        let mark = self.marks.pop();
        let mark = mark.ok_or_else(|| self.fault(PickleError::NoMark))?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple<const N: usize>(&mut self) -> Result<Value<'a>, ImportError> {
        let mut items = [Value::None; N];
        for item in items.iter_mut().rev() {
            *item = self.pop()?;
        }
        Ok(self.heap.add_tuple(items.to_vec()))
    }

    fn remember(
        &mut self,
        index: impl FnOnce(&mut Reader<'a>) -> Option<u32>,
    ) -> Result<Option<Value<'a>>, ImportError> {
        let index = self.read(index)?;
        let top = self.peek()?;
        self.memo.insert(index, top);
        Ok(None)
    }

    fn recall(&mut self, index: impl FnOnce(&mut Reader<'a>) -> Option<u32>) -> Result<Value<'a>, ImportError> {
        let index = self.read(index)?;
        let found = self.memo.get(&index).copied();
        found.ok_or_else(|| self.fault(PickleError::UnknownEntry { index }))
    }

    fn append(&mut self, opcode: u8) -> Result<Option<Value<'a>>, ImportError> {
        let items = match opcode {
            op::APPEND => vec![self.pop()?],
            _ => self.pop_group()?,
        };
        match self.peek()? {
            Value::List(id) => self.heap.list_mut(id).extend(items),
            Value::Opaque => {}
            other => return Err(self.wrong("appending", "a list", other)),
        }
        Ok(None)
    }

    fn set_items(&mut self, opcode: u8) -> Result<Option<Value<'a>>, ImportError> {
        let entries = match opcode {
            op::SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![(key, value)]
            }
            _ => {
                let items = self.pop_group()?;
                self.pairs(&items)?
            }
        };
        match self.peek()? {
            Value::Dict(id) => self.heap.dict_mut(id).extend(entries),
            Value::Opaque => {}
            other => return Err(self.wrong("setting an entry", "a dict", other)),
        }
        Ok(None)
    }

    /// Alternating keys and values.
    fn pairs(&self, items: &[Value<'a>]) -> Result<Vec<(Value<'a>, Value<'a>)>, ImportError> {
        let (pairs, rest) = items.as_chunks::<2>();
        if let Some(&key) = rest.first() {
            return Err(self.wrong("setting entries", "a value after each key", key));
        }
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }
}

/// An integer in little-endian two's complement of any length.
fn integer(bytes: &[u8]) -> Value<'_> {
    if bytes.len() > 8 {
        return Value::BigInt(bytes);
    }
    let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(wide))
}

/// Python 2 used one type for both.
fn text_or_bytes(bytes: &[u8]) -> Value<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Str(text),
        Err(_) => Value::Bytes(bytes),
    }
}
