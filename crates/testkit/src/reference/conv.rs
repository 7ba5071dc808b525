use super::value::ReferenceValue;
use flipcast_graph::{Conv2d, Dims};

/// Convolution with weights in PyTorch's order, `[out, in / groups, row, column]`.
///
/// `corner` is the number of zero rows above and zero columns left of the image, and `dims` the output's extents.
pub(super) fn convolve(
    input: &ReferenceValue,
    conv: &Conv2d,
    (corner, dims): ([usize; 2], Dims),
    weight: &[f64],
    bias: Option<&[f64]>,
) -> ReferenceValue {
    let in_group = conv.in_channels / conv.groups;
    let out_group = conv.out_channels / conv.groups;
    let taps = conv.kernel[0] * conv.kernel[1];
    let filter_len = in_group * taps;
    let mut values = Vec::with_capacity(input.images() * dims.len());
    // What one output pixel sees, group after group, each in the order of a filter's weights.
    let mut seen = vec![0.0; conv.groups * filter_len];
    for n in 0..input.images() {
        for y in 0..dims.height {
            for x in 0..dims.width {
                for tap in 0..taps {
                    let pixel = pixel_under(conv, corner, input.dims, [y, x], tap).map(|[y, x]| input.pixel(n, y, x));
                    for c in 0..conv.in_channels {
                        seen[c * taps + tap] = pixel.map_or(0.0, |pixel| pixel[c]);
                    }
                }
                for out in 0..conv.out_channels {
                    let group = out / out_group;
                    let seen = &seen[group * filter_len..(group + 1) * filter_len];
                    let filter = &weight[out * filter_len..(out + 1) * filter_len];
                    let sum: f64 = seen.iter().zip(filter).map(|(a, b)| a * b).sum();
                    values.push(sum + bias.map_or(0.0, |bias| bias[out]));
                }
            }
        }
    }
    ReferenceValue { dims, values }
}

/// The gradient of a convolution's input, whose extents are `dims`, from the gradient of its output.
pub(super) fn convolve_backward(
    gradient: &ReferenceValue,
    conv: &Conv2d,
    (corner, dims): ([usize; 2], Dims),
    weight: &[f64],
) -> ReferenceValue {
    let in_group = conv.in_channels / conv.groups;
    let out_group = conv.out_channels / conv.groups;
    let taps = conv.kernel[0] * conv.kernel[1];
    let filter_len = in_group * taps;
    let mut result = ReferenceValue::zeros(gradient.images(), dims);
    // The gradient of what one output pixel sees, laid out as in `convolve`.
    let mut seen = vec![0.0; conv.groups * filter_len];
    for n in 0..gradient.images() {
        for y in 0..gradient.dims.height {
            for x in 0..gradient.dims.width {
                seen.fill(0.0);
                for (out, &slope) in gradient.pixel(n, y, x).iter().enumerate() {
                    let group = out / out_group;
                    let seen = &mut seen[group * filter_len..(group + 1) * filter_len];
                    let filter = &weight[out * filter_len..(out + 1) * filter_len];
                    seen.iter_mut().zip(filter).for_each(|(s, w)| *s += slope * w);
                }
                for tap in 0..taps {
                    if let Some([y, x]) = pixel_under(conv, corner, dims, [y, x], tap) {
                        let pixel = result.pixel_mut(n, y, x);
                        for c in 0..conv.in_channels {
                            pixel[c] += seen[c * taps + tap];
                        }
                    }
                }
            }
        }
    }
    result
}

/// Row and column of the input of `dims` that a filter tap reads for the output at `[y, x]`; `None` in the padding.
fn pixel_under(conv: &Conv2d, corner: [usize; 2], dims: Dims, [y, x]: [usize; 2], tap: usize) -> Option<[usize; 2]> {
    let (row, column) = (tap / conv.kernel[1], tap % conv.kernel[1]);
    let y = (y * conv.stride + row * conv.dilation).checked_sub(corner[0])?;
    let x = (x * conv.stride + column * conv.dilation).checked_sub(corner[1])?;
    (y < dims.height && x < dims.width).then_some([y, x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::Padding;

    fn run(input: &ReferenceValue, conv: &Conv2d, weight: &[f64]) -> ReferenceValue {
        let resolved = conv.resolve(input.dims).unwrap();
        convolve(input, conv, resolved, weight, None)
    }

    /// One image with one channel.
    fn image(height: usize, width: usize, values: &[f64]) -> ReferenceValue {
        ReferenceValue { dims: Dims::new(height, width, 1), values: values.to_vec() }
    }

    const NINE: [f64; 9] = [1., 2., 3., 4., 5., 6., 7., 8., 9.];

    #[test]
    fn a_filter_is_not_flipped_and_rows_come_first() {
        let conv = Conv2d::new(1, 1, 2);
        let out = run(&image(3, 3, &NINE), &conv, &[1., 10., 100., 1000.]);
        assert_eq!(out.values, [5421., 6532., 8754., 9865.]);
    }

    #[test]
    fn padding_reads_zeros_and_stride_skips() {
        let conv = Conv2d::new(1, 1, 3).stride(2).padding(1);
        let out = run(&image(3, 3, &NINE), &conv, &[1.; 9]);
        assert_eq!(out.values, [12., 16., 24., 28.]);
    }

    #[test]
    fn same_padding_puts_the_surplus_after_the_image() {
        let conv = Conv2d::new(1, 1, 3).stride(2).pad_same();
        let out = run(&image(1, 4, &[1., 2., 3., 4.]), &conv, &[1.; 9]);
        assert_eq!(out.dims, Dims::new(1, 2, 1));
        assert_eq!(out.values, [6., 7.]);
    }

    #[test]
    fn dilation_spreads_the_taps() {
        let conv = Conv2d::new(1, 1, 2).dilation(2);
        let out = run(&image(3, 3, &NINE), &conv, &[1., 10., 100., 1000.]);
        assert_eq!(out.values, [9731.]);
    }

    #[test]
    fn uneven_padding_and_oblong_filters_keep_their_sides() {
        let mut conv = Conv2d::new(1, 1, 1);
        conv.kernel = [1, 2];
        conv.padding = Padding::Explicit { rows: [0, 0], columns: [1, 0] };
        let out = run(&image(1, 3, &[1., 2., 3.]), &conv, &[10., 1.]);
        assert_eq!(out.values, [1., 12., 23.]);
    }

    #[test]
    fn groups_see_only_their_own_channels() {
        let conv = Conv2d::new(4, 4, 1).groups(2);
        let input = ReferenceValue { dims: Dims::new(1, 1, 4), values: vec![1., 2., 3., 4.] };
        let out = run(&input, &conv, &[1., 10., 100., 1000., 1., 10., 100., 1000.]);
        assert_eq!(out.values, [21., 2100., 43., 4300.]);
    }

    #[test]
    fn the_bias_is_added_per_output_channel() {
        let conv = Conv2d::new(1, 2, 1).with_bias();
        let input = image(1, 2, &[1., 2.]);
        let resolved = conv.resolve(input.dims).unwrap();
        let out = convolve(&input, &conv, resolved, &[1., 2.], Some(&[10., 20.]));
        assert_eq!(out.values, [11., 22., 12., 24.]);
    }

    #[test]
    fn the_gradient_goes_back_to_the_pixels_that_were_read() {
        let conv = Conv2d::new(1, 1, 2).stride(2).padding(1);
        let dims = Dims::new(3, 3, 1);
        let (corner, _) = conv.resolve(dims).unwrap();
        let gradient = image(2, 2, &[1., 2., 3., 4.]);
        let found = convolve_backward(&gradient, &conv, (corner, dims), &[1., 10., 100., 1000.]);
        let expected = [1000., 200., 2000., 30., 4., 40., 3000., 400., 4000.];
        assert_eq!(found.values, expected);
    }

    #[test]
    fn the_gradient_stays_in_its_group() {
        let conv = Conv2d::new(4, 2, 1).groups(2);
        let dims = Dims::new(1, 1, 4);
        let gradient = ReferenceValue { dims: Dims::new(1, 1, 2), values: vec![2., 3.] };
        let found = convolve_backward(&gradient, &conv, ([0, 0], dims), &[1., 10., 100., 1000.]);
        assert_eq!(found.values, [2., 20., 300., 3000.]);
    }
}
