use super::driver::own_shared;
use super::pointwise::{CONSTANT, PULL, ROWS, SCALE, SHIFT, SLOPE, compare_forward, narrow, sums, tables_of};
use super::{Emulator, Place, assert_close, normals};
use crate::launch::norm::{Statistics, Term};
use crate::launch::norm_backward::NormGradient;
use crate::launch::panel::{self, Back, Layout};
use crate::launch::pointwise::Forward;
use crate::launch::{Queue, Target};
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::{ConvShape, Extent};
use flipcast_testkit::Random;
use std::sync::OnceLock;

/// Errors are those of rounding factors, and in `bf16` the result, as in `pointwise.rs`.
const BOUNDS: [(Precision, f32); 2] = [(Precision::Tf32, 1e-3), (Precision::Bf16, 1.6e-2)];

/// The convolutions, compiled once for all tests.
fn forward_emulator(precision: Precision) -> Option<&'static Emulator> {
    static BUILT: [OnceLock<Option<Emulator>>; 2] = [OnceLock::new(), OnceLock::new()];
    let built = BUILT[usize::from(precision == Precision::Bf16)].get_or_init(|| {
        let widen = [1, 2, 4].map(|slices| format!("widen_normed_{slices}"));
        let others = ["narrow_normed", "narrow_patches", "panel_pack", "batch_tables"];
        let others = others.map(str::to_owned);
        let source = "#include \"panel_forward.cu\"\n#include \"panel_pack.cu\"\n".to_owned()
            + &own_shared(include_str!("../../kernels/norm.cu"));
        let names = [widen.to_vec(), others.to_vec()].concat();
        Emulator::build(&source, &names, precision)
    });
    built.as_ref()
}

/// Few channels to many and many to few, with rows that fill no tile.
#[test]
fn convolutions_past_kept_weights_equal_the_definition() {
    for (precision, bound) in BOUNDS {
        let Some(queue) = forward_emulator(precision) else {
            return;
        };
        for [ins, outs] in [[64, 128], [128, 256], [256, 64], [128, 128]] {
            let layout = Layout::forward(queue, ins, outs).expect("the weights fit");
            compare_forward(precision, [ins, outs], bound, |of, running| {
                let mut packed = Place::new(precision.element(), ins * outs);
                panel::pack(queue, of.weights, packed.slice(), [ins, outs]).unwrap();
                let mut of = of;
                of.weights = packed.slice();
                panel::forward(queue, layout, of, running, (0.0, false)).unwrap();
            });
        }
    }
}

/// A filter of four by four blocks, as first layers have it, with the means of its result.
#[test]
fn convolutions_of_images_equal_the_definition() {
    for (precision, bound) in BOUNDS {
        let Some(queue) = forward_emulator(precision) else {
            return;
        };
        let shape = ConvShape {
            input: [9, 8],
            // Twelve, with zeros behind up to 16 bytes.
            in_channels: 12usize.next_multiple_of(16 / precision.element().bytes()),
            output: [6, 5],
            out_channels: 64,
            kernel: [4, 4],
            stride: 1,
            padding: [0, 0],
            dilation: 1,
            groups: 1,
        };
        compare_patches(queue, &shape, bound);
    }
}

fn compare_patches(queue: &Emulator, shape: &ConvShape, bound: f32) {
    let (precision, images) = (queue.precision(), 3);
    let [height, width] = shape.input;
    let (ins, outs, pixels) = (shape.in_channels, shape.out_channels, 6 * 5);
    let patch = 16 * ins;
    let mut random = Random::new(67);
    let values = normals(&mut random, precision, images * height * width * ins);
    let weights = normals(&mut random, Precision::Bf16, outs * patch);
    let mut expected = Vec::new();
    for at in 0..images * pixels {
        let (image, y, x) = (at / pixels, at % pixels / 5, at % 5);
        for out in 0..outs {
            let product = |k: usize| {
                let (row, column, c) = (k / (4 * ins), k / ins % 4, k % ins);
                let from = ((image * height + y + row) * width + x + column) * ins + c;
                f64::from(values[from]) * f64::from(weights[out * patch + k])
            };
            expected.push((0..patch).map(product).sum::<f64>());
        }
    }
    let [mut x, mut w] = [&values, &weights].map(|of| Place::elements(precision, of));
    let mut packed = Place::new(precision.element(), outs * patch);
    let mut out = Place::new(precision.element(), images * pixels * outs);
    let [mut affine, mut running] = [(); 2].map(|()| Place::floats(&vec![0.5; outs]));
    let mut above = Place::new(Element::F32, 9 * outs);
    let mut workspace = Place::new(Element::F32, 8 * outs);
    panel::pack(queue, w.slice(), packed.slice(), [patch, outs]).unwrap();
    let of = Forward {
        ins: patch,
        source: Term::plain(x.slice()),
        weights: packed.slice(),
        out: out.slice(),
        statistics: Statistics {
            extent: Extent { images, pixels, channels: outs },
            values: None,
            workspace: workspace.slice(),
            affine: [affine.slice(); 2],
            eps: 1e-5,
            tables: tables_of(&mut above, outs),
        },
    };
    let layout = Layout::patches(queue, shape).expect("the weights fit");
    panel::patches(queue, layout, shape, of, [running.slice(); 2], (0.0, false)).unwrap();
    assert_close("result", &out.values(), &narrow(&expected), bound);
    let stored = out.values();
    let mean = |c: usize| stored[c..].iter().step_by(outs).sum::<f32>() / (images * pixels) as f32;
    let means: Vec<f32> = (0..outs).map(mean).collect();
    assert_close("mean", &above.values()[..outs], &means, 1e-5);
}

#[test]
fn weights_that_do_not_fit_have_no_layout() {
    let Some(queue) = forward_emulator(Precision::Tf32) else {
        return;
    };
    assert_eq!(Layout::forward(queue, 2048, 512), None);
    assert_eq!(Layout::forward(queue, 48, 128), None);
    assert_eq!(Layout::back(queue, 1024, 256), None);
    assert!(Layout::forward(queue, 64, 256).is_some());
}

/// The gradient of a norm's result through a convolution of normalised values, with and without the sums of the norm below.
#[test]
fn gradients_past_kept_weights_equal_the_definition() {
    for (precision, bound) in BOUNDS {
        let names = ["narrow_back_sums", "narrow_back_normed", "narrow_back_stored", "panel_pull", "batch_finish"];
        let source = "#include \"panel_back.cu\"\n#include \"panel_pack.cu\"\n".to_owned()
            + &own_shared(include_str!("../../kernels/norm_backward.cu"));
        let Some(queue) = Emulator::build(&source, &names.map(str::to_owned), precision) else {
            return;
        };
        for (few, wide) in [(64, 128), (128, 256)] {
            for sums in [true, false] {
                compare_back(&queue, few, wide, sums, bound);
            }
        }
    }
}

fn compare_back(queue: &Emulator, few: usize, wide: usize, summed: bool, bound: f32) {
    let precision = queue.precision();
    let mut random = Random::new(61);
    let gradient = normals(&mut random, precision, ROWS * wide);
    let values = normals(&mut random, precision, ROWS * few);
    let before = normals(&mut random, precision, ROWS * few);
    let weights = normals(&mut random, Precision::Bf16, wide * few);
    let above = normals(&mut random, Precision::F32, 9 * wide);
    let below = normals(&mut random, Precision::F32, 9 * few);
    let weight = |o: usize, c: usize| f64::from(weights[o * few + c]);
    let table = |which: usize, o: usize| f64::from(above[which * wide + o]);
    let normed = |row: usize, c: usize| {
        let [scale, shift] = [SCALE, SHIFT].map(|which| below[which * few + c]);
        f64::from(scale) * f64::from(values[row * few + c]) + f64::from(shift)
    };
    let mut expected = vec![0.0; ROWS * few];
    for row in 0..ROWS {
        for o in 0..wide {
            let x: f64 = (0..few).map(|c| normed(row, c).max(0.0) * weight(o, c)).sum();
            let g = f64::from(gradient[row * wide + o]);
            let carried = table(SLOPE, o) * g + table(PULL, o) * x + table(CONSTANT, o);
            for c in 0..few {
                expected[row * few + c] += carried * weight(o, c);
            }
        }
    }
    if !summed {
        let pairs = expected.iter_mut().zip(&before);
        pairs.for_each(|(to, x)| *to += f64::from(*x));
    }
    let [mut g, mut y, mut w] = [&gradient, &values, &weights].map(|of| Place::elements(precision, of));
    let [mut tables, mut own] = [&above, &below].map(|of| Place::floats(of));
    let mut out = Place::elements(precision, &before);
    let mut packed = Place::new(precision.element(), panel::packed_len(wide, few));
    let [mut constant, mut of_scale, mut of_shift] = [(); 3].map(|()| Place::new(Element::F32, few));
    let mut workspace = Place::new(Element::F32, 4 * queue.multiprocessors() * few);
    let extent = Extent { images: 3, pixels: ROWS / 3, channels: few };
    let norm = NormGradient {
        extent,
        tables: tables_of(&mut own, few),
        workspace: workspace.slice(),
        affine: [of_scale.slice(), of_shift.slice()],
        of_batch: [0.01, 0.01],
    };
    let of = Back {
        extent,
        source: Term { values: y.slice(), tables: Some(norm.tables), activation: Activation::Relu },
        gradient: g.slice(),
        above: tables_of(&mut tables, wide),
        weights: w.slice(),
        packed: packed.slice(),
        constant: constant.slice(),
        to: Target { slice: out.slice(), accumulate: !summed },
        below: summed.then_some(norm),
        workspace: workspace.slice(),
    };
    let layout = Layout::back(queue, wide, few).expect("the weights fit");
    panel::back(queue, layout, of).unwrap();
    assert_close("gradient", &out.values(), &narrow(&expected), bound);
    if summed {
        for row in 0..ROWS {
            for c in 0..few {
                if normed(row, c) <= 0.0 {
                    expected[row * few + c] = 0.0;
                }
            }
        }
        let [scale, shift] = sums(&expected, &values, &below, few);
        assert_close("scale", &of_scale.values(), &scale, bound);
        assert_close("shift", &of_shift.values(), &shift, bound);
    }
}
