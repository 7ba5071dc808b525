use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::program::view::{View, channel_axis};
use flipcast_graph::{Conv2d, Dims, Padding};

/// `conv2d(input, weight, bias, stride, padding, dilation, groups)`, with padding in numbers or in words.
pub(super) fn conv2d(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let weight = lowering.weight(call, "weight")?;
    let bias = lowering.constant(call, "bias")?;
    let &[out_channels, per_group, rows, columns] = weight.extents() else {
        return Err(refuse("weight", format!("of extents {:?}", weight.extents()), "four axes"));
    };
    if call.bool("transposed", false)? {
        return Err(refuse("transposed", "`true`", "`false`"));
    }
    let stride = lowering.square(call, "stride", Some(1))?;
    let dilation = lowering.square(call, "dilation", Some(1))?;
    let groups = usize::try_from(lowering.int(call, "groups", Some(1))?).unwrap_or(0);
    let [top, left] = match call.argument("padding") {
        Some(Arg::Text(_)) => match call.text("padding", "valid")? {
            "valid" => [0, 0],
            // As PyTorch pads: the surplus goes behind the image, which the sums below do.
            "same" => [dilation * (rows.max(1) - 1), dilation * (columns.max(1) - 1)],
            other => return Err(refuse("padding", format!("`{other}`"), "`same` or `valid`")),
        },
        _ => lowering.pair(call, "padding", Some([0, 0]))?,
    };
    let both = |around: usize| match call.argument("padding") {
        Some(Arg::Text(_)) => [around / 2, around - around / 2],
        _ => [around, around],
    };
    let [above, below, before, behind] = view.padding;
    let added = |[first, last]: [usize; 2], [more_first, more_last]: [usize; 2]| [first + more_first, last + more_last];
    let padding =
        Padding::Explicit { rows: added(both(top), [above, below]), columns: added(both(left), [before, behind]) };
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

/// `linear(input, weight, bias)` on the last axis.
pub(super) fn linear(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let weight = lowering.weight(call, "weight")?;
    let bias = lowering.constant(call, "bias")?;
    lowering.linear_layer(call, view, weight, bias)
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
    let weight = super::shape::permute_constant(&transposed, &[1, 0])
        .ok_or_else(|| refuse("mat2", format!("of extents {:?}", transposed.extents()), "two axes"))?;
    lowering.linear_layer(call, view, weight, bias)
}

impl Lowering<'_> {
    fn linear_layer(
        &mut self,
        call: &Call,
        view: View,
        weight: Constant,
        bias: Option<Constant>,
    ) -> Result<Vec<Value>, CallError> {
        let &[outputs, inputs] = weight.extents() else {
            return Err(refuse("weight", format!("of extents {:?}", weight.extents()), "two axes"));
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
        Ok(vec![Value::View(result)])
    }

    /// The name of a layer after its weight: `conv1` for `conv1.weight`.
    pub(super) fn layer_name(&mut self, call: &Call, weight: &Constant) -> String {
        let path = weight.name.as_deref().and_then(|name| name.strip_suffix(".weight").or(Some(name)));
        self.name(call, path)
    }
}

/// `pad(input, [left, right, above, below])` with zeros, for the next convolution to take in.
pub(super) fn pad(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let mut view = lowering.view(call, 0)?;
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
        let pad = usize::try_from(pad).ok().filter(|&pad| pad <= 1 << 16 && (pad == 0 || place < 4));
        let pad = pad.ok_or_else(|| refuse("pad", format!("{pads:?}"), "rows and columns, none cut off"))?;
        // Columns come first.
        if let Some(side) = sides.get_mut(place ^ 2) {
            *side = pad;
        }
    }
    if sides != [0; 4] {
        let dims = lowering.dims(view.node);
        if !view.is_map(lowering.batch, dims) {
            return Err(lowering.layout(&view, "batch, channels, rows, columns"));
        }
        view.padding.iter_mut().zip(sides).for_each(|(padding, side)| *padding += side);
    }
    Ok(vec![Value::View(view)])
}
