//! Layer norm.

use super::{Call, Queue, Target, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;

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
    let runs = runs(queue, channels, &[values, scale, shift, out]);
    let grid = tokens.div_ceil(8).min(16 * queue.multiprocessors()) as u32;
    Call::new(queue, "layer_norm")
        .slice("the input", values, tokens * channels)
        .slice("the scale", scale, channels)
        .slice("the shift", shift, channels)
        .slice("the result", out, tokens * channels)
        .counts([tokens, channels])
        .floats([eps])
        .counts([runs])
        .launch([grid, 1, 1], [256, 1, 1], 0)
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
    let LayerNormShape { tokens, channels, eps } = shape;
    let mut slices = vec![of.values, of.gradient, of.scale];
    slices.extend(of.target.map(|target| target.slice));
    let runs = runs(queue, channels, &slices);
    let (warps, rows) = match runs {
        0 => (1, tokens.min(8 * queue.multiprocessors())),
        _ => (WARPS, tokens.div_ceil(WARPS).min(RESIDENT * queue.multiprocessors())),
    };
    Call::new(queue, "layer_norm_backward")
        .expect("the affine gradient", of.affine, 2 * channels)
        .slice("the input", of.values, tokens * channels)
        .slice("the gradient", of.gradient, tokens * channels)
        .slice("the scale", of.scale, channels)
        .optional("the result", of.target.map(|target| target.slice), tokens * channels)
        .slice("the partial sums", of.partials, partials_len(queue, shape))
        .counts([tokens, channels])
        .floats([eps])
        .flag(of.target.is_some_and(|target| target.accumulate))
        .counts([runs])
        .launch([rows as u32, 1, 1], [32 * warps as u32, 1, 1], 8 * channels)?;
    let columns = (2 * channels).div_ceil(32) as u32;
    let sums = Call::new(queue, "sum_rows").slices([of.partials, of.affine]).counts([rows, 2 * channels]);
    sums.launch([columns, 1, 1], [32, 8, 1], 0)
}

/// Vectors of 16 bytes that a lane keeps of a token: a power of two, or 0 when it would be too many or they are not aligned.
fn runs(queue: &dyn Queue, channels: usize, slices: &[DeviceSlice]) -> usize {
    let width = 16 / queue.precision().element().bytes();
    let runs = (channels / width).div_ceil(32).next_power_of_two();
    let fits = wide(queue.precision(), channels, slices) && runs * width <= LANE_CHANNELS;
    if fits { runs } else { 0 }
}
