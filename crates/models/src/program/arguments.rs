use super::CallError;
use super::lower::{Constant, Lowering, Value};
use super::schema::{Arg, Call, Int};
use super::view::View;
use crate::text::shown;

/// The largest stride, padding, size or the like that an argument may be.
const LARGEST: i64 = 1 << 16;
/// The longest list of axes, extents or parts: work for some of them grows with its square, and a small file can count to a million.
const LONGEST: usize = 1 << 10;

/// The complaint that `argument` is not as `expected`.
pub(super) fn refuse(argument: &'static str, found: impl Into<String>, expected: impl Into<String>) -> CallError {
    CallError::Argument { argument, found: found.into(), expected: expected.into() }
}

fn describe(arg: Option<&Arg>) -> String {
    match arg {
        None | Some(Arg::None) => "absent".into(),
        Some(Arg::Bool(value)) => format!("`{value}`"),
        Some(Arg::Float(value)) => format!("{value}"),
        Some(Arg::Text(text)) => format!("`{}`", shown(text)),
        Some(Arg::Tensor(name)) => format!("the tensor `{}`", shown(name)),
        Some(Arg::Tensors(names)) => format!("a list of {} tensors", names.len()),
        Some(Arg::Int(Int::Known(value))) => value.to_string(),
        Some(Arg::Int(Int::Named(name))) => format!("the number `{}`", shown(name)),
        Some(Arg::Ints(ints)) => format!("a list of {} numbers", ints.len()),
        Some(Arg::Floats(values)) => format!("a list of {} numbers", values.len()),
        Some(Arg::Other(kind)) => format!("of kind `{kind}`"),
    }
}

impl Call {
    /// The name of the tensor in place `index`.
    pub fn tensor_name(&self, index: usize) -> Option<&str> {
        match self.nth(index) {
            Some(Arg::Tensor(name)) => Some(name),
            _ => None,
        }
    }

    pub fn bool(&self, name: &'static str, default: bool) -> Result<bool, CallError> {
        match self.argument(name) {
            None => Ok(default),
            Some(Arg::Bool(value)) => Ok(*value),
            Some(Arg::Int(Int::Known(value @ (0 | 1)))) => Ok(*value == 1),
            other => Err(refuse(name, describe(other), "a truth value")),
        }
    }

    pub fn float(&self, name: &'static str, default: Option<f64>) -> Result<f64, CallError> {
        match (self.argument(name), default) {
            (Some(Arg::Float(value)), _) => Ok(*value),
            (Some(Arg::Int(Int::Known(value))), _) => Ok(*value as f64),
            (None, Some(default)) => Ok(default),
            (other, _) => Err(refuse(name, describe(other), "a number")),
        }
    }

    pub fn text(&self, name: &'static str, default: &'static str) -> Result<&str, CallError> {
        match self.argument(name) {
            None => Ok(default),
            Some(Arg::Text(text)) => Ok(text),
            other => Err(refuse(name, describe(other), "a text")),
        }
    }
}

impl Lowering<'_> {
    fn resolve(&self, int: &Int) -> Result<i64, CallError> {
        match int {
            Int::Known(value) => Ok(*value),
            Int::Named(name) => match self.values.get(name) {
                Some(Value::Int(value)) => Ok(*value),
                _ => Err(CallError::UnknownValue { name: shown(name) }),
            },
        }
    }

    /// The whole numbers of the constant `name`; ends of ranges may be as large as numbers get.
    fn whole_numbers(&mut self, argument: &'static str, name: &str) -> Result<Vec<i64>, CallError> {
        match self.value(name)? {
            Value::Constant(constant) if constant.integer => {
                Ok(constant.tensor.values().iter().map(|&value| value as i64).collect())
            }
            Value::Int(value) => Ok(vec![value]),
            _ => Err(refuse(argument, format!("the tensor `{}`", shown(name)), "whole numbers that are known")),
        }
    }

    /// A number, or a constant of one element.
    pub fn number(&mut self, call: &Call, name: &'static str, default: Option<f64>) -> Result<f64, CallError> {
        let Some(Arg::Tensor(tensor)) = call.argument(name) else {
            return call.float(name, default);
        };
        match self.value(tensor)? {
            Value::Constant(constant) if constant.tensor.values().len() == 1 => {
                Ok(f64::from(constant.tensor.values()[0]))
            }
            _ => Err(refuse(name, format!("the tensor `{}`", shown(tensor)), "one number that is known")),
        }
    }

    /// The whole number in place `index`.
    pub fn nth_int(&self, call: &Call, index: usize) -> Result<i64, CallError> {
        match call.nth(index) {
            Some(Arg::Int(int)) => self.resolve(int),
            other => Err(refuse("number", describe(other), "a whole number")),
        }
    }

    pub fn int(&mut self, call: &Call, name: &'static str, default: Option<i64>) -> Result<i64, CallError> {
        match (call.argument(name), default) {
            (Some(Arg::Tensor(tensor)), _) => match self.whole_numbers(name, tensor)?[..] {
                [value] => Ok(value),
                ref values => Err(refuse(name, format!("{} numbers", values.len()), "one")),
            },
            (Some(Arg::Int(int)), _) => self.resolve(int),
            (None, Some(default)) => Ok(default),
            (other, _) => Err(refuse(name, describe(other), "a whole number")),
        }
    }

    /// A list of whole numbers; `None` where the argument is left out.
    pub fn ints(&mut self, call: &Call, name: &'static str) -> Result<Option<Vec<i64>>, CallError> {
        let found: Vec<i64> = match call.argument(name) {
            None => return Ok(None),
            Some(Arg::Tensor(tensor)) => self.whole_numbers(name, tensor)?,
            Some(Arg::Ints(ints)) => ints.iter().map(|int| self.resolve(int)).collect::<Result<_, _>>()?,
            Some(Arg::Int(int)) => vec![self.resolve(int)?],
            other => return Err(refuse(name, describe(other), "a list of whole numbers")),
        };
        if found.len() > LONGEST {
            return Err(refuse(name, format!("{} numbers", found.len()), format!("at most {LONGEST}")));
        }
        Ok(Some(found))
    }

    /// A setting for rows and columns: two numbers, or one for both.
    pub fn pair(
        &mut self,
        call: &Call,
        name: &'static str,
        default: Option<[usize; 2]>,
    ) -> Result<[usize; 2], CallError> {
        let found = self.ints(call, name)?.filter(|list| !list.is_empty());
        let size = |value: i64| usize::try_from(value).ok().filter(|_| value <= LARGEST);
        let pair = match (found.as_deref(), default) {
            (Some(&[both]), _) => size(both).map(|both| [both; 2]),
            (Some(&[rows, columns]), _) => size(rows).zip(size(columns)).map(Into::into),
            (Some(_), _) => None,
            (None, default) => default,
        };
        pair.ok_or_else(|| refuse(name, format!("{found:?}"), format!("one or two numbers from 0 to {LARGEST}")))
    }

    /// A setting that rows and columns share.
    pub fn square(&mut self, call: &Call, name: &'static str, default: Option<usize>) -> Result<usize, CallError> {
        match self.pair(call, name, default.map(|both| [both; 2]))? {
            [rows, columns] if rows == columns => Ok(rows),
            pair => Err(refuse(name, format!("{pair:?}"), "the same for rows and columns")),
        }
    }

    /// The axis that `name` counts from either end of `rank` axes.
    pub fn axis(
        &mut self,
        call: &Call,
        name: &'static str,
        default: Option<i64>,
        rank: usize,
    ) -> Result<usize, CallError> {
        let found = self.int(call, name, default)?;
        position(found, rank).ok_or_else(|| refuse(name, found.to_string(), format!("one of {rank} axes")))
    }

    /// The value in place `index`.
    pub fn operand(&mut self, call: &Call, index: usize) -> Result<Value, CallError> {
        match call.nth(index) {
            Some(Arg::Tensor(name)) => self.value(name),
            other => Err(refuse("operand", describe(other), "a tensor")),
        }
    }

    /// The value in place `index`, which depends on the images.
    pub fn view(&mut self, call: &Call, index: usize) -> Result<View, CallError> {
        match self.operand(call, index)? {
            Value::View(view) => Ok(view),
            _ => Err(refuse("operand", "a constant", "a value that depends on the images")),
        }
    }

    /// The constant called `name`; `None` where the argument is left out.
    pub fn constant(&mut self, call: &Call, name: &'static str) -> Result<Option<Constant>, CallError> {
        match call.argument(name) {
            None => Ok(None),
            Some(Arg::Tensor(tensor)) => match self.value(tensor)? {
                Value::Constant(constant) => Ok(Some(constant)),
                _ => Err(refuse(name, "a value that depends on the images", "a constant")),
            },
            other => Err(refuse(name, describe(other), "a tensor")),
        }
    }

    /// The constant called `name`, which must be there.
    pub fn weight(&mut self, call: &Call, name: &'static str) -> Result<Constant, CallError> {
        self.constant(call, name)?.ok_or_else(|| refuse(name, "absent", "a tensor"))
    }
}

/// A position counted from either end of `count`.
pub(super) fn position(found: i64, count: usize) -> Option<usize> {
    let count = i64::try_from(count).ok()?;
    let from_front = if found < 0 { found.checked_add(count)? } else { found };
    (0..count).contains(&from_front).then_some(from_front as usize)
}
