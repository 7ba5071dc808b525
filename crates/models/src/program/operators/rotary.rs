use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;

/// `rotate(self, cos, sin)`: pairs of channels turned by an angle for every token and pair, `x cos + (-x[1], x[0]) sin`. Tokens in
/// front that the tables do not have stay as they are.
pub(super) fn rotate(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let (cos, sin) = (lowering.weight(call, "cos")?, lowering.weight(call, "sin")?);
    let &[.., tokens, width] = &view.shape()[..] else {
        return Err(lowering.layout(&view, "heads, tokens, channels of a head"));
    };
    let (&[rows, columns], true) = (cos.extents(), cos.extents() == sin.extents()) else {
        return Err(refuse("cos", format!("of extents {:?}", cos.extents()), "tokens and channels"));
    };
    let (Some(kept), true) = (tokens.checked_sub(rows), columns == width && width.is_multiple_of(2)) else {
        let problem = format!("angles of {rows} x {columns} for {tokens} tokens of {width} channels");
        return Err(CallError::Extents { problem });
    };
    let view = lowering.whole_view(call, view)?;
    let table = |front: f32, values: &[f32], sign: fn(usize) -> f32| {
        let behind = values.iter().enumerate().map(|(at, value)| sign(at % 2) * value);
        Constant::of(vec![tokens, width], std::iter::repeat_n(front, kept * width).chain(behind).collect(), false)
    };
    let cosines = table(1.0, cos.tensor.values(), |_| 1.0)?;
    let sines = table(0.0, sin.tensor.values(), |second| if second == 0 { -1.0 } else { 1.0 })?;
    let exchanged = (0..lowering.dims(view.node).channels).map(|channel| channel ^ 1).collect();
    let exchanged = lowering.pick_channels(call, &[(view.node, exchanged)])?;
    let turned = lowering.scale_pixels(call, view.of(exchanged), &sines)?;
    let straight = lowering.scale_pixels(call, view, &cosines)?;
    match (&straight[..], &turned[..]) {
        ([Value::View(straight)], [Value::View(turned)]) => lowering.add_views(call, straight.clone(), turned.clone()),
        _ => Err(refuse("self", "a constant", "a value that depends on the images")),
    }
}
