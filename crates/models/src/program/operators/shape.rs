use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;

/// More elements than a constant may be spread to.
const MOST_ELEMENTS: usize = 1 << 28;

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
    let found = lowering.ints(call, "dims")?.unwrap_or_default();
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

/// `squeeze(input, dim)`: axes of one position left out.
pub(super) fn squeeze(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let mut shape = extents(&value);
    let rank = shape.len();
    let found = lowering.ints(call, "dim")?.ok_or_else(|| refuse("dim", "absent", "the axes to leave out"))?;
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
    let mut value = lowering.operand(call, 0)?;
    let mut shape = extents(&value);
    let axis = lowering.axis(call, "dim", None, shape.len() + 1)?;
    match &mut value {
        // By hand, so that a batch of one image stays on its axis.
        Value::View(view) => view.axes.insert(axis, Vec::new()),
        _ => {
            shape.insert(axis, 1);
            return to_extents(&value, &shape);
        }
    }
    Ok(vec![value])
}

/// `expand(input, size)`. Over the batch a constant stays as it is: every image has the same.
pub(super) fn expand(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let sizes = lowering.ints(call, "size")?.unwrap_or_default();
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
            if wanted.first() == Some(&lowering.batch) && padded.first() == Some(&1) {
                wanted[0] = 1;
            }
            let count = wanted.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
            if count.is_none_or(|count| count > MOST_ELEMENTS) {
                return Err(bad());
            }
            let places = super::arithmetic::spread(&wanted, &padded).ok_or_else(bad)?;
            let values = places.into_iter().map(|place| constant.tensor.values()[place]).collect();
            let spread = Constant::new(wanted, values).ok_or_else(bad)?;
            let name = constant.name.clone().filter(|_| spread.extents() == padded);
            Ok(vec![Value::Constant(Constant { name, ..spread })])
        }
        _ => Err(bad()),
    }
}

/// Extents in PyTorch's order.
pub(super) fn extents(value: &Value) -> Vec<usize> {
    match value {
        Value::View(view) => view.shape(),
        Value::Constant(constant) => constant.extents().to_vec(),
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

fn to_extents(value: &Value, sizes: &[usize]) -> Result<Vec<Value>, CallError> {
    let reshaped = match value {
        Value::View(view) => view.reshape(sizes).map(Value::View),
        Value::Constant(constant) => {
            let made = Constant::new(sizes.to_vec(), constant.tensor.values().to_vec());
            made.map(|made| Value::Constant(Constant { name: constant.name.clone(), ..made }))
        }
        Value::Stored(_) | Value::Int(_) => None,
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
        Value::Stored(_) | Value::Int(_) => None,
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
    Some(Constant { name: constant.name.clone(), ..permuted })
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
