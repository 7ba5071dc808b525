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
                    let (row, column) = (tap / conv.kernel[1], tap % conv.kernel[1]);
                    let from_y = (y * conv.stride + row * conv.dilation).checked_sub(corner[0]);
                    let from_x = (x * conv.stride + column * conv.dilation).checked_sub(corner[1]);
                    let pixel = inside(from_y, input.dims.height)
                        .zip(inside(from_x, input.dims.width))
                        .map(|(y, x)| input.pixel(n, y, x));
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

fn inside(position: Option<usize>, size: usize) -> Option<usize> {
    position.filter(|&p| p < size)
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
        ReferenceValue {
            dims: Dims::new(height, width, 1),
            values: values.to_vec(),
        }
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
        conv.padding = Padding::Explicit {
            rows: [0, 0],
            columns: [1, 0],
        };
        let out = run(&image(1, 3, &[1., 2., 3.]), &conv, &[10., 1.]);
        assert_eq!(out.values, [1., 12., 23.]);
    }

    #[test]
    fn groups_see_only_their_own_channels() {
        let conv = Conv2d::new(4, 4, 1).groups(2);
        let input = ReferenceValue {
            dims: Dims::new(1, 1, 4),
            values: vec![1., 2., 3., 4.],
        };
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
}
