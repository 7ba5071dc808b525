use super::constants::{combine, product};
use super::matmul::transpose;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Axis, Dim, View, channel_axis, whole};
use crate::text::shown;
use flipcast_graph::{Conv2d, Dims, Padding};

/// `conv2d(input, weight, bias, stride, padding, dilation, groups)`, with padding in numbers or in words.
pub(super) fn conv2d(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let weight = lowering.weight(call, "weight")?;
    let bias = lowering.constant(call, "bias")?.filter(|bias| !is_written_for_none(call, bias));
    let &[out_channels, per_group, rows, columns] = weight.extents() else {
        return Err(refuse("weight", format!("of extents {:?}", weight.extents()), "four axes"));
    };
    if call.bool("transposed", false)? {
        return Err(refuse("transposed", "`true`", "`false`"));
    }
    let stride = lowering.square(call, "stride", Some(1))?;
    let dilation = lowering.square(call, "dilation", Some(1))?;
    let groups = usize::try_from(lowering.int(call, "groups", Some(1))?).unwrap_or(0);
    let padding = match lowering.conv_padding(call, [rows, columns], dilation)? {
        Padding::Explicit { rows, columns } => {
            let [above, below, before, behind] = view.padding;
            Padding::Explicit {
                rows: [rows[0] + above, rows[1] + below],
                columns: [columns[0] + before, columns[1] + behind],
            }
        }
        Padding::Same if view.padding != [0; 4] => return Err(lowering.layout(&view, "some without zeros around")),
        Padding::Same => Padding::Same,
    };
    let x = lowering.map_node(call, &View { padding: [0; 4], ..view })?;
    let dims = lowering.dims(x);
    if groups == 0 || per_group.checked_mul(groups) != Some(dims.channels) {
        let problem = format!("a filter of {per_group} channels in {groups} groups reads {} channels", dims.channels);
        return Err(CallError::Extents { problem });
    }
    let conv = Conv2d {
        in_channels: dims.channels,
        out_channels,
        kernel: [rows, columns],
        stride,
        padding,
        dilation,
        groups,
        bias: bias.is_some(),
    };
    let valid = stride > 0 && dilation > 0 && rows > 0 && columns > 0;
    let resolved = if valid { conv.resolve(dims) } else { None };
    let Some((_, out)) = resolved else {
        return Err(CallError::Extents { problem: format!("a filter of {rows} x {columns} on {dims}") });
    };
    let name = lowering.layer_name(call, &weight);
    lowering.keep(format!("{name}.weight"), &[out_channels, per_group, rows, columns], &weight)?;
    if let Some(bias) = bias {
        lowering.keep(format!("{name}.bias"), &[out_channels], &bias)?;
    }
    let node = lowering.builder.conv(&name, x, conv);
    let node = lowering.note(node, out)?;
    Ok(vec![Value::View(View::map(node, lowering.batch, out))])
}

/// Whether `bias` only stands where there is none: PyTorch's ONNX exporter then writes zeros, which take time to add.
fn is_written_for_none(call: &Call, bias: &Constant) -> bool {
    (call.onnx.is_some() || bias.name.is_none()) && bias.tensor.values().iter().all(|&value| value == 0.0)
}

/// `linear(input, weight, bias)` on the last axis.
pub(super) fn linear(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let input = lowering.operand(call, 0)?;
    let weight = lowering.weight(call, "weight")?;
    let weight = if call.bool("transposed", false)? { transpose(&weight)? } else { weight };
    let bias = lowering.constant(call, "bias")?;
    let Value::Constant(constant) = input else {
        let view = lowering.view(call, 0)?;
        return lowering.linear_layer(call, view, weight, bias);
    };
    let product = product(lowering.room, &constant, &transpose(&weight)?)?;
    let sum = match &bias {
        Some(bias) => combine(lowering.room, &product, bias, |a, b| a + b)?,
        None => product,
    };
    Ok(vec![Value::Constant(sum)])
}

/// `addmm(bias, input, weight^T)`: a linear layer as decompositions write it.
pub(super) fn addmm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    for factor in ["beta", "alpha"] {
        let found = call.float(factor, Some(1.0))?;
        if found != 1.0 {
            return Err(refuse("beta", found.to_string(), "1"));
        }
    }
    let bias = lowering.constant(call, "self")?;
    let view = lowering.view(call, 1)?;
    let transposed = lowering.weight(call, "mat2")?;
    let weight = transpose(&transposed)?;
    lowering.linear_layer(call, view, weight, bias)
}

/// `Gemm(a, weight, bias, alpha, beta, transA, transB)`.
pub(super) fn gemm(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    for factor in ["alpha", "beta"] {
        let found = call.float(factor, Some(1.0))?;
        if found != 1.0 {
            return Err(refuse("alpha", found.to_string(), "1"));
        }
    }
    if call.bool("transA", false)? {
        return Err(refuse("transA", "1", "0"));
    }
    let view = lowering.view(call, 0)?;
    let weight = lowering.weight(call, "weight")?;
    let weight = if call.bool("transB", false)? { weight } else { transpose(&weight)? };
    let bias = lowering.constant(call, "bias")?;
    lowering.linear_layer(call, view, weight, bias)
}

impl Lowering<'_> {
    /// Zeros around an image that a convolution reads.
    fn conv_padding(&mut self, call: &Call, kernel: [usize; 2], dilation: usize) -> Result<Padding, CallError> {
        let mode = call.text(if call.onnx.is_some() { "auto_pad" } else { "padding" }, "NOTSET");
        match mode {
            Ok("valid" | "VALID") => Ok(Padding::same_on_all_sides(0)),
            // As PyTorch pads: the surplus goes behind the image.
            Ok("same") => {
                let [rows, columns] = kernel.map(|size| {
                    let around = dilation * (size.max(1) - 1);
                    [around / 2, around - around / 2]
                });
                Ok(Padding::Explicit { rows, columns })
            }
            Ok("SAME_UPPER") => Ok(Padding::Same),
            Ok("NOTSET" | "") if call.onnx.is_some() => {
                let [above, left, below, right] = self.sides(call)?;
                Ok(Padding::Explicit { rows: [above, below], columns: [left, right] })
            }
            Ok(other) if call.argument("padding").is_some() || call.onnx.is_some() => {
                Err(refuse("padding", format!("`{}`", shown(other)), "`same` or `valid`"))
            }
            _ => {
                let [rows, columns] = self.pair(call, "padding", Some([0, 0]))?;
                Ok(Padding::Explicit { rows: [rows; 2], columns: [columns; 2] })
            }
        }
    }

    /// ONNX's padding: rows above, columns left, rows below, columns right.
    pub(super) fn sides(&mut self, call: &Call) -> Result<[usize; 4], CallError> {
        let found = self.ints(call, "pads")?.unwrap_or(vec![0; 4]);
        let size = |&side: &i64| usize::try_from(side).ok().filter(|&side| side <= 1 << 16);
        let sides: Option<Vec<usize>> = found.iter().map(size).collect();
        let sides = sides.and_then(|sides| <[usize; 4]>::try_from(sides).ok());
        sides.ok_or_else(|| refuse("pads", format!("{found:?}"), "four numbers from 0 on"))
    }

    pub(super) fn linear_layer(
        &mut self,
        call: &Call,
        view: View,
        weight: Constant,
        bias: Option<Constant>,
    ) -> Result<Vec<Value>, CallError> {
        let &[outputs, inputs] = weight.extents() else {
            return Err(refuse("weight", format!("of extents {:?}", weight.extents()), "two axes"));
        };
        // What is added may also differ from token to token.
        let (bias, added) = match bias {
            Some(bias) if bias.extents().len() > 1 && bias.tensor.values().len() != outputs => (None, Some(bias)),
            bias => (bias, None),
        };
        let view = self.channels_last(call, view)?;
        let dims = self.dims(view.node);
        if dims.channels != inputs {
            let problem = format!("{inputs} inputs for {} channels", dims.channels);
            return Err(CallError::Extents { problem });
        }
        let name = self.layer_name(call, &weight);
        self.keep(format!("{name}.weight"), &[outputs, inputs], &weight)?;
        let node = match bias {
            Some(bias) => {
                self.keep(format!("{name}.bias"), &[outputs], &bias)?;
                self.builder.linear(&name, view.node, inputs, outputs)
            }
            None => self.builder.linear_without_bias(&name, view.node, inputs, outputs),
        };
        let node = self.note(node, Dims { channels: outputs, ..dims })?;
        self.linear.insert(node);
        let mut result = view.of(node);
        if let Some(last) = result.axes.last_mut() {
            *last = channel_axis(outputs);
        }
        match added {
            Some(added) => self.add_constant(call, result, added),
            None => Ok(vec![Value::View(result)]),
        }
    }

    /// The name of a layer after its weight: `conv1` for `conv1.weight`.
    pub(super) fn layer_name(&mut self, call: &Call, weight: &Constant) -> String {
        let path = weight.name.as_deref().and_then(|name| name.strip_suffix(".weight").or(Some(name)));
        self.name(call, path)
    }
}

/// `pad(input, [left, right, above, below])` with zeros, for the next convolution to take in.
pub(super) fn pad(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let mode = call.text("mode", "constant")?;
    if mode != "constant" {
        return Err(refuse("mode", format!("`{mode}`"), "`constant`"));
    }
    let value = call.float("value", Some(0.0))?;
    if value != 0.0 {
        return Err(refuse("value", value.to_string(), "0"));
    }
    let pads = lowering.ints(call, "pad")?.unwrap_or_default();
    let mut sides = [0; 4];
    for (place, &pad) in pads.iter().enumerate() {
        // The last axis comes first.
        let axis = view.axes.len().checked_sub(1 + place / 2);
        let side = axis.and_then(|axis| lowering.first_side(&view, axis));
        let pad = usize::try_from(pad).ok().filter(|&pad| pad <= 1 << 16 && (pad == 0 || side.is_some()));
        let pad = pad.ok_or_else(|| refuse("pad", format!("{pads:?}"), "rows and columns, none cut off"))?;
        if let Some(side) = side {
            sides[side + place % 2] = pad;
        }
    }
    lowering.pad_view(call, view, sides)
}

/// `Pad(data, pads, value, axes)` with zeros: the sides before, then those behind, of all axes or of some.
pub(super) fn onnx_pad(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let mode = call.text("mode", "constant")?;
    let value = lowering.number(call, "value", Some(0.0))?;
    if mode != "constant" || value != 0.0 {
        return Err(refuse("mode", format!("`{}` with {value}", shown(mode)), "`constant` with 0"));
    }
    let rank = view.axes.len();
    let found = lowering.ints(call, "pads")?.unwrap_or_default();
    let axes = lowering.ints(call, "axes")?.unwrap_or_else(|| (0..rank as i64).collect());
    let bad = || refuse("pads", format!("{found:?}"), "rows and columns, none cut off");
    if found.len() != 2 * axes.len() {
        return Err(bad());
    }
    let mut sides = [0; 4];
    for (place, &pad) in found.iter().enumerate() {
        let axis = position(axes[place % axes.len()], rank).ok_or_else(bad)?;
        let pad = usize::try_from(pad).ok().filter(|&pad| pad <= 1 << 16).ok_or_else(bad)?;
        match lowering.first_side(&view, axis) {
            Some(side) => sides[side + place / axes.len()] = pad,
            None if pad == 0 => {}
            None => return Err(bad()),
        }
    }
    lowering.pad_view(call, view, sides)
}

impl Lowering<'_> {
    /// The first of the two sides of a map that zeros on `axis` stand at: 0 where it has all rows, 2 where it has all columns.
    fn first_side(&self, view: &View, axis: usize) -> Option<usize> {
        let dims = self.dims(view.node);
        match &view.axes[axis] {
            pieces if *pieces == whole(Dim::Row, dims.height) && !pieces.is_empty() => Some(0),
            pieces if *pieces == whole(Dim::Column, dims.width) && !pieces.is_empty() => Some(2),
            // A map of one row or one column has no piece for it.
            pieces if pieces.is_empty() && view.is_map(self.batch, dims) && axis >= 2 => Some(2 * (axis - 2)),
            _ => None,
        }
    }

    /// Zeros above, below, left and right of a map.
    fn pad_view(&mut self, call: &Call, mut view: View, sides: [usize; 4]) -> Result<Vec<Value>, CallError> {
        if sides == [0; 4] {
            return Ok(vec![Value::View(view)]);
        }
        let dims = self.dims(view.node);
        if view.is_map(self.batch, dims) {
            view.padding.iter_mut().zip(sides).for_each(|(padding, side)| *padding += side);
            return Ok(vec![Value::View(view)]);
        }
        // Only a convolution reads maps; whatever has its channels elsewhere needs the zeros as pixels.
        let view = self.whole_view(call, view)?;
        let dims = self.dims(view.node);
        let [rows, columns] = [whole(Dim::Row, dims.height), whole(Dim::Column, dims.width)];
        let place = |axis: &Axis| view.axes.iter().position(|pieces| pieces == axis && !pieces.is_empty());
        let (Some(row_axis), Some(column_axis), [0, 0]) = (place(&rows), place(&columns), view.turn) else {
            return Err(self.layout(&view, "rows and columns on axes of their own"));
        };
        let [above, below, left, right] = sides;
        let padded = Dims::new(dims.height + above + below, dims.width + left + right, dims.channels);
        let name = self.name(call, Some(&format!("{}.pad", call.name)));
        let node = self.builder.pad(&name, view.node, [above, below], [left, right]);
        let node = self.note(node, padded)?;
        let mut view = view.of(node);
        view.axes[row_axis] = whole(Dim::Row, padded.height);
        view.axes[column_axis] = whole(Dim::Column, padded.width);
        Ok(vec![Value::View(view)])
    }
}
