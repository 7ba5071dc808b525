//! Pointwise convolutions and their gradients together with the norms around them.

use super::norm::{self, Statistics, Tables, Term};
use super::norm_backward::{NormGradient, batch_finish};
use super::{Queue, Target, activation_code};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};
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
    expect_len("pointwise", "the input", of.source.values, rows * of.ins)?;
    expect_len("pointwise", "the weights", of.weights, outs * of.ins)?;
    expect_len("pointwise", "the result", of.out, rows * outs)?;
    let parts = rows.div_ceil(ROWS);
    let workspace = of.statistics.workspace;
    expect_len("pointwise", "the sums", workspace, partials_len(extent))?;
    let sums = 2 * parts * outs;
    let places = [workspace.first(sums), workspace.part(sums..sums + parts)];
    let columns = columns_of(outs);
    let [values, scale, shift, activation, _] = of.source.args(0);
    let args = [
        values,
        scale,
        shift,
        activation,
        Arg::Slice(of.weights),
        Arg::Slice(of.out),
        Arg::Slice(places[0]),
        Arg::Slice(places[1]),
        Arg::count(rows),
        Arg::count(of.ins),
        Arg::count(outs),
    ];
    let element = of.out.element.bytes();
    queue.launch(
        &format!("pointwise_{columns}"),
        [(outs / columns) as u32, parts as u32, 1],
        [256, 1, 1],
        shared_bytes(element, [columns, SLICE / element], columns),
        &args,
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
    expect_len("pointwise_back", "the gradient", of.gradient, len)?;
    expect_len("pointwise_back", "the values", of.above.values, len)?;
    expect_len("pointwise_back", "the weights", of.weights, of.outs * ins)?;
    expect_len("pointwise_back", "the result", of.to.slice, rows * ins)?;
    let parts = rows.div_ceil(ROWS);
    expect_len("pointwise_back", "the sums", of.workspace, partials_len(of.extent))?;
    let third = parts * ins;
    let columns = columns_of(ins);
    let absent = [Arg::Null, Arg::Null];
    let (name, mask, norms, below) = match end {
        End::Plain => ("plain", None, [absent; 2], None),
        End::Sums(norm, activation, values) => {
            let first = [Arg::Slice(values), Arg::Slice(norm.tables.centre())];
            let term = below(norm.tables, activation, values);
            ("sums", None, [first, absent], Some(term))
        }
        End::Join(mask, norms) => {
            let norm = |at: usize| match norms.get(at) {
                Some((norm, values)) => [Arg::Slice(*values), Arg::Slice(norm.tables.centre())],
                None => absent,
            };
            ("join", mask, [norm(0), norm(1)], None)
        }
    };
    let [_, scale, shift, activation, _] = below.map_or([Arg::Null; 5], |term| term.args(0));
    let activation = if below.is_some() { activation } else { Arg::I32(0) };
    let args = [
        Arg::Slice(of.gradient),
        Arg::Slice(of.above.values),
        Arg::Slice(tables.slice),
        Arg::I32(activation_code(of.above.activation)),
        Arg::Slice(of.weights),
        Arg::Slice(of.to.slice),
        of.to.add(),
        Arg::optional(mask),
        norms[0][0],
        norms[0][1],
        norms[1][0],
        norms[1][1],
        scale,
        shift,
        activation,
        Arg::Slice(of.workspace),
        Arg::count(rows),
        Arg::count(of.outs),
        Arg::count(ins),
    ];
    let element = of.to.slice.element.bytes();
    queue.launch(
        &format!("pointwise_back_{name}_{columns}"),
        [(ins / columns) as u32, parts as u32, 1],
        [256, 1, 1],
        shared_bytes(element, [SLICE / element, columns], columns),
        &args,
    )?;
    let sums = of.workspace.first(third);
    let finish = |at: usize, norm: NormGradient| {
        let products = of.workspace.part((1 + at) * third..(2 + at) * third);
        batch_finish(queue, norm, [sums, products], parts)
    };
    match end {
        End::Plain => {}
        End::Sums(norm, ..) => finish(0, norm)?,
        End::Join(_, norms) => {
            for (at, (norm, _)) in norms.iter().enumerate() {
                finish(at, *norm)?;
            }
        }
    }
    Ok(())
}

fn below(tables: Tables, activation: Activation, values: DeviceSlice) -> Term {
    Term { values, tables: Some(tables), activation }
}

/// Two stages of both factors, the second of so many rows and columns, or the result as 32-bit floats. Rows of the first factor, and of
/// one laid out like it, are padded by 16 bytes, others by eight elements.
fn shared_bytes(element: usize, [rows, across]: [usize; 2], columns: usize) -> usize {
    let slice = SLICE / element;
    let padding = if across == slice { 16 / element } else { 8 };
    let stage = element * (ROWS * (slice + 16 / element) + rows * (across + padding));
    (2 * stage).max(4 * ROWS * (columns + 8))
}
