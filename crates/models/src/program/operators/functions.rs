//! Functions of the elements of constants.

use super::constants::combine;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::text::shown;

/// `Where(condition, a, b)`.
pub(super) fn choose(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let mut part = |place: usize| match lowering.operand(call, place)? {
        Value::Constant(constant) => Ok(constant),
        _ => Err(refuse("condition", "a value that depends on the images", "constants alone")),
    };
    let (condition, a, b) = (part(0)?, part(1)?, part(2)?);
    let room = lowering.room;
    // A choice is 0 or 1, so that both parts can be told apart by two sums.
    let first = combine(room, &condition, &a, |condition, a| if condition != 0.0 { a } else { 0.0 })?;
    let second = combine(room, &condition, &b, |condition, b| if condition == 0.0 { b } else { 0.0 })?;
    let made = combine(room, &first, &second, |a, b| a + b)?;
    Ok(vec![Value::Constant(Constant { integer: a.integer && b.integer, ..made })])
}

/// Two constants compared.
pub(super) fn compare(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let (Value::Constant(a), Value::Constant(b)) = lowering.operands(call)? else {
        return Err(refuse("other", "a value that depends on the images", "constants alone"));
    };
    let holds: fn(f32, f32) -> bool = match call.plain_operator() {
        "aten.eq" => |a, b| a == b,
        "aten.ne" => |a, b| a != b,
        "aten.lt" => |a, b| a < b,
        "aten.gt" => |a, b| a > b,
        "aten.le" => |a, b| a <= b,
        _ => |a, b| a >= b,
    };
    let made = combine(lowering.room, &a, &b, |a, b| f32::from(u8::from(holds(a, b))))?;
    Ok(vec![Value::Constant(Constant { integer: true, ..made })])
}

/// A function of two constants, named by the operator.
pub(super) fn binary(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    // ONNX has the largest and the smallest of any number of tensors, also of one.
    if matches!(call.plain_operator(), "aten.minimum" | "aten.maximum") && call.nth(1).is_none() {
        return Ok(vec![lowering.operand(call, 0)?]);
    }
    let (Value::Constant(a), Value::Constant(b)) = lowering.operands(call)? else {
        return Err(refuse("other", "a value that depends on the images", "constants alone"));
    };
    let function: fn(f32, f32) -> f32 = match call.plain_operator() {
        "aten.remainder" => |a, b| a - b * (a / b).floor(),
        "aten.floor_divide" => |a, b| (a / b).floor(),
        "aten.minimum" => f32::min,
        "aten.maximum" => f32::max,
        "aten.logical_and" => |a, b| f32::from(u8::from(a != 0.0 && b != 0.0)),
        _ => |a, b| f32::from(u8::from(a != 0.0 || b != 0.0)),
    };
    Ok(vec![Value::Constant(combine(lowering.room, &a, &b, function)?)])
}

/// A function of every element of a constant, named by the operator.
pub(super) fn function(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Constant(constant) = lowering.operand(call, 0)? else {
        return Err(refuse("self", "a value that depends on the images", "a constant"));
    };
    let function: fn(f64) -> f64 = match call.plain_operator() {
        "aten.sqrt" => f64::sqrt,
        "aten.neg" => |x| -x,
        "aten.exp" => f64::exp,
        "aten.log" => f64::ln,
        "aten.sin" => f64::sin,
        "aten.cos" => f64::cos,
        "aten.abs" => f64::abs,
        "aten.floor" => f64::floor,
        "aten.ceil" => f64::ceil,
        "aten.sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        "aten.reciprocal" => f64::recip,
        "aten.logical_not" => |x| f64::from(u8::from(x == 0.0)),
        other => return Err(refuse("self", format!("`{}`", shown(other)), "a function that is known")),
    };
    Ok(vec![Value::Constant(constant.map(|value| function(f64::from(value)) as f32))])
}

/// `Cast(input, to)`.
pub(super) fn cast(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    // Numbers of ONNX's element types.
    let to = lowering.int(call, "to", Some(1))?;
    let integer = !matches!(to, 1 | 10 | 11 | 16);
    Ok(vec![match value {
        Value::Constant(constant) if integer => {
            let made = constant.map(|value| if to == 9 { f32::from(u8::from(value != 0.0)) } else { value.trunc() });
            Value::Constant(Constant { integer, ..made })
        }
        Value::Constant(constant) => Value::Constant(Constant { integer, ..constant }),
        _ if integer => return Err(refuse("to", to.to_string(), "a floating-point type")),
        other => other,
    }])
}
