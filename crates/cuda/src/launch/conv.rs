//! Convolutions of our own: depthwise ones, and a plain loop for what no library runs.

use super::norm::Term;
use super::{Call, Queue, Target};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::gemm::Direction;
use crate::module::Arg;
use flipcast_graph::ConvShape;

/// Outputs in a row that a thread of the 3x3 depthwise kernel makes.
const STRIP: usize = 4;

fn extents(images: usize, shape: &ConvShape) -> [usize; 14] {
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

/// Any convolution, or its gradient; weights `[out][row][column][in]`.
pub(crate) fn plain(
    queue: &dyn Queue,
    direction: Direction,
    images: usize,
    shape: &ConvShape,
    [source, weights]: [DeviceSlice; 2],
    to: Target,
) -> Result<(), CudaError> {
    let [input, output] = lens(images, shape);
    let (kernel, what, [from, out]) = match direction {
        Direction::Forward => ("conv_plain", "the input", [input, output]),
        Direction::Backward => ("conv_plain_back", "the gradient", [output, input]),
    };
    Call::new(queue, kernel)
        .slice(what, source, from)
        .slices([weights])
        .slice("the result", to.slice, out)
        .flag(to.accumulate)
        .counts(extents(images, shape))
        .over(out)
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
    let small = shape.kernel == [3, 3] && shape.dilation == 1;
    let (name, count) = match shape.stride {
        1 if small => ("depthwise_3_1", strips(images, shape)),
        2 if small => ("depthwise_3_2", strips(images, shape)),
        _ => ("depthwise_any", out / 4),
    };
    Call::new(queue, name)
        .expect("the input", source.values, from)
        .args(&source.args(shape.input[0] * shape.input[1]))
        .slices([weights])
        .args(&[Arg::optional(bias)])
        .slice("the result", to.slice, out)
        .flag(to.accumulate)
        .counts(extents(images, shape))
        .launch([count.div_ceil(256) as u32, 1, 1], [256, 1, 1], 0)
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
    let (name, count) = if shape.kernel == [3, 3] && shape.dilation == 1 && shape.stride == 2 {
        // Two by two inputs per thread, counted from the padding on.
        let along = |axis: usize| (shape.input[axis] - 1 + shape.padding[axis]) / 2 + 1;
        let squares = images * along(0) * along(1);
        ("depthwise_3_back_2", squares * shape.in_channels / 4)
    } else {
        ("depthwise_back", out / 4)
    };
    Call::new(queue, name)
        .slice("the gradient", gradient, from)
        .slices([weights])
        .slice("the result", to.slice, out)
        .flag(to.accumulate)
        .counts(extents(images, shape))
        .launch([count.div_ceil(256) as u32, 1, 1], [256, 1, 1], 0)
}

/// Adds a bias per channel, 32-bit.
pub(crate) fn add_bias(queue: &dyn Queue, values: DeviceSlice, bias: DeviceSlice) -> Result<(), CudaError> {
    Call::new(queue, "add_bias")
        .slices([values, bias])
        .args(&[Arg::I64(values.len as i64)])
        .counts([bias.len])
        .over(values.len)
}
