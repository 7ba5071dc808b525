use super::driver::own_shared;
use super::{Emulator, Place, assert_close, normals};
use crate::device::DeviceSlice;
use crate::launch::Target;
use crate::launch::norm::{Statistics, Tables, Term};
use crate::launch::norm_backward::NormGradient;
use crate::launch::pointwise::{self, Back, End, Forward};
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::Extent;
use flipcast_testkit::Random;

pub(super) const ROWS: usize = 150;
/// Rows of a norm's tables, as in `tables.cuh`.
pub(super) const CENTRE: usize = 0;
pub(super) const INVERSE: usize = 2;
pub(super) const SCALE: usize = 3;
pub(super) const SHIFT: usize = 4;
pub(super) const SLOPE: usize = 5;
pub(super) const PULL: usize = 6;
pub(super) const CONSTANT: usize = 7;

fn emulator(precision: Precision) -> Option<Emulator> {
    let kernels = ["plain", "sums", "join"].map(|end| [64, 128].map(|n| format!("pointwise_back_{end}_{n}")));
    let names = [kernels.concat(), vec!["batch_finish".to_owned()]].concat();
    let source = "#include \"pointwise_back.cu\"\n#include \"norm_backward.cu\"\n";
    Emulator::build(source, &names, precision)
}

/// What is multiplied, and the result in 64 bits.
struct Product {
    extent: Extent,
    gradient: Vec<f32>,
    values: Vec<f32>,
    tables: Vec<f32>,
    weights: Vec<f32>,
    result: Vec<f64>,
}

impl Product {
    fn new(random: &mut Random, precision: Precision, ins: usize, outs: usize) -> Self {
        let extent = Extent { images: 3, pixels: ROWS / 3, channels: ins };
        let [gradient, values] = [(); 2].map(|()| normals(random, precision, ROWS * outs));
        let tables = normals(random, Precision::F32, 9 * outs);
        let factor = if precision == Precision::Tf32 { Precision::Bf16 } else { precision };
        let weights = normals(random, factor, outs * ins);
        let mut result = vec![0.0; ROWS * ins];
        let table = |which: usize, k: usize| f64::from(tables[which * outs + k]);
        for row in 0..ROWS {
            for k in 0..outs {
                let (g, y) = (f64::from(gradient[row * outs + k]), f64::from(values[row * outs + k]));
                let open = table(SCALE, k) * y + table(SHIFT, k) > 0.0;
                let d = if open { g } else { 0.0 };
                let carried = table(SLOPE, k) * d + table(PULL, k) * y + table(CONSTANT, k);
                for c in 0..ins {
                    result[row * ins + c] += carried * f64::from(weights[k * ins + c]);
                }
            }
        }
        Self { extent, gradient, values, tables, weights, result }
    }
}

pub(super) fn tables_of(place: &mut Place, len: usize) -> Tables {
    Tables { slice: place.slice(), len, per_image: false }
}

/// Sums over rows of the gradient, and of it times the centred values, times the inverse deviation.
pub(super) fn sums(gradient: &[f64], values: &[f32], tables: &[f32], ins: usize) -> [Vec<f32>; 2] {
    let mut out = [vec![0.0f64; ins], vec![0.0; ins]];
    for (at, (g, y)) in gradient.iter().zip(values).enumerate() {
        let c = at % ins;
        out[1][c] += g;
        let centred = f64::from(*y) - f64::from(tables[CENTRE * ins + c]);
        out[0][c] += g * centred * f64::from(tables[INVERSE * ins + c]);
    }
    out.map(|of| of.iter().map(|&x| x as f32).collect())
}

pub(super) fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// Errors are those of rounding a factor, and in `bf16` the result: measured 2.5e-4 and 4.2e-3 of the largest.
#[test]
fn gradients_through_norm_and_convolution_equal_the_definition() {
    for (precision, bound) in [(Precision::Tf32, 9e-4), (Precision::Bf16, 1.6e-2)] {
        let Some(queue) = emulator(precision) else {
            return;
        };
        for (ins, outs) in [(64, 64), (128, 64), (64, 128)] {
            compare(&queue, precision, ins, outs, bound);
        }
    }
}

fn compare(queue: &Emulator, precision: Precision, ins: usize, outs: usize, bound: f32) {
    let mut random = Random::new(53);
    let product = Product::new(&mut random, precision, ins, outs);
    let [before, below, more] = [(); 3].map(|()| normals(&mut random, precision, ROWS * ins));
    let [own, others] = [(); 2].map(|()| normals(&mut random, Precision::F32, 9 * ins));
    let mask: Vec<u8> = (0..ROWS * ins / 8).map(|at| (at * 37 % 251) as u8).collect();
    let mut g = Place::elements(precision, &product.gradient);
    let mut y = Place::elements(precision, &product.values);
    let mut w = Place::elements(precision, &product.weights);
    let mut above = Place::floats(&product.tables);
    let mut workspace = Place::new(Element::F32, pointwise::partials_len(product.extent));
    let (mut x, mut z) = (Place::elements(precision, &below), Place::elements(precision, &more));
    let mut mask_place = Place::raw(&mask);
    for end in ["plain", "sums", "join"] {
        let mut out = Place::elements(precision, &before);
        let to = Target { slice: out.slice(), accumulate: end != "sums" };
        let of = Back {
            extent: product.extent,
            outs,
            above: Term { values: y.slice(), tables: Some(tables_of(&mut above, outs)), activation: Activation::Relu },
            gradient: g.slice(),
            weights: w.slice(),
            to,
            workspace: workspace.slice(),
        };
        let (mut first, mut second) = (Place::floats(&own), Place::floats(&others));
        let mut gradients = [(); 4].map(|()| Place::new(Element::F32, ins));
        let slices = gradients.each_mut().map(Place::slice);
        let norm = |tables: Tables, at: usize| NormGradient {
            extent: product.extent,
            tables,
            workspace: of.workspace,
            affine: [slices[2 * at], slices[2 * at + 1]],
            of_batch: [0.01, 0.01],
        };
        let a = norm(tables_of(&mut first, ins), 0);
        let b = norm(tables_of(&mut second, ins), 1);
        let mut expected = product.result.clone();
        if to.accumulate {
            expected.iter_mut().zip(&before).for_each(|(to, x)| *to += f64::from(*x));
        }
        match end {
            "plain" => pointwise::back(queue, of, End::Plain),
            "sums" => pointwise::back(queue, of, End::Sums(a, Activation::Relu, x.slice())),
            _ => {
                for (at, g) in expected.iter_mut().enumerate() {
                    if mask[at / 8] >> (at % 8) & 1 == 0 {
                        *g = 0.0;
                    }
                }
                let norms = [(a, x.slice()), (b, z.slice())];
                pointwise::back(queue, of, End::Join(Some(mask_place.slice()), &norms))
            }
        }
        .unwrap();
        assert_close(end, &out.values(), &narrow(&expected), bound);
        if end == "sums" {
            for (at, g) in expected.iter_mut().enumerate() {
                let c = at % ins;
                if own[SCALE * ins + c] * below[at] + own[SHIFT * ins + c] <= 0.0 {
                    *g = 0.0;
                }
            }
        }
        let found: Vec<Vec<f32>> = match end {
            "plain" => continue,
            "sums" => gradients[..2].iter().map(Place::values).collect(),
            _ => gradients.iter().map(Place::values).collect(),
        };
        let norms = [(&below, &own), (&more, &others)];
        for (found, (values, tables)) in found.chunks(2).zip(norms) {
            let [of_scale, of_shift] = sums(&expected, values, tables, ins);
            assert_close("scale", &found[0], &of_scale, bound);
            assert_close("shift", &found[1], &of_shift, bound);
        }
    }
}

/// The product of a normalised value, and the statistics of what is stored of it. Measured 2.6e-4 in `tf32` and 3.6e-3 in `bf16` for
/// the one, 1.7e-6 for the others.
#[test]
fn convolutions_of_normalised_values_equal_the_definition() {
    for (precision, bound) in [(Precision::Tf32, 1e-3), (Precision::Bf16, 1e-2)] {
        let names = ["pointwise_64", "pointwise_128", "batch_tables"].map(str::to_owned);
        let source = "#include \"pointwise.cu\"\n".to_owned() + &own_shared(include_str!("../../kernels/norm.cu"));
        let Some(queue) = Emulator::build(&source, &names, precision) else {
            return;
        };
        for channels in [[64, 64], [64, 128], [128, 192]] {
            compare_forward(precision, channels, bound, |of, running| {
                pointwise::forward(&queue, of, running, (0.0, false)).unwrap();
            });
        }
    }
}

/// Runs a convolution with the statistics of its result and compares both with their definitions.
pub(super) fn compare_forward(
    precision: Precision,
    [ins, outs]: [usize; 2],
    bound: f32,
    run: impl Fn(Forward, [DeviceSlice; 2]),
) {
    let mut random = Random::new(59);
    let values = normals(&mut random, precision, ROWS * ins);
    let weights = normals(&mut random, Precision::Bf16, outs * ins);
    let tables = normals(&mut random, Precision::F32, 9 * ins);
    let [gamma, beta] = [(); 2].map(|()| normals(&mut random, Precision::F32, outs));
    let mut expected = vec![0.0; ROWS * outs];
    for row in 0..ROWS {
        for c in 0..ins {
            let [scale, shift] = [SCALE, SHIFT].map(|which| f64::from(tables[which * ins + c]));
            let a = (scale * f64::from(values[row * ins + c]) + shift).max(0.0);
            for k in 0..outs {
                expected[row * outs + k] += a * f64::from(weights[k * ins + c]);
            }
        }
    }
    let (mut x, mut w) = (Place::elements(precision, &values), Place::elements(precision, &weights));
    let [mut below, mut scale, mut shift] = [&tables, &gamma, &beta].map(|of| Place::floats(of));
    let mut out = Place::new(precision.element(), ROWS * outs);
    let mut running = Place::floats(&vec![0.0; outs]);
    let mut above = Place::new(Element::F32, 9 * outs);
    let extent = Extent { images: 3, pixels: ROWS / 3, channels: outs };
    let mut workspace = Place::new(Element::F32, pointwise::partials_len(extent));
    let of = Forward {
        ins,
        source: Term { values: x.slice(), tables: Some(tables_of(&mut below, ins)), activation: Activation::Relu },
        weights: w.slice(),
        out: out.slice(),
        statistics: Statistics {
            extent,
            values: None,
            workspace: workspace.slice(),
            affine: [scale.slice(), shift.slice()],
            eps: 1e-5,
            tables: tables_of(&mut above, outs),
        },
    };
    run(of, [running.slice(); 2]);
    assert_close("result", &out.values(), &narrow(&expected), bound);
    let stored = out.values();
    let (mut means, mut variances) = (Vec::new(), Vec::new());
    for k in 0..outs {
        let column = || stored[k..].iter().step_by(outs).map(|&x| f64::from(x));
        let mean = column().sum::<f64>() / ROWS as f64;
        let variance = column().map(|x| (x - mean).powi(2)).sum::<f64>() / ROWS as f64;
        means.push(mean as f32);
        variances.push(variance as f32);
    }
    let found = above.values();
    assert_close("mean", &found[..outs], &means, 2e-6);
    assert_close("variance", &found[outs..2 * outs], &variances, 2e-6);
}
