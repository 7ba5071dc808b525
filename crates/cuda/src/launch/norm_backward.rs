//! Gradients of batch and group norms, and of joins of what they normalise.

use super::norm::{MERGED, PASS_WAVES, SLICES, Tables, Term, partials};
use super::rows::RowGrid;
use super::{Queue, Target, activation_code};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};
use flipcast_graph::Activation;
use flipcast_graph::Extent;

/// Blocks per multiprocessor that fit at once.
const SUMS_WAVES: usize = 3;
const JOIN_WAVES: usize = 2;

/// A norm's gradients: where its tables and affine gradient lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormGradient {
    pub extent: Extent,
    pub tables: Tables,
    pub workspace: DeviceSlice,
    /// Gradients of scale and shift.
    pub affine: [DeviceSlice; 2],
    /// How much of mean and variance comes from the batch, per value.
    pub of_batch: [f32; 2],
}

/// Gathers the sums of a batch norm below `activation`, and makes what its gradient needs.
pub(crate) fn batch_sums(
    queue: &dyn Queue,
    of: NormGradient,
    gradient: DeviceSlice,
    values: DeviceSlice,
    activation: Activation,
) -> Result<(), CudaError> {
    let grid = sums(queue, of, gradient, values, activation, 1)?;
    let [workspace, _] = partials("norm_sums", of.workspace, &grid, of.extent.channels, 2)?;
    let half = workspace.len / 2;
    batch_finish(queue, of, [workspace.first(half), workspace.part(half..workspace.len)], grid.parts())
}

/// The same for a group norm. `merged` is room for two floats per image and channel; `scale` is the layer's.
pub(crate) fn group_sums(
    queue: &dyn Queue,
    of: NormGradient,
    gradient: DeviceSlice,
    values: DeviceSlice,
    activation: Activation,
    (groups, scale, merged): (usize, DeviceSlice, DeviceSlice),
) -> Result<(), CudaError> {
    let Extent { images, pixels, channels } = of.extent;
    let grid = sums(queue, of, gradient, values, activation, images)?;
    let [workspace, _] = partials("norm_sums", of.workspace, &grid, channels, 2)?;
    expect_len("group_finish", "the merged sums", merged, 2 * images * channels)?;
    let tables = [Arg::Slice(of.tables.slice), Arg::count(of.tables.len)];
    let args = [
        Arg::Slice(workspace),
        Arg::count(grid.parts()),
        Arg::Slice(scale),
        tables[0],
        tables[1],
        Arg::Slice(merged),
        Arg::count(channels),
        Arg::count(pixels),
    ];
    queue.launch("group_finish", [images as u32, groups as u32, 1], [128, 1, 1], 0, &args)?;
    let args = [
        Arg::Slice(merged),
        tables[0],
        tables[1],
        Arg::Slice(of.affine[0]),
        Arg::Slice(of.affine[1]),
        Arg::count(images),
        Arg::count(channels),
    ];
    queue.launch("group_affine", [channels.div_ceil(128) as u32, 1, 1], [128, 1, 1], 0, &args)
}

fn sums(
    queue: &dyn Queue,
    of: NormGradient,
    gradient: DeviceSlice,
    values: DeviceSlice,
    activation: Activation,
    images: usize,
) -> Result<RowGrid, CudaError> {
    let extent = of.extent;
    expect_len("norm_sums", "the gradient", gradient, extent.len())?;
    expect_len("norm_sums", "the input", values, extent.len())?;
    let rows = extent.images * extent.pixels / images;
    let slices = [gradient, values];
    let grid = RowGrid::reducing(queue, [images, rows, extent.channels], SUMS_WAVES, &slices);
    let [workspace, _] = partials("norm_sums", of.workspace, &grid, extent.channels, 2)?;
    let args = [
        Arg::Slice(gradient),
        Arg::Slice(values),
        Arg::Slice(of.tables.slice),
        Arg::count(of.tables.len),
        Arg::I32(activation_code(activation)),
        Arg::Slice(workspace),
        Arg::count(rows),
        Arg::count(extent.channels),
    ];
    queue.launch(&grid.name("norm_sums"), grid.grid, grid.block, grid.shared(1), &args)?;
    Ok(grid)
}

/// Gradients of scale and shift of a batch norm, and its tables, from the sums that so many blocks left.
pub(super) fn batch_finish(
    queue: &dyn Queue,
    of: NormGradient,
    [sums, products]: [DeviceSlice; 2],
    parts: usize,
) -> Result<(), CudaError> {
    let channels = of.extent.channels;
    let args = [
        Arg::Slice(sums),
        Arg::Slice(products),
        Arg::count(parts),
        Arg::F32(of.of_batch[0]),
        Arg::F32(of.of_batch[1]),
        Arg::Slice(of.tables.slice),
        Arg::Slice(of.affine[0]),
        Arg::Slice(of.affine[1]),
        Arg::count(channels),
    ];
    queue.launch("batch_finish", [channels.div_ceil(MERGED) as u32, 1, 1], [MERGED as u32, SLICES, 1], 0, &args)
}

/// The gradient of a join on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinGradient {
    pub extent: Extent,
    /// The gradient, changed in place.
    pub gradient: DeviceSlice,
    /// A contribution still to be added.
    pub other: Option<DeviceSlice>,
    /// Where its slope is one, if not everywhere.
    pub mask: Option<DeviceSlice>,
    pub workspace: DeviceSlice,
}

/// A join's gradient, plus `other` if given, times the slope, in place. Gathers the sums of up to two batch norms joined there,
/// each with the values it normalised.
pub(crate) fn join_backward(
    queue: &dyn Queue,
    of: JoinGradient,
    norms: &[(NormGradient, DeviceSlice)],
) -> Result<(), CudaError> {
    let JoinGradient { extent, gradient, .. } = of;
    expect_len("join_back", "the gradient", gradient, extent.len())?;
    let mut slices = vec![gradient];
    slices.extend(of.other);
    for (_, values) in norms {
        expect_len("join_back", "the input of a norm", *values, extent.len())?;
        slices.push(*values);
    }
    let rows = extent.images * extent.pixels;
    let grid = RowGrid::reducing(queue, [1, rows, extent.channels], JOIN_WAVES, &slices);
    let [workspace, _] = partials("join_back", of.workspace, &grid, extent.channels, 3)?;
    let norm = |at: usize| match norms.get(at) {
        Some((of, values)) => [Arg::Slice(*values), Arg::Slice(of.tables.centre())],
        None => [Arg::Null, Arg::Null],
    };
    let args = [
        [Arg::Slice(gradient), Arg::optional(of.other), Arg::optional(of.mask)].as_slice(),
        &norm(0),
        &norm(1),
        &[Arg::Slice(workspace), Arg::count(rows), Arg::count(extent.channels)],
    ]
    .concat();
    let name = if of.other.is_some() { "join_back_other" } else { "join_back" };
    queue.launch(&grid.name(name), grid.grid, grid.block, grid.shared(1), &args)?;
    let third = workspace.len / 3;
    for (at, (of, _)) in norms.iter().enumerate() {
        let products = workspace.part((1 + at) * third..(2 + at) * third);
        batch_finish(queue, *of, [workspace.first(third), products], grid.parts())?;
    }
    Ok(())
}

/// Carries the gradient of the derived value `of` to what it is derived from.
pub(crate) fn through(
    queue: &dyn Queue,
    extent: Extent,
    of: Term,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    expect_len("through_norm", "the gradient", gradient, extent.len())?;
    expect_len("through_norm", "the input", of.values, extent.len())?;
    expect_len("through_norm", "the result", to.slice, extent.len())?;
    let rows = extent.images * extent.pixels;
    let slices = [gradient, of.values, to.slice];
    let grid = RowGrid::new(queue, [1, rows, extent.channels], PASS_WAVES, &slices);
    let args = [
        Arg::Slice(gradient),
        Arg::Slice(of.values),
        Arg::optional(of.tables.map(|tables| tables.slice)),
        Arg::count(of.tables.map_or(0, |tables| tables.len)),
        Arg::I32(activation_code(of.activation)),
        Tables::pixels(of.tables, extent.pixels),
        Arg::Slice(to.slice),
        to.add(),
        Arg::count(rows),
        Arg::count(extent.channels),
    ];
    queue.launch(&grid.name("through_norm"), grid.grid, grid.block, 0, &args)
}
