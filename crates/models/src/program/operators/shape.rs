use super::constants::expand as expand_constant;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, Piece};

/// An operator that changes neither values nor extents.
pub(super) fn same(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    Ok(vec![lowering.operand(call, 0)?])
}

/// `dropout(input, p, train)` of a network that does not train.
pub(super) fn dropout(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if call.bool("train", false)? {
        return Err(CallError::Training);
    }
    same(lowering, call)
}

/// `view(input, size)` and its kin.
pub(super) fn reshape(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let name = if call.argument("shape").is_some() { "shape" } else { "size" };
    let sizes = lowering.ints(call, name)?.unwrap_or_default();
    reshaped(&value, &sizes)
}

/// `Reshape(data, shape, allowzero)`, where 0 stands for the extent as it was.
pub(super) fn onnx_reshape(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let mut sizes = lowering.ints(call, "shape")?.unwrap_or_default();
    if !call.bool("allowzero", false)? {
        let kept = shape.iter().map(|&size| size as i64);
        sizes.iter_mut().zip(kept).filter(|(size, _)| **size == 0).for_each(|(size, kept)| *size = kept);
    }
    reshaped(&value, &sizes)
}

/// `Flatten(input, axis)` to a matrix.
pub(super) fn onnx_flatten(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let found = lowering.int(call, "dim", Some(1))?;
    let axis = position(found, shape.len() + 1).ok_or_else(|| refuse("axis", found.to_string(), "an axis"))?;
    to_extents(&value, &[shape[..axis].iter().product(), shape[axis..].iter().product()])
}

/// `Unsqueeze(data, axes)`: axes of the result.
pub(super) fn onnx_unsqueeze(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let found = lowering.ints(call, "dim")?.unwrap_or_default();
    let rank = extents(&value).len() + found.len();
    let axes: Option<Vec<usize>> = found.iter().map(|&axis| position(axis, rank)).collect();
    let mut axes = axes.ok_or_else(|| refuse("axes", format!("{found:?}"), format!("some of {rank} axes")))?;
    axes.sort_unstable();
    axes.into_iter().try_fold(value, insert_axis).map(|value| vec![value])
}

/// `Expand(input, shape)`: both may be spread.
pub(super) fn onnx_expand(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let sizes = lowering.ints(call, "shape")?.unwrap_or_default();
    let shape = extents(&value);
    let rank = shape.len().max(sizes.len());
    let wanted: Vec<i64> = (0..rank)
        .map(|axis| {
            let asked = (axis + sizes.len()).checked_sub(rank).map_or(1, |at| sizes[at]);
            let there = (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at] as i64);
            if asked == 1 { there } else { asked }
        })
        .collect();
    if let Value::Lengths(vectors) = &value
        && extents(&Value::View((**vectors).clone())).iter().map(|&size| size as i64).eq(wanted.iter().copied())
    {
        return Ok(vec![value]);
    }
    lowering.expanded(value, &wanted)
}

/// `reshape_as(input, other)`.
pub(super) fn reshape_as(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let (value, other) = (lowering.operand(call, 0)?, lowering.operand(call, 1)?);
    let shape = extents(&value);
    let wanted = extents(&other);
    if shape.iter().product::<usize>() != wanted.iter().product::<usize>() {
        return Err(CallError::Extents { problem: format!("{shape:?} reshaped as {wanted:?}") });
    }
    to_extents(&value, &wanted)
}

/// `flatten(input, start_dim, end_dim)`.
pub(super) fn flatten(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let first = lowering.axis(call, "start_dim", Some(0), shape.len())?;
    let last = lowering.axis(call, "end_dim", Some(-1), shape.len())?;
    if last < first {
        return Err(refuse("end_dim", last.to_string(), format!("at least {first}")));
    }
    let mut sizes = shape[..first].to_vec();
    sizes.push(shape[first..=last].iter().product());
    sizes.extend(&shape[last + 1..]);
    to_extents(&value, &sizes)
}

/// `unflatten(input, dim, sizes)`.
pub(super) fn unflatten(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", None, shape.len())?;
    let inner = lowering.ints(call, "sizes")?.unwrap_or_default();
    let outer = |part: &[usize]| part.iter().map(|&size| size as i64).collect::<Vec<_>>();
    let inner =
        fill_in(&inner, shape[axis]).ok_or_else(|| refuse("sizes", format!("{inner:?}"), shape[axis].to_string()))?;
    let sizes = [outer(&shape[..axis]), outer(&inner), outer(&shape[axis + 1..])].concat();
    reshaped(&value, &sizes)
}

/// `permute(input, dims)`.
pub(super) fn permute(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let rank = extents(&value).len();
    let found = match lowering.ints(call, "dims")? {
        None if call.onnx.is_some() => (0..rank as i64).rev().collect(),
        found => found.unwrap_or_default(),
    };
    let order: Option<Vec<usize>> = found.iter().map(|&axis| position(axis, rank)).collect();
    let permuted = order.and_then(|order| permuted(&value, &order));
    permuted
        .map(|value| vec![value])
        .ok_or_else(|| refuse("dims", format!("{found:?}"), format!("each of {rank} axes")))
}

/// `transpose(input, dim0, dim1)`; without axes the two of a matrix.
pub(super) fn transpose(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let rank = extents(&value).len();
    let [first, second] =
        if call.operator.starts_with("aten.swapaxes") { ["axis0", "axis1"] } else { ["dim0", "dim1"] };
    let matrix = (rank == 2 && call.operator.starts_with("aten.t.")).then_some([0, 1]);
    let a = lowering.axis(call, first, matrix.map(|[a, _]| a), rank)?;
    let b = lowering.axis(call, second, matrix.map(|[_, b]| b), rank)?;
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(a, b);
    permuted(&value, &order).map(|value| vec![value]).ok_or_else(|| refuse("dim0", a.to_string(), "an axis"))
}

/// `roll(input, shifts, dims)` of whole rows and columns.
pub(super) fn roll(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let mut view = lowering.view(call, 0)?;
    let dims = lowering.dims(view.node);
    let shifts = lowering.ints(call, "shifts")?.unwrap_or_default();
    let axes = lowering.ints(call, "dims")?.unwrap_or_default();
    let bad = || refuse("shifts", format!("{shifts:?} along {axes:?}"), "whole rows and columns");
    if shifts.len() != axes.len() {
        return Err(bad());
    }
    for (&shift, &axis) in shifts.iter().zip(&axes) {
        let axis = position(axis, view.axes.len()).ok_or_else(bad)?;
        let (direction, side) = match view.axes[axis][..] {
            [Piece { dim: Dim::Row, size, stride: 1 }] if size == dims.height => (0, size),
            [Piece { dim: Dim::Column, size, stride: 1 }] if size == dims.width => (1, size),
            _ => return Err(bad()),
        };
        // Rolling down by one shows the last row first.
        let turned = view.turn[direction] as i64 - shift % side as i64;
        view.turn[direction] = turned.rem_euclid(side as i64) as usize;
    }
    Ok(vec![Value::View(view)])
}

/// `squeeze(input, dim)`: axes of one position left out.
pub(super) fn squeeze(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let mut shape = extents(&value);
    let rank = shape.len();
    let all = || (0..rank as i64).collect();
    let found = match lowering.ints(call, "dim")? {
        None if call.onnx.is_some() => all(),
        found => found.ok_or_else(|| refuse("dim", "absent", "the axes to leave out"))?,
    };
    let axes: Option<Vec<usize>> = found.iter().map(|&axis| position(axis, rank)).collect();
    let axes = axes.ok_or_else(|| refuse("dim", format!("{found:?}"), format!("some of {rank} axes")))?;
    let mut axis = 0;
    shape.retain(|&size| {
        axis += 1;
        !(size == 1 && axes.contains(&(axis - 1)))
    });
    to_extents(&value, &shape)
}

/// `unsqueeze(input, dim)`: an axis of one position put in.
pub(super) fn unsqueeze(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let rank = extents(&value).len();
    let axis = lowering.axis(call, "dim", None, rank + 1)?;
    insert_axis(value, axis).map(|value| vec![value])
}

/// `value` with an axis of one position in place `axis`.
fn insert_axis(mut value: Value, axis: usize) -> Result<Value, CallError> {
    // By hand, so that a batch of one image stays on its axis.
    if let Value::View(view) = &mut value {
        view.axes.insert(axis.min(view.axes.len()), Vec::new());
        return Ok(value);
    }
    let mut shape = extents(&value);
    shape.insert(axis.min(shape.len()), 1);
    to_extents(&value, &shape)?.pop().ok_or_else(|| refuse("input", "nothing", "a tensor"))
}

/// `expand(input, size)`. Over the batch a constant stays as it is: every image has the same.
pub(super) fn expand(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let sizes = lowering.ints(call, "size")?.unwrap_or_default();
    lowering.expanded(value, &sizes)
}

impl Lowering<'_> {
    /// `value` spread to `sizes`, where -1 stands for an extent as it was.
    fn expanded(&mut self, value: Value, sizes: &[i64]) -> Result<Vec<Value>, CallError> {
        let shape = extents(&value);
        let bad = || refuse("size", format!("{sizes:?}"), format!("extents that {shape:?} can be spread to"));
        let added = sizes.len().checked_sub(shape.len()).ok_or_else(bad)?;
        let padded: Vec<usize> = std::iter::repeat_n(1, added).chain(shape.iter().copied()).collect();
        let wanted: Option<Vec<usize>> = (sizes.iter().zip(&padded))
            .map(|(&size, &old)| if size == -1 { Some(old) } else { usize::try_from(size).ok() })
            .collect();
        let mut wanted = wanted.ok_or_else(bad)?;
        match &value {
            _ if wanted == shape => Ok(vec![value]),
            Value::Constant(constant) => {
                // Every image has the same.
                if wanted.len() > 1 && wanted[0] == self.batch && padded[0] == 1 && !constant.integer {
                    wanted[0] = 1;
                }
                let spread = expand_constant(self.room, constant, &wanted)?;
                let name = constant.name.clone().filter(|_| spread.extents() == padded);
                Ok(vec![Value::Constant(Constant { name, ..spread })])
            }
            _ => Err(bad()),
        }
    }
}

/// Extents in PyTorch's order.
pub(super) fn extents(value: &Value) -> Vec<usize> {
    match value {
        Value::View(view) => view.shape(),
        Value::Constant(constant) => constant.extents().to_vec(),
        Value::Scores(scores) => scores.shape(),
        Value::Lengths(vectors) => {
            let mut shape = vectors.shape();
            shape.iter_mut().last().into_iter().for_each(|extent| *extent = 1);
            shape
        }
        Value::Stored(_) | Value::Int(_) => Vec::new(),
    }
}

/// `sizes` for `len` elements, where -1 stands for what is left.
fn fill_in(sizes: &[i64], len: usize) -> Option<Vec<usize>> {
    let known = sizes.iter().filter(|&&size| size != -1);
    let known = known.map(|&size| usize::try_from(size).ok()).try_fold(1usize, |len, size| len.checked_mul(size?))?;
    let left = len.checked_div(known)?;
    let filled: Option<Vec<usize>> =
        sizes.iter().map(|&size| if size == -1 { Some(left) } else { usize::try_from(size).ok() }).collect();
    filled.filter(|filled| filled.iter().try_fold(1usize, |product, &size| product.checked_mul(size)) == Some(len))
}

fn reshaped(value: &Value, sizes: &[i64]) -> Result<Vec<Value>, CallError> {
    let shape = extents(value);
    let sizes = fill_in(sizes, shape.iter().product());
    let sizes = sizes
        .ok_or_else(|| CallError::Extents { problem: format!("{shape:?} reshaped to another number of elements") })?;
    to_extents(value, &sizes)
}

pub(super) fn to_extents(value: &Value, sizes: &[usize]) -> Result<Vec<Value>, CallError> {
    let reshaped = match value {
        Value::View(view) => view.reshape(sizes).map(Value::View),
        Value::Scores(scores) => scores.reshape(sizes).map(|scores| Value::Scores(Box::new(scores))),
        Value::Constant(constant) => {
            let made = Constant::new(sizes.to_vec(), constant.tensor.values().to_vec());
            let integer = constant.integer;
            made.map(|made| Value::Constant(Constant { name: constant.name.clone(), integer, ..made }))
        }
        Value::Stored(_) | Value::Int(_) | Value::Lengths(_) => None,
    };
    reshaped.map(|value| vec![value]).ok_or_else(|| {
        let found = match value {
            Value::View(view) => view.to_string(),
            _ => "no axes".to_owned(),
        };
        CallError::Layout { found, expected: format!("axes that {sizes:?} cuts evenly") }
    })
}

fn permuted(value: &Value, order: &[usize]) -> Option<Value> {
    match value {
        Value::View(view) => view.permute(order).map(Value::View),
        Value::Constant(constant) => permute_constant(constant, order).map(Value::Constant),
        Value::Stored(_) | Value::Int(_) | Value::Scores(_) | Value::Lengths(_) => None,
    }
}

/// A constant with its axes in another order.
pub(super) fn permute_constant(constant: &Constant, order: &[usize]) -> Option<Constant> {
    let extents = constant.extents();
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..extents.len()) {
        return None;
    }
    let stride = |axis: usize| extents[axis + 1..].iter().product::<usize>();
    let mut places = vec![0usize];
    for &axis in order {
        places = places.iter().flat_map(|&place| (0..extents[axis]).map(move |i| place + i * stride(axis))).collect();
    }
    let values = places.into_iter().map(|place| constant.tensor.values()[place]).collect();
    let permuted = Constant::new(order.iter().map(|&axis| extents[axis]).collect(), values)?;
    Some(Constant { name: constant.name.clone(), integer: constant.integer, ..permuted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_filled_in() {
        assert_eq!(fill_in(&[2, -1], 6), Some(vec![2, 3]));
        assert_eq!(fill_in(&[2, 3], 6), Some(vec![2, 3]));
        for sizes in [&[4, -1][..], &[2, 2], &[-1, -1], &[0, -1], &[-2, -3]] {
            assert_eq!(fill_in(sizes, 6), None, "{sizes:?}");
        }
    }

    #[test]
    fn a_matrix_is_transposed() {
        let matrix = Constant::new(vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let transposed = permute_constant(&matrix, &[1, 0]).unwrap();
        assert_eq!(transposed.tensor.values(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(permute_constant(&matrix, &[0, 0]).is_none());
    }
}
