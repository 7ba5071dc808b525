use super::value::ReferenceValue;
use flipcast_graph::Dims;

/// Fully connected layer with weights `[out, in]`.
pub(super) fn linear(input: &ReferenceValue, weight: &[f64], bias: &[f64]) -> ReferenceValue {
    let inputs = input.dims.channels;
    let dims = Dims::new(1, 1, bias.len());
    ReferenceValue::from_fn(input.images(), dims, |n, _, _, out| {
        let row = &weight[out * inputs..(out + 1) * inputs];
        let sum: f64 = row
            .iter()
            .zip(input.pixel(n, 0, 0))
            .map(|(a, b)| a * b)
            .sum();
        sum + bias[out]
    })
}

/// Sum of two values of the same extents.
pub(super) fn add(left: &ReferenceValue, right: &ReferenceValue) -> ReferenceValue {
    ReferenceValue {
        dims: left.dims,
        values: left
            .values
            .iter()
            .zip(&right.values)
            .map(|(a, b)| a + b)
            .collect(),
    }
}

/// Product of a value and a gate, which is repeated over all pixels when it has one.
pub(super) fn mul(value: &ReferenceValue, gate: &ReferenceValue) -> ReferenceValue {
    ReferenceValue::from_fn(value.images(), value.dims, |n, y, x, c| {
        let factor = if gate.dims == value.dims {
            gate.at(n, y, x, c)
        } else {
            gate.at(n, 0, 0, c)
        };
        value.at(n, y, x, c) * factor
    })
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

/// Every `stride`-th pixel, with zero channels on both sides: `(out - in) / 2` in front, the rest behind.
pub(super) fn shortcut_a(input: &ReferenceValue, stride: usize, dims: Dims) -> ReferenceValue {
    let in_front = (dims.channels - input.dims.channels) / 2;
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| {
        let pixel = input.pixel(n, y * stride, x * stride);
        let channel = c.checked_sub(in_front);
        channel.and_then(|c| pixel.get(c)).copied().unwrap_or(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One image of 2 x 2 pixels with two channels: 1 to 4 in the first, 10 to 40 in the second.
    fn two_channels() -> ReferenceValue {
        ReferenceValue {
            dims: Dims::new(2, 2, 2),
            values: vec![1., 10., 2., 20., 3., 30., 4., 40.],
        }
    }

    fn pixel(values: &[f64]) -> ReferenceValue {
        ReferenceValue {
            dims: Dims::new(1, 1, values.len()),
            values: values.to_vec(),
        }
    }

    #[test]
    fn flatten_goes_channel_by_channel() {
        let out = flatten(&two_channels());
        assert_eq!(out.values, [1., 2., 3., 4., 10., 20., 30., 40.]);
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
        let out = linear(&pixel(&[1., 2.]), &[1., 10., 100., 1000.], &[0.5, 0.25]);
        assert_eq!(out.values, [21.5, 2100.25]);
    }

    #[test]
    fn a_sum_is_element_by_element() {
        assert_eq!(add(&pixel(&[1., 2.]), &pixel(&[3., 5.])).values, [4., 7.]);
    }
}
