//! What a graph's layers come to on the device.

use crate::error::CudaError;
use crate::launch::preprocess::InputLayout;
use crate::layers::Layer;
use crate::module::Kernels;
use crate::precision::{Element, Precision};
use flipcast_executor::param;
use flipcast_graph::{Conv2d, ConvShape, ConvSpec, Dims, Graph, NodeId, Op, Plan, Step, Storage, ValueId};
use flipcast_tensor::Tensor;
use std::borrow::Cow;
use std::collections::HashMap;

/// How the input is laid out. Where one convolution alone reads it, blocks of `stride` by `stride` pixels become one pixel
/// with all their channels, and its padding becomes part of the input: what is left is a convolution of stride 1 that fills
/// the 16 bytes that tensor cores read at a time, which three channels never do.
pub(crate) fn input_layout(graph: &Graph, plan: &Plan, precision: Precision) -> InputLayout {
    let options = plan.options();
    let as_given = InputLayout::as_given(Dims::new(options.height, options.width, graph.input_channels()));
    let is_input = |value: ValueId| plan.value(plan.base(value)).storage == Storage::Input;
    let mut readers = plan.forward().iter().filter(|step| step.sources().into_iter().any(is_input));
    let (Some(Step::Conv { node, source, target, .. }), None) = (readers.next(), readers.next()) else {
        return as_given;
    };
    let Op::Conv2d(conv) = &graph.node(*node).op else {
        return as_given;
    };
    let input = plan.value(*source);
    if conv.groups != 1 || conv.dilation != 1 || input.storage != Storage::Input {
        return as_given;
    }
    let (padding, _) = conv.resolve(input.dims).expect("dims were inferred from this");
    let output = plan.value(*target).dims;
    let taps = block_taps(conv.kernel, conv.stride, padding);
    let channels = conv.stride * conv.stride * input.dims.channels;
    InputLayout {
        block: conv.stride,
        extents: [output.height + taps[0] - 1, output.width + taps[1] - 1],
        channels: channels.next_multiple_of(16 / precision.element().bytes()),
        before: padding.map(|zeros| zeros.div_ceil(conv.stride)),
    }
}

/// Blocks that a filter reaches over, along either axis.
fn block_taps(kernel: [usize; 2], stride: usize, padding: [usize; 2]) -> [usize; 2] {
    std::array::from_fn(|axis| {
        let before = padding[axis].div_ceil(stride);
        (kernel[axis] + before * stride - padding[axis]).div_ceil(stride)
    })
}

/// The filter that does on blocks what `weights` do on pixels: `[out][row in block, column in block, in][row][column]`.
fn block_weights(conv: &Conv2d, ins: usize, padding: [usize; 2], weights: &[f32]) -> Vec<f32> {
    let ([rows, columns], stride) = (conv.kernel, conv.stride);
    let taps = block_taps(conv.kernel, stride, padding);
    let shift: [usize; 2] = std::array::from_fn(|axis| padding[axis].div_ceil(stride) * stride - padding[axis]);
    let (area, channels) = (taps[0] * taps[1], stride * stride * ins);
    let mut out = vec![0.0; conv.out_channels * channels * area];
    for (at, weight) in weights.iter().enumerate() {
        let (x, y) = (at % columns + shift[1], at / columns % rows + shift[0]);
        let (c, k) = (at / (rows * columns) % ins, at / (rows * columns) / ins);
        let channel = (y % stride * stride + x % stride) * ins + c;
        out[(k * channels + channel) * area + y / stride * taps[1] + x / stride] = *weight;
    }
    out
}

/// The layer of a convolution or linear step, with nothing chosen yet.
pub(crate) fn layer(
    graph: &Graph,
    plan: &Plan,
    params: &HashMap<String, Tensor>,
    (node, source, target): (NodeId, ValueId, ValueId),
    kernels: &Kernels,
    layout: InputLayout,
) -> Result<Layer, CudaError> {
    let input = plan.value(source).dims;
    let (op, name) = (&graph.node(node).op, &graph.node(node).name);
    let ConvSpec { mut shape, weight_extents, has_bias } = plan.conv_spec(graph, node, source, target);
    let weights = param(params, &format!("{name}.weight"), &weight_extents)?;
    let bias = match has_bias {
        true => Some(param(params, &format!("{name}.bias"), &[shape.out_channels])?),
        false => None,
    };
    let mut weights = Cow::Borrowed(weights);
    if let Op::Conv2d(conv) = op
        && plan.value(source).storage == Storage::Input
        && layout != InputLayout::as_given(input)
    {
        weights = Cow::Owned(block_weights(conv, input.channels, shape.padding, &weights));
        let taps = block_taps(conv.kernel, conv.stride, shape.padding);
        shape = ConvShape {
            input: layout.extents,
            in_channels: layout.channels,
            kernel: taps,
            stride: 1,
            padding: [0, 0],
            ..shape
        };
    }
    let element = kernels.precision.element();
    let pointwise = shape.kernel == [1, 1] && shape.stride == 1 && shape.padding == [0, 0] && shape.groups == 1;
    // Logits are kept in 32 bits where the matrix library can write them so.
    let result = if target == plan.logits() && pointwise && shape.in_channels.is_multiple_of(8) {
        Element::F32
    } else {
        element
    };
    Layer::new(&kernels.device, kernels.precision, shape, &weights, bias, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A convolution on blocks gives what the one on pixels gives, for any padding and stride.
    #[test]
    fn filters_on_blocks_equal_filters_on_pixels() {
        for (kernel, stride, padding, size) in [(7, 2, 3, 16), (3, 2, 1, 9), (3, 1, 1, 6), (4, 4, 0, 12), (3, 2, 0, 8)]
        {
            let conv = Conv2d::new(3, 2, kernel).stride(stride);
            let weights: Vec<f32> = (0..2 * 3 * kernel * kernel).map(|i| (i as f32 * 0.37).sin()).collect();
            let outputs = (size + 2 * padding - kernel) / stride + 1;
            let image = |y: isize, x: isize, c: usize| {
                let inside = (0..size as isize).contains(&y) && (0..size as isize).contains(&x);
                if inside { ((y * 31 + x * 7 + c as isize) as f32 * 0.11).cos() } else { 0.0 }
            };
            let taps = block_taps(conv.kernel, stride, [padding; 2]);
            let blocks = block_weights(&conv, 3, [padding; 2], &weights);
            let before = padding.div_ceil(stride);
            let channels = stride * stride * 3;
            for (k, oy, ox) in [(0, 0, 0), (1, outputs - 1, outputs / 2), (1, 1, outputs - 1)] {
                let (mut direct, mut blocked) = (0.0, 0.0);
                for (at, w) in weights[k * 3 * kernel * kernel..(k + 1) * 3 * kernel * kernel].iter().enumerate() {
                    let (x, y, c) = (at % kernel, at / kernel % kernel, at / kernel / kernel);
                    let along = |o: usize, t: usize| (o * stride + t) as isize - padding as isize;
                    direct += w * image(along(oy, y), along(ox, x), c);
                }
                for channel in 0..channels {
                    for (ty, tx) in (0..taps[0]).flat_map(|y| (0..taps[1]).map(move |x| (y, x))) {
                        let w = blocks[((k * channels + channel) * taps[0] + ty) * taps[1] + tx];
                        let inner = channel / 3;
                        let along = |o: usize, t: usize, i: usize| {
                            ((o + t) as isize - before as isize) * stride as isize + i as isize
                        };
                        let (y, x) = (along(oy, ty, inner / stride), along(ox, tx, inner % stride));
                        blocked += w * image(y, x, channel % 3);
                    }
                }
                assert!((direct - blocked).abs() < 1e-4, "{kernel} {stride} {padding}: {direct} {blocked}");
            }
        }
    }
}
