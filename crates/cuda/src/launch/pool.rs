//! Pools.

use super::norm::{Term, partials};
use super::norm_backward::{NormGradient, batch_finish};
use super::rows::RowGrid;
use super::{Call, Queue, Target, blocks, expect_len, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use flipcast_graph::Activation;
use flipcast_graph::{Extent, PoolShape};

/// Side and step of the windows whose max pools walk strips.
const STRIP_WINDOWS: [(usize, usize); 3] = [(2, 2), (3, 1), (3, 2)];
/// Output rows of a strip: many, so that few rows are read twice, and few, so that there are threads enough.
const STRIP_ROWS: usize = 8;
/// Threads of a block that gathers sums, and blocks per multiprocessor.
const SUMS_THREADS: usize = 256;
const SUMS_WAVES: usize = 4;

/// Which value of a window counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PoolKind {
    /// The largest; a byte per output notes which it was.
    Max(DeviceSlice),
    /// The mean of all.
    Mean,
}

fn window(shape: PoolShape) -> [usize; 8] {
    [
        shape.input[0],
        shape.input[1],
        shape.output[0],
        shape.output[1],
        shape.channels,
        shape.kernel,
        shape.stride,
        shape.padding,
    ]
}

fn lens(images: usize, shape: PoolShape) -> [usize; 2] {
    let len = |extents: [usize; 2]| images * extents[0] * extents[1] * shape.channels;
    [len(shape.input), len(shape.output)]
}

fn variant(name: &str, channels: usize, slices: &[DeviceSlice]) -> (String, usize) {
    let wide = channels.is_multiple_of(8) && slices.iter().all(|s| s.address.is_multiple_of(16));
    if wide { (format!("{name}_wide"), 8) } else { (format!("{name}_narrow"), 1) }
}

/// Whether a max pool can walk strips.
fn strips(queue: &dyn Queue, shape: PoolShape, source: Term, slices: &[DeviceSlice]) -> bool {
    STRIP_WINDOWS.contains(&(shape.kernel, shape.stride))
        && 2 * shape.padding <= shape.kernel
        && matches!(source.activation, Activation::Identity | Activation::Relu)
        && wide(queue.precision(), shape.channels, slices)
}

fn max_pool_strips(
    queue: &dyn Queue,
    images: usize,
    shape: PoolShape,
    choices: DeviceSlice,
    source: Term,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    let pack = 16 / queue.precision().element().bytes();
    let columns = images * shape.output[0].div_ceil(STRIP_ROWS) * shape.output[1];
    let blocks = (columns * shape.channels / pack).div_ceil(256) as u32;
    let variant = format!("max_pool_{}_{}", shape.kernel, shape.stride);
    Call::new(queue, "max_pool")
        .args(&source.args(shape.input[0] * shape.input[1]))
        .slices([out, choices])
        .counts([images, STRIP_ROWS])
        .counts(window(shape))
        .launch_variant(&variant, [blocks, 1, 1], [256, 1, 1], 0)
}

/// One value per window.
pub(crate) fn pool(
    queue: &dyn Queue,
    images: usize,
    shape: PoolShape,
    kind: PoolKind,
    source: Term,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    let [from, to] = lens(images, shape);
    expect_len("pool", "the input", source.values, from)?;
    expect_len("pool", "the result", out, to)?;
    let (name, choices) = match kind {
        PoolKind::Max(choices) => ("max_pool", Some(choices)),
        PoolKind::Mean => ("avg_pool", None),
    };
    if let Some(choices) = choices {
        expect_len("pool", "the choices", choices, to)?;
        if strips(queue, shape, source, &[source.values, out, choices]) {
            return max_pool_strips(queue, images, shape, choices, source, out);
        }
    }
    let (variant, pack) = variant(name, shape.channels, &[source.values, out]);
    Call::new(queue, name)
        .args(&source.args(shape.input[0] * shape.input[1]))
        .slices([out])
        .args(&[Arg::optional(choices)])
        .counts([images])
        .counts(window(shape))
        .launch_variant(&variant, [blocks(queue, to / pack), 1, 1], [256, 1, 1], 0)
}

/// The gradient of [`pool`].
pub(crate) fn pool_backward(
    queue: &dyn Queue,
    images: usize,
    shape: PoolShape,
    kind: PoolKind,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let [out, from] = lens(images, shape);
    let choices = match kind {
        PoolKind::Max(choices) => Some(choices),
        PoolKind::Mean => None,
    };
    let (variant, pack) = variant("pool_back", shape.channels, &[gradient, to.slice]);
    Call::new(queue, "pool_back")
        .slice("the gradient", gradient, from)
        .args(&[Arg::optional(choices)])
        .slice("the result", to.slice, out)
        .flag(to.accumulate)
        .counts([images])
        .counts(window(shape))
        .launch_variant(&variant, [blocks(queue, out / pack), 1, 1], [256, 1, 1], 0)
}

/// Gathers the sums of the batch norm below a max pool and makes what its gradient needs: as [`pool_backward`] and the norm's own
/// sums do together, without a gradient for every pixel in between. `source` is what was pooled.
pub(crate) fn max_pool_sums(
    queue: &dyn Queue,
    of: NormGradient,
    shape: PoolShape,
    choices: DeviceSlice,
    gradient: DeviceSlice,
    source: Term,
) -> Result<(), CudaError> {
    let (images, channels) = (of.extent.images, shape.channels);
    let [from, to] = lens(images, shape);
    let along = channels.clamp(1, SUMS_THREADS);
    let tiles = channels.div_ceil(along);
    let most = (SUMS_WAVES * queue.multiprocessors()).div_ceil(tiles);
    let rows = images * shape.output[0];
    let grid = RowGrid {
        wide: false,
        block: [along as u32, (SUMS_THREADS / along) as u32, 1],
        grid: [rows.min(most) as u32, tiles as u32, 1],
    };
    let [workspace, _] = partials("max_pool_sums", of.workspace, &grid, channels, 2)?;
    Call::new(queue, "max_pool_sums")
        .slice("the gradient", gradient, to)
        .slice("the choices", choices, to)
        .slice("the input", source.values, from)
        .slices([of.tables.slice])
        .activation(source.activation)
        .slices([workspace])
        .counts([images])
        .counts(window(shape))
        .launch(grid.grid, grid.block, grid.shared(1))?;
    let half = workspace.len / 2;
    let sums = [workspace.first(half), workspace.part(half..workspace.len)];
    batch_finish(queue, of, sums, grid.parts())
}

/// Mean over all pixels of an image.
pub(crate) fn global_mean(queue: &dyn Queue, extent: Extent, source: Term, out: DeviceSlice) -> Result<(), CudaError> {
    let rows = RowGrid::new(queue, [1, 1, extent.channels], 1, &[source.values, out]);
    let grid = RowGrid { grid: [extent.images as u32, rows.grid[1], 1], ..rows };
    Call::new(queue, "global_mean")
        .expect("the input", source.values, extent.len())
        .args(&source.args(extent.pixels))
        .slice("the result", out, extent.images * extent.channels)
        .counts([extent.pixels, extent.channels])
        .launch_rows(&grid, rows.shared(1))
}

/// The gradient of [`global_mean`].
pub(crate) fn global_mean_backward(
    queue: &dyn Queue,
    extent: Extent,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let rows = extent.images * extent.pixels;
    let grid = RowGrid::new(queue, [1, rows, extent.channels], 16, &[gradient, to.slice]);
    Call::new(queue, "global_mean_back")
        .slice("the gradient", gradient, extent.images * extent.channels)
        .slice("the result", to.slice, extent.len())
        .flag(to.accumulate)
        .counts([extent.pixels, rows, extent.channels])
        .launch_rows(&grid, 0)
}
