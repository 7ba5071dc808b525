//! Constants that operators make anew or fill: numbers, ranges, extents.

use super::constants::combine;
use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call, Int};

/// `Constant` with its value as a number or a list.
pub(super) fn constant(_: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let made = match call.nth(0) {
        Some(Arg::Int(Int::Known(value))) => Constant::of(Vec::new(), vec![*value as f32], true)?,
        Some(Arg::Float(value)) => Constant::of(Vec::new(), vec![*value as f32], false)?,
        Some(Arg::Floats(values)) => {
            Constant::of(vec![values.len()], values.iter().map(|&value| value as f32).collect(), false)?
        }
        Some(Arg::Ints(values)) => {
            let known = |value: &Int| match value {
                Int::Known(value) => Some(*value),
                Int::Named(_) => None,
            };
            let values: Option<Vec<i64>> = values.iter().map(known).collect();
            Constant::numbers(values.ok_or_else(|| refuse("value", "a name", "numbers"))?)
        }
        _ => return Err(refuse("value", "something else", "a tensor, a number or a list of them")),
    };
    Ok(vec![Value::Constant(made)])
}

/// `Shape(data)`, or some of its extents from `start` to `end`.
pub(super) fn shape_of(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let shape = extents(&lowering.operand(call, 0)?);
    let bound = |found: i64| {
        let rank = shape.len() as i64;
        (if found < 0 { found.saturating_add(rank) } else { found }).clamp(0, rank) as usize
    };
    let start = bound(lowering.int(call, "start", Some(0))?);
    let end = bound(lowering.int(call, "end", Some(i64::MAX))?);
    let part = shape.get(start..end.max(start)).unwrap_or_default();
    Ok(vec![Value::Constant(Constant::numbers(part.iter().map(|&size| size as i64).collect()))])
}

/// `ConstantOfShape(shape)` filled with `value`, or zeros.
pub(super) fn constant_of_shape(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let sizes = lowering.ints(call, "shape")?.unwrap_or_default();
    let value = lowering.constant(call, "value")?;
    let extents: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
    let extents = extents.ok_or_else(|| refuse("shape", format!("{sizes:?}"), "numbers that are not negative"))?;
    let len = lowering.room.count(&extents)?;
    let fill = value.as_ref().and_then(Constant::single).unwrap_or(0.0);
    let integer = value.is_some_and(|value| value.integer);
    Ok(vec![Value::Constant(Constant::of(extents, vec![fill; len], integer)?)])
}

/// `new_zeros(self, size)` and `zeros(size)`.
pub(super) fn zeros(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let sizes = lowering.ints(call, "size")?.unwrap_or_default();
    let extents: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
    let extents = extents.ok_or_else(|| refuse("size", format!("{sizes:?}"), "numbers that are not negative"))?;
    let len = lowering.room.count(&extents)?;
    Ok(vec![Value::Constant(Constant::of(extents, vec![0.0; len], false)?)])
}

/// `Range(start, limit, delta)`.
pub(super) fn range(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let start = lowering.number(call, "start", Some(0.0))?;
    let end = lowering.number(call, "end", None)?;
    let step = lowering.number(call, "step", Some(1.0))?;
    let steps = ((end - start) / step).ceil();
    if !steps.is_finite() {
        return Err(refuse("end", format!("{end} from {start} by {step}"), "a range of known length"));
    }
    lowering.room.count(&[steps.max(0.0) as usize])?;
    let values: Vec<f32> = (0..steps.max(0.0) as usize).map(|i| (start + i as f64 * step) as f32).collect();
    let integer = [start, end, step].iter().all(|value| value.fract() == 0.0);
    Ok(vec![Value::Constant(Constant::of(vec![values.len()], values, integer)?)])
}

/// `masked_fill(self, mask, value)` of constants.
pub(super) fn masked_fill(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let (Value::Constant(constant), mask) = (lowering.operand(call, 0)?, lowering.weight(call, "mask")?) else {
        return Err(refuse("self", "a value that depends on the images", "a constant"));
    };
    let value = lowering.number(call, "value", None)? as f32;
    let filled = combine(lowering.room, &constant, &mask, |before, mask| if mask != 0.0 { value } else { before })?;
    Ok(vec![Value::Constant(Constant { integer: false, ..filled })])
}

/// `fill_(self, value)` of a constant, or of a part of one, which then changes with it.
pub(super) fn fill(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Constant(constant) = lowering.operand(call, 0)? else {
        return Err(refuse("self", "a value that depends on the images", "a constant"));
    };
    let value = lowering.number(call, "value", None)? as f32;
    if let Some(name) = call.tensor_name(0) {
        lowering.fill_window(name, value)?;
    }
    Ok(vec![Value::Constant(constant.map(|_| value))])
}

/// `zero_(self)`, as [`fill`].
pub(super) fn zero(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = ("value".to_owned(), Arg::Float(0.0));
    fill(lowering, &Call { arguments: call.arguments.iter().cloned().chain([value]).collect(), ..call.clone() })
}
