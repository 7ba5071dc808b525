//! Pointwise convolutions and their gradients together with the norms around them.

use super::norm::{self, Statistics, Term};
use super::norm_backward::{NormGradient, finish_norms, joined};
use super::{Call, Queue, Target, expect_len};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use crate::precision::Precision;
use flipcast_graph::Activation;
use flipcast_graph::Extent;

/// Rows of a block's tile, columns of it, and bytes of the summed axis that it takes at a time, as in `pointwise.cuh`.
const ROWS: usize = 128;
const COLUMNS: [usize; 2] = [128, 64];
const SLICE: usize = 128;

/// Whether the kernels make products of so many columns that sum over so many, in a precision of tensor cores.
pub(crate) fn fits(precision: Precision, columns: usize, summed: usize) -> bool {
    precision != Precision::F32
        && columns.is_multiple_of(COLUMNS[1])
        && (summed * precision.element().bytes()).is_multiple_of(SLICE)
}

/// Whether the kernels know an activation: those that are clamps.
pub(crate) fn knows(activation: Activation) -> bool {
    matches!(activation, Activation::Identity | Activation::Relu | Activation::Relu6)
}

/// Floats of partial sums that are left of a gradient of `extent`.
pub(crate) fn partials_len(extent: Extent) -> usize {
    3 * (extent.images * extent.pixels).div_ceil(ROWS) * extent.channels
}

/// A convolution of a value that is normalised on the way, whose result is normalised next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    pub ins: usize,
    pub source: Term,
    pub weights: DeviceSlice,
    pub out: DeviceSlice,
    /// Of the result; its values are not read.
    pub statistics: Statistics,
}

/// Runs a convolution and makes the tables of the norm on top of it.
pub(crate) fn forward(
    queue: &dyn Queue,
    of: Forward,
    running: [DeviceSlice; 2],
    mixture: (f32, bool),
) -> Result<(), CudaError> {
    let extent = of.statistics.extent;
    let (rows, outs) = (extent.images * extent.pixels, extent.channels);
    let parts = rows.div_ceil(ROWS);
    let workspace = of.statistics.workspace;
    expect_len("pointwise", "the sums", workspace, partials_len(extent))?;
    let sums = 2 * parts * outs;
    let places = [workspace.first(sums), workspace.part(sums..sums + parts)];
    let columns = columns_of(outs);
    let element = of.out.element.bytes();
    Call::new(queue, "pointwise")
        .expect("the input", of.source.values, rows * of.ins)
        .args(&of.source.args(0)[..4])
        .slice("the weights", of.weights, outs * of.ins)
        .slice("the result", of.out, rows * outs)
        .slices(places)
        .counts([rows, of.ins, outs])
        .launch_variant(
            &format!("pointwise_{columns}"),
            [(outs / columns) as u32, parts as u32, 1],
            [256, 1, 1],
            shared_bytes(element, [columns, SLICE / element], columns),
        )?;
    norm::batch_finish(queue, of.statistics, running, mixture, (places, parts))
}

/// Columns of a tile of so many in all.
fn columns_of(all: usize) -> usize {
    let columns = COLUMNS.into_iter().find(|n| all.is_multiple_of(*n));
    columns.expect("`fits` was asked")
}

/// A gradient on its way through a norm and the pointwise convolution below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    /// Of what the convolution reads.
    pub extent: Extent,
    pub outs: usize,
    /// The normalised result of the convolution, and its gradient.
    pub above: Term,
    pub gradient: DeviceSlice,
    pub weights: DeviceSlice,
    pub to: Target,
    pub workspace: DeviceSlice,
}

/// What the result is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// One contribution, or a gradient that nobody else needs yet.
    Plain,
    /// The complete gradient of a value normalised by this norm below this activation, with what it normalised.
    Sums(NormGradient, Activation, DeviceSlice),
    /// The complete gradient of a join, with the mask of its slope, the norms joined there and what they normalised.
    Join(Option<DeviceSlice>, &'a [(NormGradient, DeviceSlice)]),
}

/// Carries a gradient back.
pub(crate) fn back(queue: &dyn Queue, of: Back, end: End<'_>) -> Result<(), CudaError> {
    let (rows, ins) = (of.extent.images * of.extent.pixels, of.extent.channels);
    let Some(tables) = of.above.tables else { unreachable!("only gradients of norms are carried this way") };
    let len = rows * of.outs;
    let parts = rows.div_ceil(ROWS);
    let third = parts * ins;
    let columns = columns_of(ins);
    let summed;
    let (name, mask, norms, below) = match end {
        End::Plain => ("plain", None, [].as_slice(), None),
        End::Sums(norm, activation, values) => {
            summed = [(norm, values)];
            ("sums", None, summed.as_slice(), Some(Term { values, tables: Some(norm.tables), activation }))
        }
        End::Join(mask, norms) => ("join", mask, norms, None),
    };
    let below = below.map_or([Arg::Null, Arg::Null, Arg::I32(0)], |term| {
        let [_, scale, shift, activation, _] = term.args(0);
        [scale, shift, activation]
    });
    let call = Call::new(queue, "pointwise_back")
        .slice("the gradient", of.gradient, len)
        .slice("the values", of.above.values, len)
        .slices([tables.slice])
        .activation(of.above.activation)
        .slice("the weights", of.weights, of.outs * ins)
        .slice("the result", of.to.slice, rows * ins)
        .flag(of.to.accumulate)
        .args(&[Arg::optional(mask)]);
    let element = of.to.slice.element.bytes();
    joined(call, norms, rows * ins)
        .args(&below)
        .slice("the sums", of.workspace, partials_len(of.extent))
        .counts([rows, of.outs, ins])
        .launch_variant(
            &format!("pointwise_back_{name}_{columns}"),
            [(ins / columns) as u32, parts as u32, 1],
            [256, 1, 1],
            shared_bytes(element, [SLICE / element, columns], columns),
        )?;
    finish_norms(queue, norms, of.workspace.first(3 * third), parts)
}

/// Two stages of both factors, the second of so many rows and columns, or the result as 32-bit floats. Rows of the first factor, and of
/// one laid out like it, are padded by 16 bytes, others by eight elements.
fn shared_bytes(element: usize, [rows, across]: [usize; 2], columns: usize) -> usize {
    let slice = SLICE / element;
    let padding = if across == slice { 16 / element } else { 8 };
    let stage = element * (ROWS * (slice + 16 / element) + rows * (across + padding));
    (2 * stage).max(4 * ROWS * (columns + 8))
}
