//! Constants made of other constants: what exporters compute of shapes and tables before any image is known.

use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::room::Room;
use crate::program::schema::{Arg, Call, Int};
use crate::text::shown;

/// More products than a matrix is made of when a file is read.
const MOST_PRODUCTS: usize = 1 << 26;

impl Constant {
    /// A constant of `extents`, one value for each element.
    pub fn of(extents: Vec<usize>, values: Vec<f32>, integer: bool) -> Result<Self, CallError> {
        let problem = format!("{} values for extents {extents:?}", values.len());
        let constant = Self::new(extents, values).ok_or(CallError::Extents { problem })?;
        Ok(Self { integer, ..constant })
    }

    pub fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        let values = self.tensor.values().iter().map(|&value| function(value)).collect();
        let made = Self::new(self.extents().to_vec(), values).expect("as many values as before");
        Self { integer: self.integer, ..made }
    }

    /// The elements at `indices` along `axis`, which are then on axes of extents `shape`.
    pub fn take(&self, room: Room, axis: usize, indices: &[usize], shape: &[usize]) -> Result<Self, CallError> {
        let inner: usize = self.extents()[axis + 1..].iter().product();
        let size = self.extents()[axis];
        let made = [&self.extents()[..axis], shape, &self.extents()[axis + 1..]].concat();
        room.count(&made)?;
        let rows = self.tensor.values().chunks((size * inner).max(1));
        let values = rows.flat_map(|row| indices.iter().flat_map(move |&at| &row[at * inner..(at + 1) * inner]));
        Self::of(made, values.copied().collect(), self.integer)
    }

    /// Means over the axes `over`, all of them if there are none, which then have one position or are left out.
    pub fn mean(&self, over: &[usize], keep: bool) -> Result<Self, CallError> {
        let is_over = |axis: usize| over.is_empty() || over.contains(&axis);
        let all: Vec<(usize, &usize)> = self.extents().iter().enumerate().collect();
        let kept: Vec<usize> = all.iter().map(|&(axis, &size)| if is_over(axis) { 1 } else { size }).collect();
        let places = spread(self.extents(), &kept).expect("every extent is 1 or as it was");
        let mut sums = vec![0.0f64; kept.iter().product()];
        for (place, &value) in places.into_iter().zip(self.tensor.values()) {
            sums[place as usize] += f64::from(value);
        }
        let count = (self.tensor.values().len() / sums.len().max(1)).max(1) as f64;
        let shape = match keep {
            true => kept,
            false => all.iter().filter(|(axis, _)| !is_over(*axis)).map(|&(_, &size)| size).collect(),
        };
        Self::of(shape, sums.into_iter().map(|sum| (sum / count) as f32).collect(), false)
    }

    /// One value, whichever number of axes it has.
    pub fn single(&self) -> Option<f32> {
        match self.tensor.values() {
            [value] => Some(*value),
            _ => None,
        }
    }
}

/// Extents that both can be spread to.
fn common(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |extents: &[usize], axis: usize| (axis + extents.len()).checked_sub(rank).map_or(1, |at| extents[at]);
    let both = |axis| match (at(a, axis), at(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(both).collect()
}

/// For every element of a tensor of extents `large`, the element of one of extents `small` that meets it.
fn spread(large: &[usize], small: &[usize]) -> Option<Vec<u32>> {
    let skipped = large.len().checked_sub(small.len())?;
    let mut places = vec![0u32];
    for (axis, &size) in large.iter().enumerate() {
        let extent = if axis < skipped { 1 } else { small[axis - skipped] };
        if extent != 1 && extent != size {
            return None;
        }
        let (size, extent, step) = (size as u32, extent as u32, u32::from(extent != 1));
        places = places.iter().flat_map(|&place| (0..size).map(move |i| place * extent + i * step)).collect();
    }
    Some(places)
}

/// A function of two constants, one of which may be spread over the other.
pub(super) fn combine(
    room: Room,
    a: &Constant,
    b: &Constant,
    function: impl Fn(f32, f32) -> f32,
) -> Result<Constant, CallError> {
    let problem = || format!("{:?} and {:?}", a.extents(), b.extents());
    let unfit = || CallError::Extents { problem: problem() };
    let extents = common(a.extents(), b.extents()).ok_or_else(unfit)?;
    room.count(&extents)?;
    let places = |part: &Constant| spread(&extents, part.extents()).ok_or_else(unfit);
    let pairs = places(a)?.into_iter().zip(places(b)?);
    let values = pairs.map(|(i, j)| function(a.tensor.values()[i as usize], b.tensor.values()[j as usize])).collect();
    Constant::of(extents, values, a.integer && b.integer)
}

/// `constant` spread to `wanted`.
pub(super) fn expand(room: Room, constant: &Constant, wanted: &[usize]) -> Result<Constant, CallError> {
    if constant.extents() == wanted {
        return Ok(constant.clone());
    }
    room.count(wanted)?;
    let problem = || format!("{:?} spread to {wanted:?}", constant.extents());
    let places = spread(wanted, constant.extents()).ok_or_else(|| CallError::Extents { problem: problem() })?;
    let values = places.into_iter().map(|place| constant.tensor.values()[place as usize]).collect();
    Constant::of(wanted.to_vec(), values, constant.integer)
}

/// Constants behind each other along `axis`.
pub(super) fn concatenate(room: Room, parts: &[Constant], axis: usize) -> Result<Constant, CallError> {
    let problem = || format!("{:?} behind each other", parts.iter().map(Constant::extents).collect::<Vec<_>>());
    let unfit = || CallError::Extents { problem: problem() };
    let first = parts.first().ok_or_else(unfit)?;
    let others = |part: &Constant| {
        let mut extents = part.extents().to_vec();
        extents[axis] = 0;
        extents
    };
    let rank = first.extents().len();
    if axis >= rank || parts.iter().any(|part| part.extents().len() != rank || others(part) != others(first)) {
        return Err(unfit());
    }
    let mut extents = first.extents().to_vec();
    extents[axis] = parts.iter().map(|part| part.extents()[axis]).sum();
    room.count(&extents)?;
    let outer: usize = extents[..axis].iter().product();
    let mut values = Vec::with_capacity(extents.iter().product());
    for row in 0..outer {
        for part in parts {
            let len: usize = part.extents()[axis..].iter().product();
            values.extend(&part.tensor.values()[row * len..(row + 1) * len]);
        }
    }
    Constant::of(extents, values, parts.iter().all(|part| part.integer))
}

/// `a` times `b`, matrices in the last two axes of `a`.
pub(super) fn product(room: Room, a: &Constant, b: &Constant) -> Result<Constant, CallError> {
    let problem = || format!("{:?} times {:?}", a.extents(), b.extents());
    let (&[ref outer @ .., rows, inner], &[found, columns]) = (a.extents(), b.extents()) else {
        return Err(CallError::Extents { problem: problem() });
    };
    if inner != found {
        return Err(CallError::Extents { problem: problem() });
    }
    let extents = [outer, &[rows, columns]].concat();
    let all = room.count(&extents)?;
    if all.checked_mul(inner).is_none_or(|work| work > MOST_PRODUCTS) {
        return Err(CallError::Extents { problem: problem() });
    }
    let (a, b) = (a.tensor.values(), b.tensor.values());
    let element = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let terms = (0..inner).map(|i| f64::from(a[row * inner + i]) * f64::from(b[i * columns + column]));
        terms.sum::<f64>() as f32
    };
    Constant::of(extents, (0..all).map(element).collect(), false)
}

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

/// `new_zeros(self, size)` and `zeros(size)`.
pub(super) fn zeros(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let sizes = lowering.ints(call, "size")?.unwrap_or_default();
    let extents: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
    let extents = extents.ok_or_else(|| refuse("size", format!("{sizes:?}"), "numbers that are not negative"))?;
    let len = lowering.room.count(&extents)?;
    Ok(vec![Value::Constant(Constant::of(extents, vec![0.0; len], false)?)])
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

    fn room() -> Room {
        Room::of_file(0)
    }

    fn constant(extents: &[usize], values: &[f32]) -> Constant {
        Constant::of(extents.to_vec(), values.to_vec(), false).unwrap()
    }

    #[test]
    fn a_small_tensor_meets_the_elements_of_its_axes() {
        assert_eq!(spread(&[2, 3], &[3]), Some(vec![0, 1, 2, 0, 1, 2]));
        assert_eq!(spread(&[2, 3], &[2, 1]), Some(vec![0, 0, 0, 1, 1, 1]));
        assert_eq!(spread(&[2, 3], &[]), Some(vec![0; 6]));
        assert_eq!(spread(&[2, 3], &[2]), None);
    }

    #[test]
    fn means_are_taken_over_some_axes_or_all() {
        let table = constant(&[2, 3], &[1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
        let mean = |over: &[usize], keep| {
            let mean = table.mean(over, keep).unwrap();
            (mean.extents().to_vec(), mean.tensor.values().to_vec())
        };
        assert_eq!(mean(&[1], true), (vec![2, 1], vec![2.0, 7.0]));
        assert_eq!(mean(&[0], false), (vec![3], vec![3.0, 4.5, 6.0]));
        assert_eq!(mean(&[], false), (vec![], vec![4.5]));
    }

    #[test]
    fn rows_are_named_by_positions_on_the_first_axes() {
        let positions = constant(&[2, 2], &[0.0, 2.0, 1.0, -1.0]);
        assert_eq!(rows(&[2, 3, 4], &positions).unwrap(), (vec![2, 5], 2));
        assert!(rows(&[2, 2], &positions).is_err());
        assert!(rows(&[2], &positions).is_err());
        assert!(rows(&[2], &constant(&[], &[0.0])).is_err());
    }

    #[test]
    fn both_constants_may_be_spread() {
        let sum = combine(room(), &constant(&[2, 1], &[10.0, 20.0]), &constant(&[3], &[1.0, 2.0, 3.0]), |a, b| a + b)
            .unwrap();
        assert_eq!(sum.extents(), [2, 3]);
        assert_eq!(sum.tensor.values(), [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
        assert!(combine(room(), &constant(&[2], &[0.0; 2]), &constant(&[3], &[0.0; 3]), |a, _| a).is_err());
    }

    #[test]
    fn constants_are_joined_along_an_axis() {
        let joined =
            concatenate(room(), &[constant(&[2, 1], &[1.0, 2.0]), constant(&[2, 2], &[3.0, 4.0, 5.0, 6.0])], 1)
                .unwrap();
        assert_eq!(joined.tensor.values(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    }

    #[test]
    fn matrices_are_multiplied() {
        let made = product(room(), &constant(&[1, 2], &[1.0, 2.0]), &constant(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(made.tensor.values(), [7.0, 10.0]);
        assert!(product(room(), &constant(&[1, 2], &[1.0, 2.0]), &constant(&[1, 2], &[1.0, 2.0])).is_err());
    }

    #[test]
    fn rows_are_taken_by_number() {
        let taken = constant(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).take(room(), 0, &[2, 0], &[2]).unwrap();
        assert_eq!(taken.tensor.values(), [4.0, 5.0, 0.0, 1.0]);
    }
}
