use super::{Emulator, Place, assert_close, normals};
use crate::gemm::Direction;
use crate::launch::conv;
use crate::launch::norm::Term;
use crate::precision::Precision;
use flipcast_kernels::ConvShape;
use flipcast_testkit::Random;

/// A square image of `size` pixels and `channels`, a square filter.
fn shape(size: usize, channels: [usize; 2], window: [usize; 3], groups: usize) -> ConvShape {
    let [kernel, stride, padding] = window;
    let [height, width] = [size, size - 1];
    let outputs = |extent: usize| (extent + 2 * padding - kernel) / stride + 1;
    ConvShape {
        input: [height, width],
        in_channels: channels[0],
        output: [outputs(height), outputs(width)],
        out_channels: channels[1],
        kernel: [kernel, kernel],
        stride,
        padding: [padding, padding],
        dilation: 1,
        groups,
    }
}

/// Every product of a convolution: positions in the input, the weights `[out][row][column][in]` and the output.
fn products(images: usize, s: &ConvShape) -> Vec<[usize; 3]> {
    let (ins, outs) = (s.in_channels / s.groups, s.out_channels / s.groups);
    let mut all = Vec::new();
    for at in 0..images * s.output[0] * s.output[1] * s.out_channels {
        let (k, pixel) = (at % s.out_channels, at / s.out_channels);
        let (ox, oy) = (pixel % s.output[1], pixel / s.output[1] % s.output[0]);
        let image = pixel / (s.output[0] * s.output[1]);
        for tap in 0..s.kernel[0] * s.kernel[1] {
            let (kx, ky) = (tap % s.kernel[1], tap / s.kernel[1]);
            let y = (oy * s.stride + ky).checked_sub(s.padding[0]);
            let x = (ox * s.stride + kx).checked_sub(s.padding[1]);
            let (Some(y), Some(x)) = (y, x) else { continue };
            if y >= s.input[0] || x >= s.input[1] {
                continue;
            }
            for c in 0..ins {
                let channel = k / outs * ins + c;
                let from = ((image * s.input[0] + y) * s.input[1] + x) * s.in_channels + channel;
                let weight = (k * s.kernel[0] * s.kernel[1] + tap) * ins + c;
                all.push([from, weight, at]);
            }
        }
    }
    all
}

/// Sums `a * b` into `len` places.
fn sums(len: usize, products: &[[usize; 3]], [to, a, b]: [usize; 3], x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0f64; len];
    for product in products {
        out[product[to]] += f64::from(x[product[a]]) * f64::from(y[product[b]]);
    }
    out.into_iter().map(|sum| sum as f32).collect()
}

#[test]
fn convolutions_equal_the_definition_both_ways() {
    const IMAGES: usize = 2;
    for (precision, bound) in [(Precision::F32, 1e-5), (Precision::Bf16, 1.0 / 128.0)] {
        let Some(kernels) = Emulator::new("conv.cu", precision) else {
            return;
        };
        let mut random = Random::new(31);
        for (s, depthwise) in [
            (shape(7, [8, 8], [3, 1, 1], 8), true),
            (shape(7, [8, 8], [3, 2, 1], 8), true),
            (shape(8, [4, 4], [3, 2, 0], 4), true),
            (shape(9, [4, 4], [5, 2, 2], 4), true),
            (shape(6, [6, 4], [3, 2, 1], 2), false),
            (shape(5, [3, 5], [1, 1, 0], 1), false),
        ] {
            let products = products(IMAGES, &s);
            let inputs = IMAGES * s.input[0] * s.input[1] * s.in_channels;
            let outputs = IMAGES * s.output[0] * s.output[1] * s.out_channels;
            let taps = s.kernel[0] * s.kernel[1];
            let count = s.out_channels * taps * s.in_channels / s.groups;
            let [x, g] = [inputs, outputs].map(|len| normals(&mut random, precision, len));
            let w = normals(&mut random, precision, count);
            let forward = sums(outputs, &products, [2, 0, 1], &x, &w);
            let backward = sums(inputs, &products, [0, 2, 1], &g, &w);
            let (mut values, mut gradient) = (Place::elements(precision, &x), Place::elements(precision, &g));
            let (mut out, mut back) =
                (Place::new(precision.element(), outputs), Place::new(precision.element(), inputs));
            let (to, from) = (out.slice(), back.slice());
            if depthwise {
                let of_tap = |tap: usize| (0..s.out_channels).map(move |c| c * taps + tap);
                let order: Vec<usize> = (0..taps).flat_map(of_tap).collect();
                let straight: Vec<f32> = order.iter().map(|&at| w[at]).collect();
                let turned: Vec<f32> = (0..taps).rev().flat_map(of_tap).map(|at| w[at]).collect();
                let (mut straight, mut turned) = (Place::floats(&straight), Place::floats(&turned));
                let with = (straight.slice(), None);
                let source = Term::plain(values.slice());
                conv::depthwise(&kernels, IMAGES, &s, source, with, to.into()).unwrap();
                let gradient = gradient.slice();
                match conv::turned(&s) {
                    Some(s) => {
                        let with = (turned.slice(), None);
                        let source = Term::plain(gradient);
                        conv::depthwise(&kernels, IMAGES, &s, source, with, from.into()).unwrap();
                    }
                    None => {
                        let weights = straight.slice();
                        conv::depthwise_backward(&kernels, IMAGES, &s, gradient, weights, from.into()).unwrap();
                    }
                }
            } else {
                let mut weights = Place::elements(precision, &w);
                let (w, x, g) = (weights.slice(), values.slice(), gradient.slice());
                conv::plain(&kernels, Direction::Forward, IMAGES, &s, [x, w], to.into()).unwrap();
                conv::plain(&kernels, Direction::Backward, IMAGES, &s, [g, w], from.into()).unwrap();
            }
            assert_close("forward", &out.values(), &forward, bound);
            assert_close("backward", &back.values(), &backward, bound);
        }
    }
}
