use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Lowering, Value};
use crate::program::schema::Call;

/// `sym_size(input, dim)`: an extent, as it was in the example.
pub(super) fn sym_size(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    if matches!(value, Value::Stored(_) | Value::Int(_)) {
        return Err(refuse("self", "a number", "a tensor"));
    }
    let shape = extents(&value);
    let found = lowering.int(call, "dim", None)?;
    let axis = position(found, shape.len());
    let axis = axis.ok_or_else(|| refuse("dim", found.to_string(), format!("one of {} axes", shape.len())))?;
    Ok(vec![Value::Int(shape[axis] as i64)])
}

/// A check that the exporter wrote down; the example passed it.
pub(super) fn nothing(_: &mut Lowering<'_>, _: &Call) -> Result<Vec<Value>, CallError> {
    Ok(Vec::new())
}

pub(super) fn add(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    compute(lowering, call, i64::checked_add)
}

pub(super) fn sub(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    compute(lowering, call, i64::checked_sub)
}

pub(super) fn mul(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    compute(lowering, call, i64::checked_mul)
}

pub(super) fn floor_divide(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    compute(lowering, call, i64::checked_div_euclid)
}

fn compute(
    lowering: &mut Lowering<'_>,
    call: &Call,
    function: fn(i64, i64) -> Option<i64>,
) -> Result<Vec<Value>, CallError> {
    let (a, b) = (lowering.nth_int(call, 0)?, lowering.nth_int(call, 1)?);
    let result = function(a, b);
    let result = result.ok_or_else(|| CallError::Extents { problem: format!("a number made of {a} and {b}") })?;
    Ok(vec![Value::Int(result)])
}
