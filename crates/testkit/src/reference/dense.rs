use super::value::ReferenceValue;
use flipcast_graph::Dims;

/// Fully connected layer with weights `[out, in]` on every pixel.
pub(super) fn linear(input: &ReferenceValue, weight: &[f64], bias: Option<&[f64]>) -> ReferenceValue {
    let Dims { height, width, channels: inputs } = input.dims;
    let dims = Dims::new(height, width, weight.len() / inputs);
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, out| {
        let row = &weight[out * inputs..(out + 1) * inputs];
        let sum: f64 = row.iter().zip(input.pixel(n, y, x)).map(|(a, b)| a * b).sum();
        sum + bias.map_or(0.0, |bias| bias[out])
    })
}

/// The gradient of a fully connected layer's input.
pub(super) fn linear_backward(gradient: &ReferenceValue, weight: &[f64]) -> ReferenceValue {
    let outputs = gradient.dims.channels;
    let inputs = weight.len() / outputs;
    let dims = Dims::new(gradient.dims.height, gradient.dims.width, inputs);
    ReferenceValue::from_fn(gradient.images(), dims, |n, y, x, i| {
        let slopes = gradient.pixel(n, y, x).iter().enumerate();
        slopes.map(|(out, g)| g * weight[out * inputs + i]).sum()
    })
}

/// Sum of two values of the same extents.
pub(super) fn add(left: &ReferenceValue, right: &ReferenceValue) -> ReferenceValue {
    ReferenceValue { dims: left.dims, values: left.values.iter().zip(&right.values).map(|(a, b)| a + b).collect() }
}

/// Product of a value and a gate, which is repeated over all pixels when it has one.
pub(super) fn mul(value: &ReferenceValue, gate: &ReferenceValue) -> ReferenceValue {
    ReferenceValue::from_fn(value.images(), value.dims, |n, y, x, c| {
        let factor = if gate.dims == value.dims { gate.at(n, y, x, c) } else { gate.at(n, 0, 0, c) };
        value.at(n, y, x, c) * factor
    })
}

/// The gradients of a value and of its gate; a repeated gate collects from all pixels.
pub(super) fn mul_backward(
    gradient: &ReferenceValue,
    value: &ReferenceValue,
    gate: &ReferenceValue,
) -> [ReferenceValue; 2] {
    let of_value = mul(gradient, gate);
    let product = mul(gradient, value);
    if gate.dims == value.dims {
        return [of_value, product];
    }
    let mut of_gate = ReferenceValue::zeros(gate.images(), gate.dims);
    let (pixels, channels) = (value.dims.pixels(), value.dims.channels);
    for (i, pixel) in product.values.chunks_exact(channels).enumerate() {
        let sums = of_gate.pixel_mut(i / pixels, 0, 0);
        sums.iter_mut().zip(pixel).for_each(|(sum, g)| *sum += g);
    }
    [of_value, of_gate]
}

/// All values of an image in the order channel, row, column, as the channels of one pixel.
pub(super) fn flatten(input: &ReferenceValue) -> ReferenceValue {
    let Dims { height, width, .. } = input.dims;
    let dims = Dims::new(1, 1, input.dims.len());
    ReferenceValue::from_fn(input.images(), dims, |n, _, _, i| {
        let (channel, pixel) = (i / (height * width), i % (height * width));
        input.at(n, pixel / width, pixel % width, channel)
    })
}

/// The gradient of a flattened value of `dims`.
pub(super) fn flatten_backward(gradient: &ReferenceValue, dims: Dims) -> ReferenceValue {
    ReferenceValue::from_fn(gradient.images(), dims, |n, y, x, c| {
        gradient.pixel(n, 0, 0)[(c * dims.height + y) * dims.width + x]
    })
}

/// Channels as pixels in `rows` rows, and pixels as channels.
pub(super) fn transpose(input: &ReferenceValue, rows: usize) -> ReferenceValue {
    let Dims { width, channels, .. } = input.dims;
    let dims = Dims::new(rows, channels / rows, input.dims.pixels());
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| input.at(n, c / width, c % width, y * dims.width + x))
}

/// The gradient of a transposed value of `dims`.
pub(super) fn transpose_backward(gradient: &ReferenceValue, dims: Dims) -> ReferenceValue {
    let across = gradient.dims.width;
    ReferenceValue::from_fn(gradient.images(), dims, |n, y, x, c| {
        gradient.at(n, c / across, c % across, y * dims.width + x)
    })
}

/// Every `stride`-th pixel, with zero channels on both sides: `(out - in) / 2` in front, the rest behind.
pub(super) fn shortcut_a(input: &ReferenceValue, stride: usize, dims: Dims) -> ReferenceValue {
    let in_front = (dims.channels - input.dims.channels) / 2;
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| {
        let pixel = input.pixel(n, y * stride, x * stride);
        let channel = c.checked_sub(in_front);
        channel.and_then(|c| pixel.get(c)).copied().unwrap_or(0.0)
    })
}

/// The gradient of a shortcut's input of `dims`: zero at the pixels left out.
pub(super) fn shortcut_a_backward(gradient: &ReferenceValue, stride: usize, dims: Dims) -> ReferenceValue {
    let in_front = (gradient.dims.channels - dims.channels) / 2;
    ReferenceValue::from_fn(gradient.images(), dims, |n, y, x, c| {
        if y.is_multiple_of(stride) && x.is_multiple_of(stride) {
            gradient.at(n, y / stride, x / stride, c + in_front)
        } else {
            0.0
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One image of 2 x 2 pixels with two channels: 1 to 4 in the first, 10 to 40 in the second.
    fn two_channels() -> ReferenceValue {
        ReferenceValue { dims: Dims::new(2, 2, 2), values: vec![1., 10., 2., 20., 3., 30., 4., 40.] }
    }

    fn pixel(values: &[f64]) -> ReferenceValue {
        ReferenceValue { dims: Dims::new(1, 1, values.len()), values: values.to_vec() }
    }

    #[test]
    fn flatten_goes_channel_by_channel() {
        let out = flatten(&two_channels());
        assert_eq!(out.values, [1., 2., 3., 4., 10., 20., 30., 40.]);
    }

    #[test]
    fn a_transpose_makes_channels_of_pixels() {
        let out = transpose(&two_channels(), 1);
        assert_eq!((out.dims, &out.values[..4]), (Dims::new(1, 2, 4), &[1., 2., 3., 4.][..]));
        assert_eq!(transpose_backward(&out, two_channels().dims).values, two_channels().values);
    }

    #[test]
    fn a_gate_of_one_pixel_is_repeated() {
        let out = mul(&two_channels(), &pixel(&[2., 3.]));
        assert_eq!(out.values, [2., 30., 4., 60., 6., 90., 8., 120.]);
        let squares = mul(&two_channels(), &two_channels());
        assert_eq!(squares.values[..4], [1., 100., 4., 400.]);
    }

    #[test]
    fn the_smaller_half_of_the_zero_channels_is_in_front() {
        let out = shortcut_a(&two_channels(), 2, Dims::new(1, 1, 5));
        assert_eq!(out.values, [0., 1., 10., 0., 0.]);
    }

    #[test]
    fn linear_weights_are_one_row_per_output() {
        let out = linear(&pixel(&[1., 2.]), &[1., 10., 100., 1000.], Some(&[0.5, 0.25]));
        assert_eq!(out.values, [21.5, 2100.25]);
    }

    #[test]
    fn a_sum_is_element_by_element() {
        assert_eq!(add(&pixel(&[1., 2.]), &pixel(&[3., 5.])).values, [4., 7.]);
    }

    #[test]
    fn the_gradient_of_a_linear_layer_uses_its_columns() {
        let found = linear_backward(&pixel(&[2., 3.]), &[1., 10., 100., 1000.]);
        assert_eq!(found.values, [302., 3020.]);
    }

    #[test]
    fn a_repeated_gate_collects_from_all_pixels() {
        let gradient = two_channels().map(|_| 1.0);
        let [value, gate] = mul_backward(&gradient, &two_channels(), &pixel(&[2., 3.]));
        assert_eq!(value.values, [2., 3., 2., 3., 2., 3., 2., 3.]);
        assert_eq!(gate.values, [10., 100.]);
    }

    #[test]
    fn going_back_through_flatten_restores_the_order() {
        let value = two_channels();
        assert_eq!(flatten_backward(&flatten(&value), value.dims), value);
    }

    #[test]
    fn pixels_a_shortcut_left_out_get_no_gradient() {
        let found = shortcut_a_backward(&pixel(&[1., 2., 3., 4., 5.]), 2, Dims::new(2, 2, 2));
        assert_eq!(found.values, [2., 3., 0., 0., 0., 0., 0., 0.]);
    }
}
