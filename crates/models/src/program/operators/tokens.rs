use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::program::view::{Dim, Piece, View};
use flipcast_graph::Dims;

/// Elements of a constant whose parts may be changed in place.
const LARGEST_WHOLE: usize = 1 << 20;

/// `cat(tensors, dim)`: channels behind channels, or learned tokens in front of the others.
pub(super) fn cat(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Some(Arg::Tensors(names)) = call.nth(0) else {
        return Err(refuse("tensors", "something else", "a list of tensors"));
    };
    let values: Vec<Value> = names.iter().map(|name| lowering.value(name)).collect::<Result<_, _>>()?;
    let rank = values.first().map_or(0, |value| extents(value).len());
    let axis = lowering.axis(call, "dim", Some(0), rank)?;
    if values.iter().all(|value| matches!(value, Value::Constant(_))) {
        let constants = values.into_iter().filter_map(|value| match value {
            Value::Constant(constant) => Some(constant),
            _ => None,
        });
        let joined = super::constants::concatenate(lowering.room, &constants.collect::<Vec<_>>(), axis)?;
        return Ok(vec![Value::Constant(joined)]);
    }
    if let [Value::View(behind), Value::View(front)] = &values[..]
        && let Some(rolled) = lowering.rolled(behind, front, axis)
    {
        return Ok(vec![Value::View(rolled)]);
    }
    let mut learned = Vec::new();
    let mut views = Vec::new();
    for value in values {
        match value {
            Value::Constant(constant) if views.is_empty() => learned.push(constant),
            Value::View(view) if view.axes.len() == rank => views.push(lowering.whole_view(call, view)?),
            _ => return Err(refuse("tensors", "a constant behind others", "constants in front")),
        }
    }
    match (&learned[..], &views[..]) {
        ([], [_, ..]) => lowering.join_channels(call, &views, axis),
        ([_, ..], [view]) => lowering.prepend(call, view, &learned, axis),
        _ => Err(refuse("tensors", "constants with several values", "one value that depends on the images")),
    }
}

/// `select(input, dim, index)`.
pub(super) fn select(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", None, shape.len())?;
    let found = lowering.int(call, "index", None)?;
    let index = position(found, shape[axis])
        .ok_or_else(|| refuse("index", found.to_string(), format!("one of {}", shape[axis])))?;
    lowering.pick(call, &value, axis, index).map(|value| vec![value])
}

/// `unbind(input, dim)`: every position of an axis.
pub(super) fn unbind(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    (0..shape[axis]).map(|index| lowering.pick(call, &value, axis, index)).collect()
}

/// `slice(input, dim, start, end, step)`.
pub(super) fn slice(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    let step = lowering.int(call, "step", Some(1))?;
    let bound = |found: i64| {
        let size = shape[axis] as i64;
        (if found < 0 { found.saturating_add(size) } else { found }).clamp(0, size) as usize
    };
    let start = bound(lowering.int(call, "start", Some(0))?);
    let end = bound(lowering.int(call, "end", Some(i64::MAX))?);
    if step != 1 {
        let step = usize::try_from(step).ok().filter(|_| end == shape[axis]);
        let strided = match (&value, step) {
            (Value::View(view), Some(step)) => view.every(axis, lowering.dims(view.node), start, step),
            _ => None,
        };
        let expected = "1, or every so many of all rows or columns";
        return strided
            .map(|view| vec![Value::View(view)])
            .ok_or_else(|| refuse("step", format!("{step:?}"), expected));
    }
    let count = end.saturating_sub(start);
    if let (Value::Constant(constant), Some(name), [result]) = (&value, call.tensor_name(0), &call.results[..])
        && constant.tensor.values().len() <= LARGEST_WHOLE
    {
        lowering.note_window(name, result, constant, axis, start..start + count)?;
    }
    lowering.part(call, &value, axis, start, count).map(|value| vec![value])
}

/// `Slice(data, starts, ends, axes, steps)`.
pub(super) fn onnx_slice(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let mut value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let starts = lowering.ints(call, "starts")?.unwrap_or_default();
    let ends = lowering.ints(call, "ends")?.unwrap_or_default();
    let axes = lowering.ints(call, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = lowering.ints(call, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    let bad = || refuse("starts", format!("{starts:?} to {ends:?}"), format!("ranges of {shape:?}"));
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(bad());
    }
    for (((&start, &end), &axis), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let axis = position(axis, shape.len()).ok_or_else(bad)?;
        let size = extents(&value)[axis] as i64;
        let from_front = |found: i64| if found < 0 { found.saturating_add(size) } else { found };
        value = match &value {
            Value::Constant(constant) if step != 0 => {
                // Backwards, the end lies before the first position.
                let [low, high] = if step > 0 { [0, size] } else { [-1, size - 1] };
                let end = if step < 0 && end < -size { -1 } else { from_front(end).clamp(low, high) };
                let start = from_front(start).clamp(low, high);
                let count = ((end - start) as f64 / step as f64).ceil().max(0.0) as usize;
                let positions = (0..count as i64).map(|i| start + i * step);
                let indices: Vec<usize> = positions.filter_map(|at| usize::try_from(at).ok()).collect();
                Value::Constant(constant.take(lowering.room, axis, &indices, &[indices.len()])?)
            }
            _ if step == 1 => {
                let (start, end) = (from_front(start).clamp(0, size), from_front(end).clamp(0, size));
                lowering.part(call, &value, axis, start as usize, usize::try_from(end - start).unwrap_or(0))?
            }
            Value::View(view) => {
                let whole = usize::try_from(step).ok().zip(usize::try_from(start).ok());
                let strided = whole
                    .filter(|_| from_front(end) >= size)
                    .and_then(|(step, first)| view.every(axis, lowering.dims(view.node), first, step));
                let expected = "1, or every so many of all rows or columns";
                Value::View(strided.ok_or_else(|| refuse("steps", step.to_string(), expected))?)
            }
            _ => return Err(refuse("steps", step.to_string(), "1")),
        };
    }
    Ok(vec![value])
}

/// `Split(input, split, axis, num_outputs)`.
pub(super) fn onnx_split(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if call.argument("split_sizes").is_some() {
        return split(lowering, call);
    }
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    let parts = call.results.len().max(1);
    lowering.parts_of(call, &value, axis, shape[axis].div_ceil(parts))
}

/// `SplitToSequence(input, split, axis)`: one number is the size of every part, as its results are what `SequenceAt` takes out.
pub(super) fn split_to_sequence(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Some(sizes) = lowering.ints(call, "split_sizes")? else {
        return Err(refuse("split", "absent", "the sizes of the parts"));
    };
    let &[size] = &sizes[..] else {
        return split(lowering, call);
    };
    let value = lowering.operand(call, 0)?;
    let axis = lowering.axis(call, "dim", Some(0), extents(&value).len())?;
    lowering.parts_of(call, &value, axis, usize::try_from(size).unwrap_or(0))
}

/// `SequenceAt(sequence, position)`, where it is not known which part of what it is.
pub(super) fn sequence_at(_: &mut Lowering<'_>, _: &Call) -> Result<Vec<Value>, CallError> {
    Err(refuse("sequence", "not known", "one of `SplitToSequence`, and a position that is a constant"))
}

/// `chunk(input, chunks, dim)`.
pub(super) fn chunk(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    let chunks = lowering.int(call, "chunks", None)?;
    let chunks = usize::try_from(chunks).ok().filter(|&chunks| (1..=shape[axis].max(1)).contains(&chunks));
    let chunks = chunks.ok_or_else(|| refuse("chunks", "out of range", format!("1 to {}", shape[axis])))?;
    lowering.parts_of(call, &value, axis, shape[axis].div_ceil(chunks))
}

/// `split(input, split_size, dim)` and `split_with_sizes(input, split_sizes, dim)`.
pub(super) fn split(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let value = lowering.operand(call, 0)?;
    let shape = extents(&value);
    let axis = lowering.axis(call, "dim", Some(0), shape.len())?;
    if call.argument("split_size").is_some() {
        let size = usize::try_from(lowering.int(call, "split_size", None)?).unwrap_or(0);
        return lowering.parts_of(call, &value, axis, size);
    }
    let sizes = lowering.ints(call, "split_sizes")?.unwrap_or_default();
    let mut start = 0usize;
    let mut parts = Vec::new();
    for &size in &sizes {
        let size = usize::try_from(size).ok().filter(|&size| size <= shape[axis]);
        let size =
            size.ok_or_else(|| refuse("split_sizes", format!("{sizes:?}"), format!("parts of {}", shape[axis])))?;
        parts.push(lowering.part(call, &value, axis, start, size)?);
        start += size;
    }
    Ok(parts)
}

impl Lowering<'_> {
    fn parts_of(&mut self, call: &Call, value: &Value, axis: usize, size: usize) -> Result<Vec<Value>, CallError> {
        let all = extents(value)[axis];
        if size == 0 {
            return Err(refuse("split_size", "0", "at least 1"));
        }
        // Parts that nobody reads are left out.
        let starts = (0..all).step_by(size).take(call.results.len());
        starts.map(|start| self.part(call, value, axis, start, size.min(all - start))).collect()
    }

    /// One position of an axis, which is left out.
    pub(super) fn pick(&mut self, call: &Call, value: &Value, axis: usize, index: usize) -> Result<Value, CallError> {
        Ok(match self.part(call, value, axis, index, 1)? {
            Value::View(view) if view.axes[axis].iter().any(|piece| matches!(piece.dim, Dim::Row | Dim::Column)) => {
                return Err(self.layout(&view, "all pixels or some channels on the axis that is cut"));
            }
            Value::View(mut view) => {
                view.axes.remove(axis);
                Value::View(view)
            }
            Value::Constant(constant) => {
                let mut extents = constant.extents().to_vec();
                extents.remove(axis);
                let picked = Constant::new(extents, constant.tensor.values().to_vec());
                let picked = picked.expect("an axis of one position holds no values of its own");
                Value::Constant(Constant { integer: constant.integer, ..picked })
            }
            other => other,
        })
    }

    /// Some consecutive positions of an axis.
    pub(super) fn part(
        &mut self,
        call: &Call,
        value: &Value,
        axis: usize,
        first: usize,
        count: usize,
    ) -> Result<Value, CallError> {
        let size = extents(value)[axis];
        if count == 0 || first.checked_add(count).is_none_or(|end| end > size) {
            return Err(CallError::Extents { problem: format!("{count} positions from {first} on of {size}") });
        }
        if count == size {
            return Ok(value.clone());
        }
        match value {
            Value::View(view) if view.axes[axis].len() > 1 && view.has_channels_on(axis) => {
                let view = self.channels_on(call, view.clone(), axis)?;
                self.part(call, &Value::View(view), axis, first, count)
            }
            Value::View(view) => {
                match view.slice_channels(axis, first, count).or_else(|| self.band(view, axis, first, count)) {
                    Some(part) => Ok(Value::View(part)),
                    None => self.token_range(call, view, axis, first, count).map(Value::View),
                }
            }
            Value::Constant(constant) => {
                let indices: Vec<usize> = (first..first + count).collect();
                Ok(Value::Constant(constant.take(self.room, axis, &indices, &[count])?))
            }
            Value::Stored(_) | Value::Int(_) | Value::Scores(_) | Value::Lengths(_) => {
                Err(refuse("input", "no tensor that can be cut", "a tensor"))
            }
        }
    }

    /// Some rows or columns of a map. [`Lowering::whole_view`] cuts off those in front where it is needed, and [`cat`] puts the two
    /// parts of a map that was rolled together again.
    fn band(&self, view: &View, axis: usize, first: usize, count: usize) -> Option<View> {
        let &[Piece { dim: dim @ (Dim::Row | Dim::Column), size, stride: 1 }] = &view.axes[axis][..] else {
            return None;
        };
        let dims = self.dims(view.node);
        let (direction, all) = if dim == Dim::Row { (0, dims.height) } else { (1, dims.width) };
        // A column of tokens is no map.
        let fits = dims.width > 1 && dims.height > 1 && view.padding == [0; 4] && size == all;
        let mut band = view.clone();
        band.axes[axis] = vec![Piece { dim, size: count, stride: 1 }];
        band.first_pixel[direction] = first;
        (fits && view.first_pixel[direction] == 0).then_some(band)
    }

    /// The map that two parts of it make up, those behind in front, as `roll` gives it.
    fn rolled(&self, behind: &View, front: &View, axis: usize) -> Option<View> {
        let ([back], [begin]) = (&behind.axes.get(axis)?[..], &front.axes.get(axis)?[..]) else {
            return None;
        };
        let direction = match back.dim {
            Dim::Row => 0,
            Dim::Column => 1,
            Dim::Batch | Dim::Channel => return None,
        };
        let dims = self.dims(behind.node);
        let side = [dims.height, dims.width][direction];
        let mut rolled = behind.clone();
        rolled.axes[axis] = vec![Piece { size: side, ..*back }];
        rolled.first_pixel[direction] = 0;
        rolled.turn[direction] = (behind.turn[direction] + begin.size) % side;
        let mut expected = behind.clone();
        expected.axes[axis] = vec![Piece { size: begin.size, ..*back }];
        expected.first_pixel[direction] = 0;
        let fits = back.stride == 1
            && behind.first_pixel[direction] == begin.size
            && begin.size + back.size == side
            && *front == expected;
        fits.then_some(rolled)
    }

    fn token_range(
        &mut self,
        call: &Call,
        view: &View,
        axis: usize,
        first: usize,
        count: usize,
    ) -> Result<View, CallError> {
        let view = self.whole_view(call, view.clone())?;
        let dims = self.dims(view.node);
        if !view.is_pixels(axis, dims) || view.turn != [0; 2] {
            return Err(self.layout(&view, "all pixels or some channels on the axis that is cut"));
        }
        let name = self.name(call, None);
        let node = match first + count == dims.pixels() {
            true => self.builder.drop_tokens(&name, view.node, first),
            false => self.builder.token_range(&name, view.node, first, count),
        };
        self.as_column(view, node, axis, count)
    }

    /// `view`, whose pixels on `axis` have become one column of `count` tokens.
    fn as_column(
        &mut self,
        view: View,
        node: flipcast_graph::NodeId,
        axis: usize,
        count: usize,
    ) -> Result<View, CallError> {
        let dims = Dims::new(count, 1, self.dims(view.node).channels);
        let node = self.note(node, dims)?;
        let mut column = view.of(node);
        column.axes[axis] = if count == 1 { Vec::new() } else { vec![Piece { dim: Dim::Row, size: count, stride: 1 }] };
        Ok(column)
    }

    /// Learned tokens, the same for every image, in front of those of `view`.
    fn prepend(
        &mut self,
        call: &Call,
        view: &View,
        learned: &[Constant],
        axis: usize,
    ) -> Result<Vec<Value>, CallError> {
        let dims = self.dims(view.node);
        let fits = |constant: &Constant| matches!(*constant.extents(), [1, count, channels] if count > 0 && channels == dims.channels);
        let tokens = axis == 1
            && view.turn == [0; 2]
            && view.axes.len() == 3
            && view.is_pixels(1, dims)
            && view.is_channels(2, dims);
        if !tokens || !learned.iter().all(fits) {
            return Err(
                self.layout(view, "batch, all pixels, channels, behind tokens that are the same for every image")
            );
        }
        let count = learned.iter().map(|constant| constant.extents()[1]).sum::<usize>();
        let values: Vec<f32> = learned.iter().flat_map(|constant| constant.tensor.values()).copied().collect();
        let joined = Constant::new(vec![1, count, dims.channels], values);
        let joined = joined.ok_or_else(|| CallError::Extents { problem: format!("{count} tokens of {dims}") })?;
        let name = self.name(call, learned[0].name.as_deref());
        self.keep(name.clone(), &[1, count, dims.channels], &joined)?;
        let node = self.builder.prepend_tokens(&name, view.node, count);
        let column = self.as_column(view.clone(), node, axis, dims.pixels() + count)?;
        Ok(vec![Value::View(column)])
    }
}
