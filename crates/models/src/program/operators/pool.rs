use super::shape::extents;
use crate::program::CallError;
use crate::program::arguments::{position, refuse};
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{Dim, View, extent};
use crate::text::shown;
use flipcast_graph::{Dims, Pool};

/// The largest window: a tap must fit a byte.
const LARGEST_KERNEL: usize = 15;

/// `max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)`.
pub(super) fn max_pool(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let dilation = lowering.square(call, "dilation", Some(1))?;
    if dilation != 1 {
        return Err(refuse("dilation", dilation.to_string(), "1"));
    }
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    let (pool, _) = lowering.window(call, x)?;
    let pool = Pool { ceil: call.bool("ceil_mode", false)?, ..pool };
    let dims = lowering.dims(x);
    let out = pool.resolve(dims).ok_or_else(|| CallError::Extents { problem: format!("a window on {dims}") })?;
    let name = lowering.name(call, None);
    let node = lowering.builder.max_pool(&name, x, pool);
    let node = lowering.note(node, out)?;
    Ok(vec![Value::View(View::map(node, lowering.batch, out))])
}

/// `avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)`.
pub(super) fn avg_pool(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    if call.argument("divisor_override").is_some() {
        return Err(refuse("divisor_override", "given", "nothing"));
    }
    let (pool, out) = lowering.window(call, x)?;
    if call.bool("ceil_mode", false)? {
        let dims = lowering.dims(x);
        if (Pool { ceil: true, ..pool }).resolve(dims) != Some(out) {
            return Err(refuse("ceil_mode", format!("`true` on {dims}"), "`false`, or windows that cover the image"));
        }
        lowering.bind_to_size(call);
    }
    let counted = pool.padding == 0 || call.bool("count_include_pad", call.onnx.is_none())?;
    let averaged = lowering.average(call, x, pool, out)?;
    match (counted, &averaged[..]) {
        (false, [Value::View(view)]) => lowering.leave_padding_out(call, view.clone(), pool, lowering.dims(x)),
        _ => Ok(averaged),
    }
}

/// `adaptive_avg_pool2d(input, output_size)`: a mean over everything, or windows of one size.
pub(super) fn adaptive_avg_pool(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    let [rows, columns] = lowering.pair(call, "output_size", None)?;
    if [rows, columns] == [1, 1] {
        return lowering.global_average(call, x);
    }
    let dims = lowering.dims(x);
    let fits = rows > 0 && columns > 0 && dims.height.is_multiple_of(rows) && dims.width.is_multiple_of(columns);
    let kernel = if fits { dims.height / rows } else { 0 };
    if !fits || kernel * columns != dims.width || kernel > LARGEST_KERNEL {
        let expected = format!("[1, 1], or a part of {} x {} in square windows", dims.height, dims.width);
        return Err(refuse("output_size", format!("[{rows}, {columns}]"), expected));
    }
    lowering.bind_to_size(call);
    if kernel == 1 {
        return Ok(vec![Value::View(view)]);
    }
    let pool = Pool::new(kernel, kernel, 0);
    lowering.average(call, x, pool, Dims::new(rows, columns, dims.channels))
}

/// `GlobalAveragePool(input)`.
pub(super) fn global_avg_pool(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let view = lowering.view(call, 0)?;
    let x = lowering.map_node(call, &view)?;
    lowering.global_average(call, x)
}

/// `mean(input, dim, keepdim)` over all pixels or all channels.
pub(super) fn mean(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let operand = lowering.operand(call, 0)?;
    let rank = extents(&operand).len();
    let found = lowering.ints(call, "dim")?.unwrap_or_default();
    let over: Option<Vec<usize>> = found.iter().map(|&axis| position(axis, rank)).collect();
    let over = over.ok_or_else(|| refuse("dim", format!("{found:?}"), format!("some of {rank} axes")))?;
    let keep = call.bool("keepdim", call.onnx.is_some())?;
    if let Value::Constant(constant) = &operand {
        return Ok(vec![Value::Constant(constant.mean(&over, keep)?)]);
    }
    let view = lowering.view(call, 0)?;
    let view = lowering.whole_view(call, view)?;
    if let [axis] = over[..]
        && view.has_channels_on(axis)
    {
        return lowering.mean_of_channels(call, view, axis, keep).map(|mean| vec![Value::View(mean)]);
    }
    let mean = lowering.mean_of_pixels(call, &view, &over, keep)?;
    let mean = mean.ok_or_else(|| lowering.layout(&view, "a mean over all pixels or all channels"))?;
    Ok(vec![Value::View(mean)])
}

impl Lowering<'_> {
    /// The mean of `view` over the axes `over`, if these are all pixels and nothing else.
    pub(super) fn mean_of_pixels(
        &mut self,
        call: &Call,
        view: &View,
        over: &[usize],
        keep: bool,
    ) -> Result<Option<View>, CallError> {
        let of_pixels = |axis: usize| view.axes[axis].iter().all(|piece| matches!(piece.dim, Dim::Row | Dim::Column));
        let pixels: usize = over.iter().map(|&axis| extent(&view.axes[axis])).product();
        if over.is_empty() || !over.iter().all(|&axis| of_pixels(axis)) || pixels != self.dims(view.node).pixels() {
            return Ok(None);
        }
        let mut axes = view.axes.clone();
        over.iter().for_each(|&axis| axes[axis].clear());
        if !keep {
            let kept = axes.into_iter().enumerate().filter(|(axis, _)| !over.contains(axis));
            axes = kept.map(|(_, pieces)| pieces).collect();
        }
        let Some(Value::View(pooled)) = self.global_average(call, view.node)?.pop() else {
            return Ok(None);
        };
        Ok(Some(View { axes, ..pooled }))
    }

    /// The window that `call` slides over `x`, and what it leaves.
    fn window(&mut self, call: &Call, x: flipcast_graph::NodeId) -> Result<(Pool, Dims), CallError> {
        let dims = self.dims(x);
        let kernel = self.square(call, "kernel_size", None)?;
        let usual = if call.onnx.is_some() { 1 } else { kernel };
        let stride = self.square(call, "stride", Some(usual))?;
        let padding = self.pool_padding(call)?;
        if !(1..=LARGEST_KERNEL).contains(&kernel) {
            return Err(refuse("kernel_size", kernel.to_string(), format!("1 to {LARGEST_KERNEL}")));
        }
        if stride == 0 || 2 * padding > kernel {
            return Err(refuse(
                "stride",
                format!("{stride} with padding {padding}"),
                "at least 1, and half a window of padding at most",
            ));
        }
        let pool = Pool::new(kernel, stride, padding);
        let out = pool.resolve(dims);
        let problem = || format!("a window of {kernel} x {kernel} on {dims}");
        let out = out.ok_or_else(|| CallError::Extents { problem: problem() })?;
        Ok((pool, out))
    }

    /// Padding that is the same on all sides.
    fn pool_padding(&mut self, call: &Call) -> Result<usize, CallError> {
        if call.onnx.is_none() {
            return self.square(call, "padding", Some(0));
        }
        let mode = call.text("auto_pad", "NOTSET")?;
        match (mode, self.sides(call)?) {
            ("VALID", _) => Ok(0),
            ("NOTSET" | "", [side, rest @ ..]) if rest == [side; 3] => Ok(side),
            (mode, sides) => Err(refuse("pads", format!("{sides:?} (`{}`)", shown(mode)), "the same on all sides")),
        }
    }

    /// Means of windows over an image of `dims`, as if the zeros around it had not been counted.
    fn leave_padding_out(&mut self, call: &Call, view: View, pool: Pool, dims: Dims) -> Result<Vec<Value>, CallError> {
        let out = self.dims(view.node);
        let inside = |at: usize, side: usize| {
            let start = at * pool.stride;
            (start + pool.kernel).min(side + pool.padding) - start.max(pool.padding)
        };
        let all = (pool.kernel * pool.kernel) as f32;
        let factor = |row: usize, column: usize| all / (inside(row, dims.height) * inside(column, dims.width)) as f32;
        self.room.count(&[out.height, out.width])?;
        let pixels = (0..out.height).flat_map(|row| (0..out.width).map(move |column| factor(row, column)));
        let factors = Constant::of(vec![out.height, out.width], pixels.collect(), false)?;
        self.scale_pixels(call, view, &factors)
    }

    fn average(
        &mut self,
        call: &Call,
        x: flipcast_graph::NodeId,
        pool: Pool,
        out: Dims,
    ) -> Result<Vec<Value>, CallError> {
        let name = self.name(call, None);
        let node = self.builder.avg_pool(&name, x, pool);
        let node = self.note(node, out)?;
        Ok(vec![Value::View(View::map(node, self.batch, out))])
    }

    fn global_average(&mut self, call: &Call, x: flipcast_graph::NodeId) -> Result<Vec<Value>, CallError> {
        let out = Dims::new(1, 1, self.dims(x).channels);
        let name = self.name(call, None);
        let node = self.builder.global_avg_pool(&name, x);
        let node = self.note(node, out)?;
        Ok(vec![Value::View(View::map(node, self.batch, out))])
    }
}
