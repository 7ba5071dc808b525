//! Elements that are taken out of tensors or put into them by number.

use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::text::shown;

/// `Gather(data, indices, axis)`: elements of a constant, one position of an axis, or all elements in order.
pub(super) fn gather(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let data = lowering.operand(call, 0)?;
    let shape = extents(&data);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    let indices = lowering.weight(call, "index")?;
    let found: Option<Vec<usize>> =
        indices.tensor.values().iter().map(|&index| position(index as i64, shape[axis])).collect();
    let found = found.ok_or_else(|| refuse("index", "out of range", format!("some of {}", shape[axis])))?;
    match (&data, &found[..]) {
        (Value::Constant(constant), _) => {
            Ok(vec![Value::Constant(constant.take(lowering.room, axis, &found, indices.extents())?)])
        }
        (_, &[index]) if indices.extents().is_empty() => {
            lowering.pick(call, &data, axis, index).map(|value| vec![value])
        }
        (_, found) if found.iter().copied().eq(0..shape[axis]) => {
            let sizes = [&shape[..axis], indices.extents(), &shape[axis + 1..]].concat();
            super::shape::to_extents(&data, &sizes)
        }
        (_, found) if indices.extents().len() == 1 && found.windows(2).all(|pair| pair[1] == pair[0] + 1) => {
            let first = found.first().copied().unwrap_or(0);
            lowering.part(call, &data, axis, first, found.len()).map(|value| vec![value])
        }
        _ => Err(refuse("index", "several positions", "one position, or some that follow each other")),
    }
}

/// The rows that the last axis of `indices` names among the first axes of `shape`, and how many axes that are.
fn rows(shape: &[usize], indices: &Constant) -> Result<(Vec<usize>, usize), CallError> {
    let bad = |found: String| refuse("indices", found, format!("positions within {shape:?}"));
    let &[.., axes] = indices.extents() else {
        return Err(bad("a single number".to_owned()));
    };
    if axes == 0 || axes > shape.len() {
        return Err(bad(format!("positions on {axes} axes")));
    }
    let row = |index: &[f32]| {
        let mut places = index.iter().zip(shape).map(|(&index, &size)| Some((position(index as i64, size)?, size)));
        places.try_fold(0usize, |row, place| place.map(|(at, size)| row * size + at))
    };
    let found: Option<Vec<usize>> = indices.tensor.values().chunks(axes).map(row).collect();
    found.map(|found| (found, axes)).ok_or_else(|| bad("out of range".to_owned()))
}

/// `GatherND(data, indices)` of constants.
pub(super) fn gather_nd(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Constant(data) = lowering.operand(call, 0)? else {
        return Err(refuse("data", "a value that depends on the images", "a constant"));
    };
    if lowering.int(call, "batch_dims", Some(0))? != 0 {
        return Err(refuse("batch_dims", "not 0", "0"));
    }
    let indices = lowering.weight(call, "indices")?;
    let (found, axes) = rows(data.extents(), &indices)?;
    let (shape, outer) = (data.extents()[axes..].to_vec(), &indices.extents()[..indices.extents().len() - 1]);
    let count: usize = data.extents()[..axes].iter().product();
    let flat = Constant::of([&[count], &shape[..]].concat(), data.tensor.values().to_vec(), data.integer)?;
    Ok(vec![Value::Constant(flat.take(lowering.room, 0, &found, outer)?)])
}

/// `ScatterND(data, indices, updates)` of constants, or of all rows of any value.
pub(super) fn scatter_nd(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let reduction = call.text("reduction", "none")?;
    if reduction != "none" {
        return Err(refuse("reduction", shown(reduction), "none"));
    }
    let (data, updates) = (lowering.operand(call, 0)?, lowering.operand(call, 2)?);
    let shape = extents(&data);
    let indices = lowering.weight(call, "indices")?;
    let (found, axes) = rows(&shape, &indices)?;
    let expected = [&indices.extents()[..indices.extents().len() - 1], &shape[axes..]].concat();
    if extents(&updates) != expected {
        return Err(refuse("updates", format!("of extents {:?}", extents(&updates)), format!("extents {expected:?}")));
    }
    let all: usize = shape[..axes].iter().product();
    if found.iter().copied().eq(0..all) && expected == shape {
        return Ok(vec![updates]);
    }
    let (Value::Constant(data), Value::Constant(updates)) = (data, updates) else {
        return Err(refuse("updates", "of some rows of a value that depends on the images", "all rows, or constants"));
    };
    let len: usize = shape[axes..].iter().product();
    let mut values = data.tensor.values().to_vec();
    for (row, update) in found.into_iter().zip(updates.tensor.values().chunks(len.max(1))) {
        values[row * len..(row + 1) * len].copy_from_slice(update);
    }
    Ok(vec![Value::Constant(Constant::of(shape, values, data.integer)?)])
}

/// `index(self, indices)` of a constant: positions along some of its axes, which must follow each other.
pub(super) fn index(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Constant(constant) = lowering.operand(call, 0)? else {
        return Err(refuse("self", "a value that depends on the images", "a constant"));
    };
    let Some(Arg::Tensors(names)) = call.argument("indices") else {
        return Err(refuse("indices", "something else", "a list of tensors"));
    };
    let mut given = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
    let (Some((axis, name)), None) = (given.next(), given.next()) else {
        return Err(refuse("indices", format!("{} axes", names.len()), "positions along one axis"));
    };
    let (Value::Constant(positions), Some(&size)) = (lowering.value(name)?, constant.extents().get(axis)) else {
        return Err(refuse("indices", format!("along axis {axis}"), "known positions along an axis of the constant"));
    };
    let found: Option<Vec<usize>> =
        positions.tensor.values().iter().map(|&index| position(index as i64, size)).collect();
    let found = found.ok_or_else(|| refuse("indices", "out of range", format!("some of {size}")))?;
    Ok(vec![Value::Constant(constant.take(lowering.room, axis, &found, positions.extents())?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(extents: &[usize], values: &[f32]) -> Constant {
        Constant::of(extents.to_vec(), values.to_vec(), false).unwrap()
    }

    #[test]
    fn rows_are_named_by_positions_on_the_first_axes() {
        let positions = constant(&[2, 2], &[0.0, 2.0, 1.0, -1.0]);
        assert_eq!(rows(&[2, 3, 4], &positions).unwrap(), (vec![2, 5], 2));
        assert!(rows(&[2, 2], &positions).is_err());
        assert!(rows(&[2], &positions).is_err());
        assert!(rows(&[2], &constant(&[], &[0.0])).is_err());
    }
}
