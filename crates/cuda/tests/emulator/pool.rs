use super::{Emulator, Place, assert_close, normals};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::launch::norm::{self, Tables, Term};
use crate::launch::norm_backward::{self, NormGradient};
use crate::launch::pool::{self, PoolKind};
use crate::launch::{Queue, Target};
use crate::module::Arg;
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::{Extent, PoolShape};
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

fn shape(input: [usize; 2], channels: usize, [kernel, stride, padding]: [usize; 3]) -> PoolShape {
    let along = |axis: usize| (input[axis] + 2 * padding - kernel) / stride + 1;
    PoolShape { input, output: [along(0), along(1)], channels, kernel, stride, padding }
}

/// Windows with and without a kernel of their own; heights of one strip, of one and a bit, and of many.
const SHAPES: [([usize; 2], usize, [usize; 3]); 10] = [
    ([9, 7], 16, [3, 2, 1]),
    ([9, 7], 5, [3, 2, 1]),
    ([9, 7], 8, [2, 2, 0]),
    ([9, 7], 8, [3, 1, 1]),
    ([17, 8], 8, [3, 2, 1]),
    ([18, 8], 8, [3, 2, 0]),
    ([70, 3], 8, [3, 2, 1]),
    ([1, 2], 8, [3, 2, 1]),
    ([19, 9], 8, [2, 2, 1]),
    ([11, 9], 8, [5, 3, 2]),
];

#[test]
fn max_pools_equal_the_definition_both_ways() {
    for (precision, bound) in [(Precision::F32, 2e-7), (Precision::Bf16, 1.0 / 256.0)] {
        let Some(queue) = Emulator::new("pool.cu", precision) else {
            return;
        };
        for (input, channels, window) in SHAPES {
            for activation in [Activation::Relu, Activation::Identity, Activation::Tanh] {
                let shape = shape(input, channels, window);
                compare(&queue, precision, shape, activation, bound);
            }
        }
    }
}

fn activate(activation: Activation, z: f32) -> f32 {
    match activation {
        Activation::Relu => z.max(0.0),
        Activation::Tanh => z.tanh(),
        _ => z,
    }
}

fn compare(queue: &Emulator, precision: Precision, shape: PoolShape, activation: Activation, bound: f32) {
    let mut random = Random::new(67);
    let channels = shape.channels;
    let len = |extents: [usize; 2]| IMAGES * extents[0] * extents[1] * channels;
    let values = normals(&mut random, precision, len(shape.input));
    let tables = normals(&mut random, Precision::F32, 9 * channels);
    let derive = |(at, y): (usize, &f32)| {
        let c = at % channels;
        activate(activation, tables[3 * channels + c] * y + tables[4 * channels + c])
    };
    let derived: Vec<f32> = values.iter().enumerate().map(derive).collect();
    let (largest, places) = expected(shape, &derived);
    let mut x = Place::elements(precision, &values);
    let mut table = Place::floats(&tables);
    let mut out = Place::new(precision.element(), len(shape.output));
    let mut choices = Place::new(Element::U8, len(shape.output));
    let term = Term {
        values: x.slice(),
        tables: Some(Tables { slice: table.slice(), len: channels, per_image: false }),
        activation,
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

/// Values that are pooled as they are stored, with a table per image, and a NaN that must show.
#[test]
fn max_pools_read_stored_values_and_tables_per_image() {
    let precision = Precision::F32;
    let Some(queue) = Emulator::new("pool.cu", precision) else {
        return;
    };
    let shape = shape([9, 7], 8, [3, 2, 1]);
    let mut random = Random::new(68);
    let len = IMAGES * 9 * 7 * 8;
    let values = normals(&mut random, precision, len);
    let tables = normals(&mut random, precision, 9 * IMAGES * 8);
    let mut table = Place::floats(&tables);
    let tables_of = Tables { slice: table.slice(), len: IMAGES * 8, per_image: true };
    let derive = |(at, y): (usize, &f32)| {
        let entry = at / (9 * 7 * 8) * 8 + at % 8;
        tables[3 * IMAGES * 8 + entry] * y + tables[4 * IMAGES * 8 + entry]
    };
    let derived: Vec<f32> = values.iter().enumerate().map(derive).collect();
    for (tables, pooled) in [(None, &values), (Some(tables_of), &derived)] {
        let (largest, _) = expected(shape, pooled);
        let mut x = Place::elements(precision, &values);
        let mut out = Place::new(Element::F32, largest.len());
        let mut choices = Place::new(Element::U8, largest.len());
        let term = Term { tables, ..Term::plain(x.slice()) };
        let kind = PoolKind::Max(choices.slice());
        pool::pool(&queue, IMAGES, shape, kind, term, out.slice()).unwrap();
        assert_close("largest", &out.values(), &largest, 2e-7);
    }
    let mut broken = values;
    broken[8 * 3] = f32::NAN;
    let mut x = Place::floats(&broken);
    let mut out = Place::new(Element::F32, len);
    let mut choices = Place::new(Element::U8, len);
    let kind = PoolKind::Max(choices.slice());
    let term = Term { activation: Activation::Relu, ..Term::plain(x.slice()) };
    pool::pool(&queue, IMAGES, shape, kind, term, out.slice()).unwrap();
    // The fourth pixel of the first row lies in the second window and in the third.
    let found: Vec<bool> = (0..4).map(|x| out.values()[8 * x].is_nan()).collect();
    assert_eq!(found, [false, true, true, false]);
}

/// The kernels of two files on one queue.
struct Both(Emulator, Emulator);

impl Queue for Both {
    fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: usize,
        args: &[Arg],
    ) -> Result<(), CudaError> {
        match self.0.launch(name, grid, block, shared_bytes, args) {
            Err(CudaError::UnknownKernel { .. }) => self.1.launch(name, grid, block, shared_bytes, args),
            done => done,
        }
    }

    fn precision(&self) -> Precision {
        self.0.precision()
    }

    fn multiprocessors(&self) -> usize {
        self.0.multiprocessors()
    }

    fn shared_bytes(&self) -> usize {
        self.0.shared_bytes()
    }
}

/// In 16 bits the gradient in between is rounded where windows share a pixel; without it, it is not. Measured 4.5e-7 and 3.4e-3.
#[test]
fn sums_below_a_max_pool_equal_those_of_its_stored_gradient() {
    for (precision, bound) in [(Precision::F32, 1e-6), (Precision::Bf16, 1.0 / 256.0)] {
        let (Some(pools), Some(norms)) =
            (Emulator::new("pool.cu", precision), Emulator::new("norm_backward.cu", precision))
        else {
            return;
        };
        let queue = Both(pools, norms);
        for (input, channels, window) in SHAPES {
            for activation in [Activation::Relu, Activation::Identity, Activation::Silu] {
                let shape = shape(input, channels, window);
                let [direct, stored] = sums(&queue, precision, shape, activation);
                assert_close("sums", &direct, &stored, bound);
            }
        }
    }
}

/// Gradients of scale and shift and the norm's tables, without a gradient for every pixel and with one.
fn sums(queue: &Both, precision: Precision, shape: PoolShape, activation: Activation) -> [Vec<f32>; 2] {
    let mut random = Random::new(69);
    let (pixels, channels) = (shape.input[0] * shape.input[1], shape.channels);
    let extent = Extent { images: IMAGES, pixels, channels };
    let mut x = Place::elements(precision, &normals(&mut random, precision, extent.len()));
    let tables = normals(&mut random, Precision::F32, Tables::floats(channels));
    let pooled = IMAGES * shape.output[0] * shape.output[1] * channels;
    let mut g = Place::elements(precision, &normals(&mut random, precision, pooled));
    let mut out = Place::new(precision.element(), pooled);
    let mut choices = Place::new(Element::U8, pooled);
    let mut back = Place::new(precision.element(), extent.len());
    let (values, gradient) = (x.slice(), g.slice());
    let mut run = |stored: bool| {
        let mut table = Place::floats(&tables);
        let mut workspace = Place::new(Element::F32, norm::partials_len(queue, extent));
        let [mut of_scale, mut of_shift] = [(); 2].map(|()| Place::new(Element::F32, channels));
        let of = NormGradient {
            extent,
            tables: Tables { slice: table.slice(), len: channels, per_image: false },
            workspace: workspace.slice(),
            affine: [of_scale.slice(), of_shift.slice()],
            of_batch: [0.1, 0.1],
        };
        let term = Term { values, tables: Some(of.tables), activation };
        let kind = PoolKind::Max(choices.slice());
        pool::pool(queue, IMAGES, shape, kind, term, out.slice()).unwrap();
        if stored {
            let to: DeviceSlice = back.slice();
            let target = Target::from(to);
            pool::pool_backward(queue, IMAGES, shape, kind, gradient, target).unwrap();
            norm_backward::batch_sums(queue, of, to, values, activation).unwrap();
        } else {
            let PoolKind::Max(choices) = kind else {
                unreachable!("made above");
            };
            pool::max_pool_sums(queue, of, shape, choices, gradient, term).unwrap();
        }
        [of_scale.values(), of_shift.values(), table.values()].concat()
    };
    [run(false), run(true)]
}
