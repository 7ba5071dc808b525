use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::program::view::View;
use crate::text::shown;
use flipcast_graph::{Conv2d, Dims, NodeId, Padding};

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
    enlarge(lowering, call, x, &factors)
}

/// `Resize(X, roi, scales, sizes)` of maps by the nearest pixel: one of scales and sizes is given, for all four axes.
pub(super) fn resize(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    let dims = lowering.dims(x);
    // The pixel at `i / factor`, rounded down.
    let settings = [
        ("mode", "nearest", "nearest"),
        ("coordinate_transformation_mode", "half_pixel", "asymmetric"),
        ("nearest_mode", "round_prefer_floor", "floor"),
    ];
    for (name, default, expected) in settings {
        let found = call.text(name, default)?;
        if found != expected {
            return Err(refuse(name, format!("`{}`", shown(found)), format!("`{expected}`")));
        }
    }
    let factors: Vec<f64> = match lowering.constant(call, "scale_factors")? {
        Some(scales) if !scales.tensor.values().is_empty() => {
            scales.tensor.values().iter().map(|&scale| f64::from(scale)).collect()
        }
        _ => {
            let sizes = lowering.ints(call, "output_size")?.unwrap_or_default();
            lowering.bind_to_size(call);
            let before = [lowering.batch, dims.channels, dims.height, dims.width];
            sizes.iter().zip(before).map(|(&size, before)| size as f64 / before as f64).collect()
        }
    };
    match factors[..] {
        [1.0, 1.0, rows, columns] => enlarge(lowering, call, x, &[rows, columns]),
        _ => Err(refuse("scales", format!("{factors:?}"), "1 for images and channels, and one whole number")),
    }
}

/// `x` with a square of pixels for each.
fn enlarge(lowering: &mut Lowering<'_>, call: &Call, x: NodeId, factors: &[f64]) -> Result<Vec<Value>, CallError> {
    let dims = lowering.dims(x);
    let factor = match *factors {
        [rows, columns] if rows == columns && rows.fract() == 0.0 && (1.0..=LARGEST_FACTOR as f64).contains(&rows) => {
            rows as usize
        }
        _ => return Err(refuse("scale_factors", format!("{factors:?}"), "one whole number for rows and columns")),
    };
    if factor == 1 {
        return Ok(vec![Value::View(View::map(x, lowering.batch, dims))]);
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
