//! Lengths of vectors, what is divided by them, and other quotients of values.

use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, View, extent};
use flipcast_graph::{Activation, Conv2d, Dims};

/// The largest bound below lengths that divides nothing otherwise than no bound: vectors of zeros stay zeros.
const LARGEST_FLOOR: f64 = 1e-6;

/// `linalg_vector_norm(self, ord, dim, keepdim)`: over all pixels, or over channels on the last axis, which is then to be divided
/// by.
pub(super) fn vector_norm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let order = call.float("ord", Some(2.0))?;
    if order != 2.0 {
        return Err(refuse("ord", order.to_string(), "2"));
    }
    let view = lowering.view(call, 0)?;
    let rank = view.axes.len();
    let found = lowering.ints(call, "dim")?.unwrap_or_default();
    let over: Option<Vec<usize>> = found.iter().map(|&axis| position(axis, rank)).collect();
    let over = over.ok_or_else(|| refuse("dim", format!("{found:?}"), format!("some of {rank} axes")))?;
    let keep = call.bool("keepdim", call.onnx.is_some())?;
    if over == [rank.saturating_sub(1)] && keep && view.axes[rank - 1].iter().all(|piece| piece.dim == Dim::Channel) {
        return Ok(vec![Value::Lengths(Box::new(view))]);
    }
    let view = lowering.whole_view(call, view)?;
    let pixels = lowering.dims(view.node).pixels() as f32;
    let squares = lowering.product(call, &view, &view)?;
    let Some(mean) = lowering.mean_of_pixels(call, &squares, &over, keep)? else {
        return Err(lowering.layout(&view, "a length over all pixels, or over the last axis"));
    };
    lowering.bind_to_size(call);
    let sum = lowering.settle(call, View { factor: mean.factor * pixels, ..mean })?;
    let inverse = lowering.activated(call, sum.clone(), Activation::InverseSqrt)?;
    Ok(vec![Value::View(lowering.product(call, &sum, &inverse)?)])
}

/// `clamp_min(self, min)`: of lengths, which no bound near 0 changes, or of constants.
pub(super) fn clamp_min(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let least = lowering.number(call, "min", None)?;
    match lowering.operand(call, 0)? {
        Value::Constant(constant) => Ok(vec![Value::Constant(constant.map(|value| value.max(least as f32)))]),
        lengths @ Value::Lengths(_) if (0.0..=LARGEST_FLOOR).contains(&least) => Ok(vec![lengths]),
        _ => Err(refuse("min", least.to_string(), "a bound below lengths, near 0")),
    }
}

/// `expand_as(self, other)` of lengths to the vectors that they are of, or of what has these extents already.
pub(super) fn expand_as(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let (value, other) = (lowering.operand(call, 0)?, lowering.operand(call, 1)?);
    match (&value, &other) {
        (Value::Lengths(vectors), Value::View(view)) if **vectors == *view => Ok(vec![value]),
        (Value::Constant(constant), other) => {
            Ok(vec![Value::Constant(super::constants::expand(lowering.room, constant, &extents(other))?)])
        }
        (value, other) if extents(value) == extents(other) => Ok(vec![value.clone()]),
        _ => Err(refuse("other", "of other extents", "the vectors whose lengths were taken")),
    }
}

/// `addcmul(self, tensor1, tensor2)`: a constant, and the product of a constant and a value.
pub(super) fn addcmul(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let factor = call.float("value", Some(1.0))?;
    if factor != 1.0 {
        return Err(refuse("value", factor.to_string(), "1"));
    }
    let operands = (lowering.operand(call, 0)?, lowering.operand(call, 1)?, lowering.operand(call, 2)?);
    match operands {
        (Value::Constant(added), Value::Constant(factor), Value::View(view))
        | (Value::Constant(added), Value::View(view), Value::Constant(factor)) => {
            let Some(Value::View(scaled)) = lowering.scale(call, view, factor)?.pop() else {
                return Err(refuse("tensor1", "no value", "a constant and a value"));
            };
            lowering.add_constant(call, scaled, added)
        }
        _ => Err(refuse("self", "a value that depends on the images", "a constant, with one more and a value")),
    }
}

impl Lowering<'_> {
    /// The product of two values of the same arrangement.
    pub(super) fn product(&mut self, call: &Call, a: &View, b: &View) -> Result<View, CallError> {
        match self.multiply_views(call, a.clone(), b.clone())?.pop() {
            Some(Value::View(view)) => Ok(view),
            _ => Err(refuse("other", "no value", "a value that depends on the images")),
        }
    }

    fn activated(&mut self, call: &Call, view: View, activation: Activation) -> Result<View, CallError> {
        match self.activate(call, view, activation)?.pop() {
            Some(Value::View(view)) => Ok(view),
            _ => Err(refuse("input", "no value", "a value that depends on the images")),
        }
    }

    /// `view` with every vector on its last axis divided by its length.
    pub(super) fn unit_vectors(&mut self, call: &Call, view: View) -> Result<Vec<Value>, CallError> {
        let view = self.whole_view(call, view)?;
        let dims = self.dims(view.node);
        let per_vector = view.axes.last().map_or(1, extent);
        let squares = self.product(call, &view, &view)?;
        // Every channel gets the sum over its vector.
        let groups = dims.channels / per_vector.max(1);
        let count = self.room.count(&[dims.channels, per_vector])?;
        let ones = Constant::of(vec![dims.channels, per_vector], vec![1.0; count], false)?;
        let name = self.name(call, Some(&format!("{}.lengths", call.name)));
        self.keep(format!("{name}.weight"), &[dims.channels, per_vector, 1, 1], &ones)?;
        let conv = Conv2d::new(dims.channels, dims.channels, 1).groups(groups);
        let node = self.builder.conv(&name, squares.node, conv);
        let node = self.note(node, dims)?;
        let inverse = self.activated(call, view.of(node), Activation::InverseSqrt)?;
        Ok(vec![Value::View(self.product(call, &view, &inverse)?)])
    }

    /// The mean over all channels, which are on `axis`, of every pixel.
    pub(super) fn mean_of_channels(
        &mut self,
        call: &Call,
        view: View,
        axis: usize,
        keep: bool,
    ) -> Result<View, CallError> {
        let view = self.channels_on(call, view, axis)?;
        let dims = self.dims(view.node);
        let weights = Constant::of(vec![1, dims.channels], vec![1.0 / dims.channels as f32; dims.channels], false)?;
        let name = self.name(call, None);
        self.keep(format!("{name}.weight"), &[1, dims.channels], &weights)?;
        let node = self.builder.linear_without_bias(&name, view.node, dims.channels, 1);
        let node = self.note(node, Dims { channels: 1, ..dims })?;
        let mut mean = view.of(node);
        match keep {
            true => mean.axes[axis].clear(),
            false => drop(mean.axes.remove(axis)),
        }
        Ok(mean)
    }

    /// `a / b`, where `b` has the extents of `a` or one channel for all of its channels.
    pub(super) fn divide_views(&mut self, call: &Call, a: View, b: View) -> Result<Vec<Value>, CallError> {
        let (a, mut b) = (self.whole_view(call, a)?, self.whole_view(call, b)?);
        let (dims, divisor) = (self.dims(a.node), self.dims(b.node));
        let differ = |axis: usize| a.axes[axis] != b.axes[axis];
        let one_channel = a.axes.len() == b.axes.len()
            && divisor == Dims { channels: 1, ..dims }
            && (0..a.axes.len()).filter(|&axis| differ(axis)).all(|axis| a.is_channels(axis, dims));
        if one_channel && dims.channels > 1 {
            let ones = Constant::of(vec![dims.channels], vec![1.0; dims.channels], false)?;
            let name = self.name(call, Some(&format!("{}.spread", call.name)));
            self.keep(format!("{name}.weight"), &[dims.channels, 1], &ones)?;
            let node = self.builder.linear_without_bias(&name, b.node, 1, dims.channels);
            b = a.of(self.note(node, dims)?);
        }
        // 1 / b = b / sqrt(b^2)^2, whatever its sign.
        let squares = self.product(call, &b, &b)?;
        let inverse = self.activated(call, squares, Activation::InverseSqrt)?;
        let inverse = self.product(call, &inverse, &inverse)?;
        let inverse = self.product(call, &inverse, &b)?;
        Ok(vec![Value::View(self.product(call, &a, &inverse)?)])
    }
}
