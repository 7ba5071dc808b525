//! Moves of tokens and products with factors.

use super::{Call, Queue, Target, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use flipcast_graph::Arrangement;
use flipcast_graph::{Extent, ShortcutShape};

/// The first table entry that names a learned row.
const LEARNED: u32 = 1 << 31;

/// Extents of a move: both sides count cells of `channels` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moves {
    pub images: usize,
    /// Tokens of an image before.
    pub tokens: usize,
    /// Cells of an image after.
    pub cells: usize,
    pub channels: usize,
}

/// The table that `arrange` reads, from the token of every cell. Vacant cells take `learned_rows` learned rows in turn, and
/// zeros after them.
pub(crate) fn move_table(cells: &[u32], learned_rows: usize) -> Vec<i32> {
    let mut learned = 0..learned_rows as u32;
    let entry = |&cell: &u32| match cell {
        Arrangement::VACANT => learned.next().map_or(Arrangement::VACANT, |row| LEARNED + row),
        token => token,
    };
    cells.iter().map(entry).map(u32::cast_signed).collect()
}

/// Moves tokens into cells as `table` says; `learned` holds 32-bit floats.
pub(crate) fn arrange(
    queue: &dyn Queue,
    moves: Moves,
    table: DeviceSlice,
    learned: Option<DeviceSlice>,
    values: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let Moves { images, tokens, cells, channels } = moves;
    let slices = [Some(values), Some(to.slice), learned];
    let slices: Vec<DeviceSlice> = slices.into_iter().flatten().collect();
    let wide = wide(queue.precision(), channels, &slices);
    Call::new(queue, "arrange")
        .slice("the input", values, images * tokens * channels)
        .slice("the table", table, cells)
        .optional("the learned rows", learned, channels)
        .slice("the result", to.slice, images * cells * channels)
        .counts([images, cells, tokens, channels])
        .flag(to.accumulate)
        .flag(wide)
        .over(images * cells * channels / width(queue, wide))
}

/// Adds the same `position`, 32-bit floats, to every image.
pub(crate) fn add_position(
    queue: &dyn Queue,
    images: usize,
    values: DeviceSlice,
    position: DeviceSlice,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    let len = position.len;
    let wide = wide(queue.precision(), len, &[values, position, out]);
    Call::new(queue, "add_position")
        .slice("the input", values, images * len)
        .slices([position])
        .slice("the result", out, images * len)
        .counts([images, len])
        .flag(wide)
        .over(images * len / width(queue, wide))
}

/// A factor per channel, 32-bit floats; forward, and backward with the gradient for `values`.
pub(crate) fn scale_channels(
    queue: &dyn Queue,
    extent: Extent,
    values: DeviceSlice,
    factors: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let wide = wide(queue.precision(), extent.channels, &[values, factors, to.slice]);
    Call::new(queue, "scale_channels")
        .slice("the input", values, extent.len())
        .slice("the factors", factors, extent.channels)
        .slice("the result", to.slice, extent.len())
        .counts([extent.images * extent.pixels, extent.channels])
        .flag(to.accumulate)
        .flag(wide)
        .over(extent.len() / width(queue, wide))
}

/// Product with a gate of `gate_pixels` pixels, all or one. With the gradient for `values` it is the gradient of the values;
/// with the values for a gate of all pixels that of the gate.
pub(crate) fn multiply(
    queue: &dyn Queue,
    extent: Extent,
    values: DeviceSlice,
    (gate, gate_pixels): (DeviceSlice, usize),
    to: Target,
) -> Result<(), CudaError> {
    let gate_len = gate_pixels * extent.channels;
    let wide = wide(queue.precision(), extent.channels, &[values, gate, to.slice]);
    Call::new(queue, "multiply")
        .slice("the input", values, extent.len())
        .slice("the gate", gate, extent.images * gate_len)
        .slice("the result", to.slice, extent.len())
        .counts([extent.images, extent.pixels * extent.channels, gate_len])
        .flag(to.accumulate)
        .flag(wide)
        .over(extent.len() / width(queue, wide))
}

/// The gradient of a gate of `gate_pixels` pixels, all or one, from that of the product.
pub(crate) fn multiply_backward_gate(
    queue: &dyn Queue,
    extent: Extent,
    gradient: DeviceSlice,
    values: DeviceSlice,
    gate_pixels: usize,
    to: Target,
) -> Result<(), CudaError> {
    if gate_pixels == extent.pixels {
        return multiply(queue, extent, gradient, (values, gate_pixels), to);
    }
    let wide = wide(queue.precision(), extent.channels, &[gradient, values, to.slice]);
    let columns = extent.channels / width(queue, wide);
    let grid = [columns.div_ceil(32) as u32, extent.images as u32, 1];
    Call::new(queue, "multiply_backward_gate")
        .slice("the gradient", gradient, extent.len())
        .slice("the values", values, extent.len())
        .slice("the result", to.slice, extent.images * extent.channels)
        .counts([extent.pixels, extent.channels])
        .flag(to.accumulate)
        .flag(wide)
        .launch(grid, [32, 8, 1], 0)
}

/// Pixels and channels in PyTorch's order.
pub(crate) fn flatten(
    queue: &dyn Queue,
    extent: Extent,
    values: DeviceSlice,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    transpose(queue, extent, [extent.pixels, extent.channels], values, out.into())
}

/// The gradient of [`flatten`].
pub(crate) fn flatten_backward(
    queue: &dyn Queue,
    extent: Extent,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    transpose(queue, extent, [extent.channels, extent.pixels], gradient, to)
}

fn transpose(
    queue: &dyn Queue,
    extent: Extent,
    [rows, columns]: [usize; 2],
    values: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let grid = [columns.div_ceil(32), rows.div_ceil(32), extent.images].map(|n| n as u32);
    Call::new(queue, "transpose")
        .slice("the input", values, extent.len())
        .slice("the result", to.slice, extent.len())
        .counts([rows, columns])
        .flag(to.accumulate)
        .launch(grid, [32, 8, 1], 0)
}

/// Every `stride`-th pixel with zero channels around.
pub(crate) fn shortcut_a(
    queue: &dyn Queue,
    images: usize,
    shape: ShortcutShape,
    values: DeviceSlice,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    let [from, to] = shortcut_lens(images, shape);
    Call::new(queue, "shortcut_a")
        .slice("the input", values, from)
        .slice("the result", out, to)
        .counts(shortcut_counts(images, shape))
        .over(to)
}

/// The gradient of [`shortcut_a`].
pub(crate) fn shortcut_a_backward(
    queue: &dyn Queue,
    images: usize,
    shape: ShortcutShape,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let [len, from] = shortcut_lens(images, shape);
    Call::new(queue, "shortcut_a_backward")
        .slice("the gradient", gradient, from)
        .slice("the result", to.slice, len)
        .counts(shortcut_counts(images, shape))
        .flag(to.accumulate)
        .over(len)
}

fn shortcut_lens(images: usize, shape: ShortcutShape) -> [usize; 2] {
    let len = |[height, width]: [usize; 2], channels| images * height * width * channels;
    [len(shape.input, shape.channels[0]), len(shape.output, shape.channels[1])]
}

fn shortcut_counts(images: usize, shape: ShortcutShape) -> [usize; 8] {
    let ShortcutShape { input, output, channels, stride } = shape;
    [images, input[0], input[1], output[0], output[1], channels[0], channels[1], stride]
}

/// Elements a thread takes at a time.
fn width(queue: &dyn Queue, wide: bool) -> usize {
    if wide { 16 / queue.precision().element().bytes() } else { 1 }
}
