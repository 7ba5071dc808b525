use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::program::view::View;
use flipcast_graph::{Conv2d, Dims, Padding};

/// The largest enlargement.
const LARGEST_FACTOR: usize = 64;

/// `upsample_nearest2d(input, output_size, scale_factors)` by a whole number: zeros between the pixels, and a filter of ones that
/// sees one pixel at a time.
pub(super) fn nearest(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    let dims = lowering.dims(x);
    let factors = match call.argument("scale_factors") {
        Some(Arg::Floats(factors)) => factors.clone(),
        Some(_) => Vec::new(),
        None => {
            let [rows, columns] = lowering.pair(call, "output_size", None)?;
            lowering.bind_to_size(call);
            vec![rows as f64 / dims.height as f64, columns as f64 / dims.width as f64]
        }
    };
    let factor = match factors[..] {
        [rows, columns] if rows == columns && rows.fract() == 0.0 && (1.0..=LARGEST_FACTOR as f64).contains(&rows) => {
            rows as usize
        }
        _ => return Err(refuse("scale_factors", format!("{factors:?}"), "one whole number for rows and columns")),
    };
    if factor == 1 {
        return Ok(vec![Value::View(view)]);
    }
    let out = Dims::new(dims.height * factor, dims.width * factor, dims.channels);
    let name = lowering.name(call, Some(&format!("{}.spread", call.name)));
    let spread = lowering.builder.spread(&name, x, factor);
    let spread = lowering.note(spread, out)?;
    let channels = dims.channels;
    let count = lowering.room.count(&[channels, factor, factor])?;
    let ones = Constant::of(vec![channels, factor, factor], vec![1.0; count], false)?;
    let name = lowering.name(call, None);
    lowering.keep(format!("{name}.weight"), &[channels, 1, factor, factor], &ones)?;
    let before = [factor - 1, 0];
    let padding = Padding::Explicit { rows: before, columns: before };
    let conv = Conv2d { padding, ..Conv2d::new(channels, channels, factor).groups(channels) };
    let node = lowering.builder.conv(&name, spread, conv);
    let node = lowering.note(node, out)?;
    Ok(vec![Value::View(View::map(node, lowering.batch, out))])
}
