use super::{Emulator, Place, assert_close, normals};
use crate::launch::norm::{Tables, Term};
use crate::launch::pool::{self, PoolKind};
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::PoolShape;
use flipcast_testkit::Random;

const IMAGES: usize = 2;

/// Largest value of every window of a derived value, and where in the input it was.
fn expected(shape: PoolShape, values: &[f32]) -> (Vec<f32>, Vec<usize>) {
    let ([height, width], channels) = (shape.input, shape.channels);
    let (mut largest, mut places) = (Vec::new(), Vec::new());
    let windows = (0..IMAGES).flat_map(|n| (0..shape.output[0]).map(move |y| (n, y)));
    for (n, y) in windows {
        for (x, c) in (0..shape.output[1]).flat_map(|x| (0..channels).map(move |c| (x, c))) {
            let mut best: Option<(f32, usize)> = None;
            for tap in 0..shape.kernel * shape.kernel {
                let row = (y * shape.stride + tap / shape.kernel).wrapping_sub(shape.padding);
                let column = (x * shape.stride + tap % shape.kernel).wrapping_sub(shape.padding);
                if row < height && column < width {
                    let at = ((n * height + row) * width + column) * channels + c;
                    if best.is_none_or(|(value, _)| values[at] > value) {
                        best = Some((values[at], at));
                    }
                }
            }
            let (value, at) = best.expect("windows overlap the input");
            largest.push(value);
            places.push(at);
        }
    }
    (largest, places)
}

#[test]
fn max_pools_equal_the_definition_both_ways() {
    for (precision, bound) in [(Precision::F32, 2e-7), (Precision::Bf16, 1.0 / 256.0)] {
        let Some(queue) = Emulator::new("pool.cu", precision) else {
            return;
        };
        for (channels, kernel, stride, padding) in [(16, 3, 2, 1), (5, 3, 2, 1), (8, 2, 2, 0)] {
            let input = [9, 7];
            let along = |axis: usize| (input[axis] + 2 * padding - kernel) / stride + 1;
            let shape = PoolShape {
                input,
                output: [along(0), along(1)],
                channels,
                kernel,
                stride,
                padding,
            };
            compare(&queue, precision, shape, bound);
        }
    }
}

fn compare(queue: &Emulator, precision: Precision, shape: PoolShape, bound: f32) {
    let mut random = Random::new(67);
    let channels = shape.channels;
    let len = |extents: [usize; 2]| IMAGES * extents[0] * extents[1] * channels;
    let values = normals(&mut random, precision, len(shape.input));
    let tables = normals(&mut random, Precision::F32, 9 * channels);
    let derive = |(at, y): (usize, &f32)| {
        let c = at % channels;
        (tables[3 * channels + c] * y + tables[4 * channels + c]).max(0.0)
    };
    let derived: Vec<f32> = values.iter().enumerate().map(derive).collect();
    let (largest, places) = expected(shape, &derived);
    let mut x = Place::elements(precision, &values);
    let mut table = Place::floats(&tables);
    let mut out = Place::new(precision.element(), len(shape.output));
    let mut choices = Place::new(Element::U8, len(shape.output));
    let term = Term {
        values: x.slice(),
        tables: Some(Tables {
            slice: table.slice(),
            len: channels,
            per_image: false,
        }),
        activation: Activation::Relu,
    };
    let kind = PoolKind::Max(choices.slice());
    pool::pool(queue, IMAGES, shape, kind, term, out.slice()).unwrap();
    assert_close("largest", &out.values(), &largest, bound);
    let gradient = normals(&mut random, precision, largest.len());
    let mut g = Place::elements(precision, &gradient);
    let mut back = Place::new(precision.element(), values.len());
    let to = back.slice().into();
    pool::pool_backward(queue, IMAGES, shape, kind, g.slice(), to).unwrap();
    let mut gathered = vec![0.0; values.len()];
    for (at, g) in places.iter().zip(&gradient) {
        gathered[*at] += g;
    }
    assert_close("gradient", &back.values(), &gathered, bound);
}
