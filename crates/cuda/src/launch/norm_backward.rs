//! Gradients of batch and group norms, and of joins of what they normalise.

use super::norm::{MERGED, PASS_WAVES, SLICES, Tables, Term, partials};
use super::rows::RowGrid;
use super::{Call, Queue, Target};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
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
    Call::new(queue, "group_finish")
        .slices([workspace])
        .counts([grid.parts()])
        .slices([scale, of.tables.slice])
        .counts([of.tables.len])
        .slice("the merged sums", merged, 2 * images * channels)
        .counts([channels, pixels])
        .launch([images as u32, groups as u32, 1], [128, 1, 1], 0)?;
    Call::new(queue, "group_affine")
        .slices([merged, of.tables.slice])
        .counts([of.tables.len])
        .slices(of.affine)
        .counts([images, channels])
        .launch([channels.div_ceil(128) as u32, 1, 1], [128, 1, 1], 0)
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
    let rows = extent.images * extent.pixels / images;
    let slices = [gradient, values];
    let grid = RowGrid::reducing(queue, [images, rows, extent.channels], SUMS_WAVES, &slices);
    let [workspace, _] = partials("norm_sums", of.workspace, &grid, extent.channels, 2)?;
    Call::new(queue, "norm_sums")
        .slice("the gradient", gradient, extent.len())
        .slice("the input", values, extent.len())
        .slices([of.tables.slice])
        .counts([of.tables.len])
        .activation(activation)
        .slices([workspace])
        .counts([rows, extent.channels])
        .launch_rows(&grid, grid.shared(1))?;
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
    Call::new(queue, "batch_finish")
        .slices([sums, products])
        .counts([parts])
        .floats(of.of_batch)
        .slices([of.tables.slice])
        .slices(of.affine)
        .counts([channels])
        .launch([channels.div_ceil(MERGED) as u32, 1, 1], [MERGED as u32, SLICES, 1], 0)
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
    let mut slices = vec![gradient];
    slices.extend(of.other);
    slices.extend(norms.iter().map(|(_, values)| *values));
    let rows = extent.images * extent.pixels;
    let grid = RowGrid::reducing(queue, [1, rows, extent.channels], JOIN_WAVES, &slices);
    let [workspace, _] = partials("join_back", of.workspace, &grid, extent.channels, 3)?;
    let kernel = if of.other.is_some() { "join_back_other" } else { "join_back" };
    let call = Call::new(queue, kernel)
        .slice("the gradient", gradient, extent.len())
        .args(&[of.other, of.mask].map(Arg::optional));
    joined(call, norms, extent.len())
        .slices([workspace])
        .counts([rows, extent.channels])
        .launch_rows(&grid, grid.shared(1))?;
    finish_norms(queue, norms, workspace, grid.parts())
}

/// Finishes the norms of a join: `workspace` holds the sums that so many blocks left, then the products of each norm.
pub(super) fn finish_norms(
    queue: &dyn Queue,
    norms: &[(NormGradient, DeviceSlice)],
    workspace: DeviceSlice,
    parts: usize,
) -> Result<(), CudaError> {
    let third = workspace.len / 3;
    for (at, (of, _)) in norms.iter().enumerate() {
        let products = workspace.part((1 + at) * third..(2 + at) * third);
        batch_finish(queue, *of, [workspace.first(third), products], parts)?;
    }
    Ok(())
}

/// Adds what up to two norms of a join normalised, each at least `len` elements, with the means they used.
pub(super) fn joined<'a>(mut call: Call<'a>, norms: &[(NormGradient, DeviceSlice)], len: usize) -> Call<'a> {
    for at in 0..2 {
        call = match norms.get(at) {
            Some((of, values)) => call.slice("the input of a norm", *values, len).slices([of.tables.centre()]),
            None => call.args(&[Arg::Null, Arg::Null]),
        };
    }
    call
}

/// Carries the gradient of the derived value `of` to what it is derived from.
pub(crate) fn through(
    queue: &dyn Queue,
    extent: Extent,
    of: Term,
    gradient: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let rows = extent.images * extent.pixels;
    let slices = [gradient, of.values, to.slice];
    let grid = RowGrid::new(queue, [1, rows, extent.channels], PASS_WAVES, &slices);
    Call::new(queue, "through_norm")
        .slice("the gradient", gradient, extent.len())
        .slice("the input", of.values, extent.len())
        .args(&[Arg::optional(of.tables.map(|tables| tables.slice))])
        .counts([of.tables.map_or(0, |tables| tables.len)])
        .activation(of.activation)
        .args(&[Tables::pixels(of.tables, extent.pixels)])
        .slice("the result", to.slice, extent.len())
        .flag(to.accumulate)
        .counts([rows, extent.channels])
        .launch_rows(&grid, 0)
}
