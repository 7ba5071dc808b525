//! Layer norm.

use super::{Queue, Target, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};

/// Warps of a block in the backward pass.
const WARPS: usize = 4;
/// Blocks per multiprocessor in the backward pass: as many as their registers leave room for.
const RESIDENT: usize = 3;
/// Most channels of a token that a lane keeps.
const LANE_CHANNELS: usize = 32;

/// Tokens of `channels` elements, and what is added to their variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LayerNormShape {
    pub tokens: usize,
    pub channels: usize,
    pub eps: f32,
}

/// Floats of partial sums that [`backward`] needs.
pub(crate) fn partials_len(queue: &dyn Queue, shape: LayerNormShape) -> usize {
    let rows = shape.tokens.min(8 * queue.multiprocessors());
    2 * shape.channels * rows
}

/// `out = scale * (value - mean) / sqrt(variance + eps) + shift`, mean and variance over a token's channels.
pub(crate) fn forward(
    queue: &dyn Queue,
    shape: LayerNormShape,
    values: DeviceSlice,
    [scale, shift]: [DeviceSlice; 2],
    out: DeviceSlice,
) -> Result<(), CudaError> {
    let LayerNormShape { tokens, channels, eps } = shape;
    expect_len("layer_norm", "the input", values, tokens * channels)?;
    expect_len("layer_norm", "the result", out, tokens * channels)?;
    expect_len("layer_norm", "the scale", scale, channels)?;
    expect_len("layer_norm", "the shift", shift, channels)?;
    let runs = runs(queue, channels, &[values, scale, shift, out]);
    let grid = tokens.div_ceil(8).min(16 * queue.multiprocessors()) as u32;
    let args = [
        Arg::Slice(values),
        Arg::Slice(scale),
        Arg::Slice(shift),
        Arg::Slice(out),
        Arg::count(tokens),
        Arg::count(channels),
        Arg::F32(eps),
        Arg::count(runs),
    ];
    queue.launch("layer_norm", [grid, 1, 1], [256, 1, 1], 0, &args)
}

/// What [`backward`] reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNormGradient {
    /// What was normalised.
    pub values: DeviceSlice,
    /// Gradient of the result.
    pub gradient: DeviceSlice,
    pub scale: DeviceSlice,
    /// Gradient of the input, if it is wanted.
    pub target: Option<Target>,
    /// At least [`partials_len`] floats.
    pub partials: DeviceSlice,
    /// Gradient of the scale, and directly behind it that of the shift.
    pub affine: DeviceSlice,
}

/// Gradients of scale and shift, and of the input if it is wanted.
pub(crate) fn backward(queue: &dyn Queue, shape: LayerNormShape, of: LayerNormGradient) -> Result<(), CudaError> {
    let name = "layer_norm_backward";
    let LayerNormShape { tokens, channels, eps } = shape;
    expect_len(name, "the input", of.values, tokens * channels)?;
    expect_len(name, "the gradient", of.gradient, tokens * channels)?;
    expect_len(name, "the scale", of.scale, channels)?;
    expect_len(name, "the affine gradient", of.affine, 2 * channels)?;
    expect_len(name, "the partial sums", of.partials, partials_len(queue, shape))?;
    let mut slices = vec![of.values, of.gradient, of.scale];
    if let Some(target) = of.target {
        expect_len(name, "the result", target.slice, tokens * channels)?;
        slices.push(target.slice);
    }
    let runs = runs(queue, channels, &slices);
    let (warps, rows) = match runs {
        0 => (1, tokens.min(8 * queue.multiprocessors())),
        _ => (WARPS, tokens.div_ceil(WARPS).min(RESIDENT * queue.multiprocessors())),
    };
    let args = [
        Arg::Slice(of.values),
        Arg::Slice(of.gradient),
        Arg::Slice(of.scale),
        Arg::optional(of.target.map(|target| target.slice)),
        Arg::Slice(of.partials),
        Arg::count(tokens),
        Arg::count(channels),
        Arg::F32(eps),
        of.target.map_or(Arg::I32(0), Target::add),
        Arg::count(runs),
    ];
    let threads = 32 * warps as u32;
    queue.launch(name, [rows as u32, 1, 1], [threads, 1, 1], 8 * channels, &args)?;
    let args = [Arg::Slice(of.partials), Arg::Slice(of.affine), Arg::count(rows), Arg::count(2 * channels)];
    let columns = (2 * channels).div_ceil(32) as u32;
    queue.launch("sum_rows", [columns, 1, 1], [32, 8, 1], 0, &args)
}

/// Vectors of 16 bytes that a lane keeps of a token: a power of two, or 0 when it would be too many or they are not aligned.
fn runs(queue: &dyn Queue, channels: usize, slices: &[DeviceSlice]) -> usize {
    let width = 16 / queue.precision().element().bytes();
    let runs = (channels / width).div_ceil(32).next_power_of_two();
    let fits = wide(queue.precision(), channels, slices) && runs * width <= LANE_CHANNELS;
    if fits { runs } else { 0 }
}
