//! Pools.

use super::norm::Term;
use super::rows::RowGrid;
use super::{Queue, Target, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};
use flipcast_kernels::{Extent, PoolShape};

/// Which value of a window counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PoolKind {
    /// The largest; a byte per output notes which it was.
    Max(DeviceSlice),
    /// The mean of all.
    Mean,
}

fn window(shape: PoolShape) -> [Arg; 8] {
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
    .map(Arg::count)
}

fn lens(images: usize, shape: PoolShape) -> [usize; 2] {
    let len = |extents: [usize; 2]| images * extents[0] * extents[1] * shape.channels;
    [len(shape.input), len(shape.output)]
}

fn variant(name: &str, channels: usize, slices: &[DeviceSlice]) -> (String, usize) {
    let wide = channels.is_multiple_of(8) && slices.iter().all(|s| s.address.is_multiple_of(16));
    if wide {
        (format!("{name}_wide"), 8)
    } else {
        (format!("{name}_narrow"), 1)
    }
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
    }
    let (name, pack) = variant(name, shape.channels, &[source.values, out]);
    let args = [
        source.args(shape.input[0] * shape.input[1]).as_slice(),
        &[Arg::Slice(out), Arg::optional(choices), Arg::count(images)],
        &window(shape),
    ]
    .concat();
    let blocks = blocks(queue, to / pack);
    queue.launch(&name, [blocks, 1, 1], [256, 1, 1], 0, &args)
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
    expect_len("pool_back", "the gradient", gradient, from)?;
    expect_len("pool_back", "the result", to.slice, out)?;
    let choices = match kind {
        PoolKind::Max(choices) => Some(choices),
        PoolKind::Mean => None,
    };
    let (name, pack) = variant("pool_back", shape.channels, &[gradient, to.slice]);
    let args = [
        [
            Arg::Slice(gradient),
            Arg::optional(choices),
            Arg::Slice(to.slice),
            to.add(),
            Arg::count(images),
        ]
        .as_slice(),
        &window(shape),
    ]
    .concat();
    let blocks = blocks(queue, out / pack);
    queue.launch(&name, [blocks, 1, 1], [256, 1, 1], 0, &args)
}

/// Mean over all pixels of an image.
pub(crate) fn global_mean(
    queue: &dyn Queue,
    extent: Extent,
    source: Term,
    out: DeviceSlice,
) -> Result<(), CudaError> {
    expect_len("global_mean", "the input", source.values, extent.len())?;
    expect_len(
        "global_mean",
        "the result",
        out,
        extent.images * extent.channels,
    )?;
    let rows = RowGrid::new(queue, [1, 1, extent.channels], 1, &[source.values, out]);
    let grid = [extent.images as u32, rows.grid[1], 1];
    let args = [
        source.args(extent.pixels).as_slice(),
        &[
            Arg::Slice(out),
            Arg::count(extent.pixels),
            Arg::count(extent.channels),
        ],
    ]
    .concat();
    queue.launch(
        &rows.name("global_mean"),
        grid,
        rows.block,
        rows.shared(1),
        &args,
    )
}

/// The gradient of [`global_mean`].
pub(crate) fn global_mean_backward(
    queue: &dyn Queue,
    extent: Extent,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    expect_len(
        "global_mean_back",
        "the gradient",
        gradient,
        extent.images * extent.channels,
    )?;
    expect_len("global_mean_back", "the result", to.slice, extent.len())?;
    let rows = extent.images * extent.pixels;
    let grid = RowGrid::new(queue, [1, rows, extent.channels], 16, &[gradient, to.slice]);
    let args = [
        Arg::Slice(gradient),
        Arg::Slice(to.slice),
        to.add(),
        Arg::count(extent.pixels),
        Arg::count(rows),
        Arg::count(extent.channels),
    ];
    queue.launch(
        &grid.name("global_mean_back"),
        grid.grid,
        grid.block,
        0,
        &args,
    )
}
