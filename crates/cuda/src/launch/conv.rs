//! Convolutions of our own: depthwise ones, and a plain loop for what no library runs.

use super::norm::Term;
use super::{Queue, Target, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::gemm::Direction;
use crate::module::{Arg, expect_len};
use flipcast_graph::ConvShape;

/// Outputs in a row that a thread of the 3x3 depthwise kernel makes.
const STRIP: usize = 4;

fn extents(images: usize, shape: &ConvShape) -> [Arg; 14] {
    [
        images,
        shape.input[0],
        shape.input[1],
        shape.in_channels,
        shape.output[0],
        shape.output[1],
        shape.out_channels,
        shape.kernel[0],
        shape.kernel[1],
        shape.stride,
        shape.padding[0],
        shape.padding[1],
        shape.dilation,
        shape.groups,
    ]
    .map(Arg::count)
}

fn lens(images: usize, shape: &ConvShape) -> [usize; 2] {
    [
        images * shape.input[0] * shape.input[1] * shape.in_channels,
        images * shape.output[0] * shape.output[1] * shape.out_channels,
    ]
}

/// Whether the depthwise kernels run this shape.
pub(crate) fn is_depthwise(shape: &ConvShape) -> bool {
    shape.groups == shape.in_channels && shape.in_channels == shape.out_channels && shape.in_channels.is_multiple_of(4)
}

/// Arguments of a kernel that reads `source` and weights and writes `to`, whose lengths are checked. `kernel` is its name and what it
/// calls its source.
fn arguments(
    kernel: (&'static str, &'static str),
    images: usize,
    shape: &ConvShape,
    [source, weights]: [DeviceSlice; 2],
    to: Target,
    [from, out]: [usize; 2],
) -> Result<Vec<Arg>, CudaError> {
    let (name, what) = kernel;
    expect_len(name, what, source, from)?;
    expect_len(name, "the result", to.slice, out)?;
    let fixed = [Arg::Slice(source), Arg::Slice(weights), Arg::Slice(to.slice), to.add()];
    Ok([fixed.as_slice(), &extents(images, shape)].concat())
}

/// Any convolution, or its gradient; weights `[out][row][column][in]`.
pub(crate) fn plain(
    queue: &dyn Queue,
    direction: Direction,
    images: usize,
    shape: &ConvShape,
    operands: [DeviceSlice; 2],
    to: Target,
) -> Result<(), CudaError> {
    let [input, output] = lens(images, shape);
    let (kernel, lens) = match direction {
        Direction::Forward => (("conv_plain", "the input"), [input, output]),
        Direction::Backward => (("conv_plain_back", "the gradient"), [output, input]),
    };
    let args = arguments(kernel, images, shape, operands, to, lens)?;
    queue.launch(kernel.0, [blocks(queue, lens[1]), 1, 1], [256, 1, 1], 0, &args)
}

/// A depthwise convolution; weights `[row][column][channel]`, 32-bit. The source may be derived.
pub(crate) fn depthwise(
    queue: &dyn Queue,
    images: usize,
    shape: &ConvShape,
    source: Term,
    (weights, bias): (DeviceSlice, Option<DeviceSlice>),
    to: Target,
) -> Result<(), CudaError> {
    let [from, out] = lens(images, shape);
    expect_len("depthwise", "the input", source.values, from)?;
    expect_len("depthwise", "the result", to.slice, out)?;
    let small = shape.kernel == [3, 3] && shape.dilation == 1;
    let (name, count) = match shape.stride {
        1 if small => ("depthwise_3_1", strips(images, shape)),
        2 if small => ("depthwise_3_2", strips(images, shape)),
        _ => ("depthwise_any", out / 4),
    };
    let args = [
        source.args(shape.input[0] * shape.input[1]).as_slice(),
        &[Arg::Slice(weights), Arg::optional(bias), Arg::Slice(to.slice), to.add()],
        &extents(images, shape),
    ]
    .concat();
    let blocks = count.div_ceil(256) as u32;
    queue.launch(name, [blocks, 1, 1], [256, 1, 1], 0, &args)
}

fn strips(images: usize, shape: &ConvShape) -> usize {
    images * shape.output[0] * shape.output[1].div_ceil(STRIP) * shape.in_channels / 4
}

/// The convolution that carries a depthwise gradient back, if its stride is one; its weights are turned by half a turn.
pub(crate) fn turned(shape: &ConvShape) -> Option<ConvShape> {
    let reach = |axis: usize| shape.dilation * (shape.kernel[axis] - 1);
    let padding = [reach(0).checked_sub(shape.padding[0])?, reach(1).checked_sub(shape.padding[1])?];
    (shape.stride == 1).then_some(ConvShape { input: shape.output, output: shape.input, padding, ..*shape })
}

/// The gradient of a depthwise convolution of any stride.
pub(crate) fn depthwise_backward(
    queue: &dyn Queue,
    images: usize,
    shape: &ConvShape,
    gradient: DeviceSlice,
    weights: DeviceSlice,
    to: Target,
) -> Result<(), CudaError> {
    let [out, from] = lens(images, shape);
    let kernel = ("depthwise_back", "the gradient");
    let args = arguments(kernel, images, shape, [gradient, weights], to, [from, out])?;
    let (name, count) = if shape.kernel == [3, 3] && shape.dilation == 1 && shape.stride == 2 {
        // Two by two inputs per thread, counted from the padding on.
        let along = |axis: usize| (shape.input[axis] - 1 + shape.padding[axis]) / 2 + 1;
        let squares = images * along(0) * along(1);
        ("depthwise_3_back_2", squares * shape.in_channels / 4)
    } else {
        (kernel.0, out / 4)
    };
    let blocks = count.div_ceil(256) as u32;
    queue.launch(name, [blocks, 1, 1], [256, 1, 1], 0, &args)
}

/// Adds a bias per channel, 32-bit.
pub(crate) fn add_bias(queue: &dyn Queue, values: DeviceSlice, bias: DeviceSlice) -> Result<(), CudaError> {
    let args = [Arg::Slice(values), Arg::Slice(bias), Arg::I64(values.len as i64), Arg::count(bias.len)];
    queue.launch("add_bias", [blocks(queue, values.len), 1, 1], [256, 1, 1], 0, &args)
}
