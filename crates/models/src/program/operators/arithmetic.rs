use super::constants::combine;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::room::Room;
use crate::program::schema::{Arg, Call, Int};
use crate::program::view::View;

/// `add(input, other, alpha)`.
pub(super) fn add(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    lowering.expect_alpha(call)?;
    match lowering.operands(call)? {
        (Value::View(a), Value::View(b)) => lowering.add_views(call, a, b),
        (Value::View(view), Value::Constant(constant)) | (Value::Constant(constant), Value::View(view)) => {
            lowering.add_constant(call, view, constant)
        }
        (Value::Scores(scores), Value::Constant(constant)) | (Value::Constant(constant), Value::Scores(scores)) => {
            lowering.bias_scores(*scores, &constant)
        }
        (a, b) => fold(lowering.room, a, b, |a, b| a + b),
    }
}

/// `sub(input, other, alpha)`.
pub(super) fn sub(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    lowering.expect_alpha(call)?;
    match lowering.operands(call)? {
        (Value::View(a), Value::View(b)) => {
            let Some(Value::View(b)) = lowering.scale(call, b, number(-1.0))?.pop() else {
                return Err(refuse("other", "a constant", "a value that depends on the images"));
            };
            lowering.add_views(call, a, b)
        }
        (Value::View(view), Value::Constant(constant)) => {
            lowering.add_constant(call, view, constant.map(|value| -value))
        }
        (Value::Constant(constant), Value::View(view)) => {
            let Some(Value::View(view)) = lowering.scale(call, view, number(-1.0))?.pop() else {
                return Err(refuse("other", "a constant", "a value that depends on the images"));
            };
            lowering.add_constant(call, view, constant)
        }
        (a, b) => fold(lowering.room, a, b, |a, b| a - b),
    }
}

/// `mul(input, other)`: with a constant per channel, with a value of the same extents, or with a gate of one pixel.
pub(super) fn mul(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    match lowering.operands(call)? {
        (Value::View(a), Value::View(b)) => lowering.multiply_views(call, a, b),
        (Value::View(view), Value::Constant(constant)) | (Value::Constant(constant), Value::View(view)) => {
            lowering.scale(call, view, constant)
        }
        (Value::Scores(scores), Value::Constant(constant)) | (Value::Constant(constant), Value::Scores(scores)) => {
            lowering.scale_scores(call, *scores, constant)
        }
        (a, b) => fold(lowering.room, a, b, |a, b| a * b),
    }
}

/// `div(input, other)` by a constant, by another value or by its own lengths.
pub(super) fn div(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    if let Some(mode) = call.argument("rounding_mode") {
        return Err(refuse("rounding_mode", format!("{mode:?}"), "nothing"));
    }
    match lowering.operands(call)? {
        (Value::View(view), Value::Constant(constant)) => lowering.scale(call, view, constant.map(|value| 1.0 / value)),
        (Value::Scores(scores), Value::Constant(constant)) => scores.scaled(&constant.map(|value| 1.0 / value)),
        (Value::View(a), Value::View(b)) => lowering.divide_views(call, a, b),
        (Value::View(view), Value::Lengths(vectors)) if view == *vectors => lowering.unit_vectors(call, view),
        (_, Value::View(_)) => Err(refuse("other", "a value that depends on the images", "a constant")),
        (Value::Constant(a), Value::Constant(b)) if a.integer && b.integer => {
            fold(lowering.room, Value::Constant(a), Value::Constant(b), |a, b| (a / b).trunc())
        }
        (a, b) => fold(lowering.room, a, b, |a, b| a / b),
    }
}

/// `square(input)` and `pow(input, 2)`.
pub(super) fn square(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let exponent = lowering.number(call, "exponent", Some(2.0))?;
    if let Value::Constant(constant) = lowering.operand(call, 0)? {
        return Ok(vec![Value::Constant(constant.map(|value| f64::from(value).powf(exponent) as f32))]);
    }
    if exponent != 2.0 {
        return Err(refuse("exponent", exponent.to_string(), "2"));
    }
    let view = lowering.view(call, 0)?;
    lowering.multiply_views(call, view.clone(), view)
}

/// A function of two constants.
fn fold(room: Room, a: Value, b: Value, function: fn(f32, f32) -> f32) -> Result<Vec<Value>, CallError> {
    let (Value::Constant(a), Value::Constant(b)) = (&a, &b) else {
        return Err(refuse("other", "a product of two values", "one that its softmax follows"));
    };
    Ok(vec![Value::Constant(combine(room, a, b, function)?)])
}

/// A constant without axes.
fn number(value: f64) -> Constant {
    Constant::new(Vec::new(), vec![value as f32]).expect("one value is one element")
}

impl Lowering<'_> {
    fn expect_alpha(&self, call: &Call) -> Result<(), CallError> {
        let alpha = call.float("alpha", Some(1.0))?;
        if alpha == 1.0 { Ok(()) } else { Err(refuse("alpha", alpha.to_string(), "1")) }
    }

    /// Both operands; a number is a constant without axes.
    pub(super) fn operands(&mut self, call: &Call) -> Result<(Value, Value), CallError> {
        let mut operand = |index: usize| match call.nth(index) {
            Some(Arg::Float(value)) => Ok(Value::Constant(number(*value))),
            Some(Arg::Int(Int::Known(value))) => {
                Ok(Value::Constant(Constant { integer: true, ..number(*value as f64) }))
            }
            _ => match self.operand(call, index)? {
                Value::Int(value) => Ok(Value::Constant(Constant { integer: true, ..number(value as f64) })),
                other => Ok(other),
            },
        };
        Ok((operand(0)?, operand(1)?))
    }

    pub(super) fn add_views(&mut self, call: &Call, a: View, b: View) -> Result<Vec<Value>, CallError> {
        let (a, b) = (self.whole_view(call, a)?, self.whole_view(call, b)?);
        let b = self.transposed_as(call, b, &a)?;
        let dims = self.dims(a.node);
        if a.axes != b.axes || [a.turn, a.first_pixel] != [b.turn, b.first_pixel] || dims != self.dims(b.node) {
            return Err(self.layout(&b, &format!("those of the other operand, {a}")));
        }
        let name = self
            .name(call, Some(&format!("{}.add", call.module)).filter(|_| !call.module.is_empty()).map(String::as_str));
        let node = self.builder.add(&name, a.node, b.node);
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(a.of(node))])
    }

    pub(super) fn multiply_views(&mut self, call: &Call, a: View, b: View) -> Result<Vec<Value>, CallError> {
        let (a, b) = (self.whole_view(call, a)?, self.whole_view(call, b)?);
        let (a_dims, b_dims) = (self.dims(a.node), self.dims(b.node));
        let (values, gate) = if a_dims.pixels() < b_dims.pixels() { (b, a) } else { (a, b) };
        let (dims, gate_dims) = (self.dims(values.node), self.dims(gate.node));
        let same = values.axes == gate.axes
            && [values.turn, values.first_pixel] == [gate.turn, gate.first_pixel]
            && dims == gate_dims;
        let spread = gate_dims.pixels() == 1
            && values.axes.len() == gate.axes.len()
            && dims.channels == gate_dims.channels
            && (0..gate.axes.len()).any(|axis| {
                values.is_channels(axis, dims) && gate.is_channels(axis, dims) && values.has_channels_on(axis)
            });
        if !same && !spread {
            return Err(self.layout(&gate, &format!("those of the other operand, {values}, or one pixel of them")));
        }
        let name = self.name(call, None);
        let node = self.builder.mul(&name, values.node, gate.node);
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(values.of(node))])
    }

    /// Adds a constant, spread over the view, to every image.
    pub(super) fn add_constant(
        &mut self,
        call: &Call,
        view: View,
        constant: Constant,
    ) -> Result<Vec<Value>, CallError> {
        let view = self.whole_view(call, view)?;
        if constant.tensor.values().iter().all(|&value| value == 0.0) {
            return Ok(vec![Value::View(view)]);
        }
        let dims = self.dims(view.node);
        self.room.count(&[dims.pixels(), dims.channels])?;
        let places = view.broadcast(dims, constant.extents()).filter(|_| view.turn == [0; 2]);
        let places = places.ok_or_else(|| self.layout(&view, &format!("some that fit {:?}", constant.extents())))?;
        let values = places.into_iter().map(|place| constant.tensor.values()[place as usize]).collect();
        let spread = Constant::new(vec![1, dims.pixels(), dims.channels], values);
        let spread = spread.ok_or_else(|| CallError::Extents { problem: format!("{dims}") })?;
        let name = self.name(call, constant.name.as_deref());
        self.keep(name.clone(), &[1, dims.pixels(), dims.channels], &spread)?;
        let node = self.builder.add_position(&name, view.node, dims.pixels());
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(view.of(node))])
    }

    /// Multiplies with a constant that differs from pixel to pixel: the product with a value that is this constant, whatever the
    /// image. The network then holds for images of this size alone.
    pub(super) fn scale_pixels(
        &mut self,
        call: &Call,
        view: View,
        constant: &Constant,
    ) -> Result<Vec<Value>, CallError> {
        let view = self.whole_view(call, view)?;
        let dims = self.dims(view.node);
        let none = Constant::of(vec![dims.channels], vec![0.0; dims.channels], false)?;
        let name = self.name(call, Some(&format!("{}.none", call.name)));
        self.keep(name.clone(), &[dims.channels, 1, 1], &none)?;
        let node = self.builder.scale(&name, view.node);
        let node = self.note(node, dims)?;
        let factors = self.add_constant(call, view.of(node), constant.clone())?;
        let [Value::View(factors)] = &factors[..] else {
            return Err(refuse("other", "no value", "factors for every pixel"));
        };
        self.bind_to_size(call);
        self.multiply_views(call, view, factors.clone())
    }

    /// Multiplies with a constant that is the same for all pixels.
    pub(super) fn scale(&mut self, call: &Call, view: View, constant: Constant) -> Result<Vec<Value>, CallError> {
        if let [first, rest @ ..] = constant.tensor.values()
            && rest.iter().all(|value| value == first)
        {
            let fits = constant.extents().iter().rev().zip(view.shape().iter().rev()).all(|(&a, &b)| a == 1 || a == b);
            if fits && constant.extents().len() <= view.axes.len() {
                return Ok(vec![Value::View(View { factor: view.factor * first, ..view })]);
            }
        }
        let view = self.whole_view(call, view)?;
        let dims = self.dims(view.node);
        let places = view.broadcast_channels(constant.extents());
        let places = places.ok_or_else(|| self.layout(&view, "one factor per channel"))?;
        let values: Vec<f32> = places.iter().map(|&place| constant.tensor.values()[place as usize]).collect();
        let factors = Constant::new(vec![dims.channels], values);
        let factors = factors.ok_or_else(|| CallError::Extents { problem: format!("{dims}") })?;
        let name = self.name(call, constant.name.as_deref());
        self.keep(name.clone(), &[dims.channels, 1, 1], &factors)?;
        let node = self.builder.scale(&name, view.node);
        let node = self.note(node, dims)?;
        Ok(vec![Value::View(view.of(node))])
    }
}
