use super::{Emulator, Place, assert_close, normals};
use crate::launch::norm::{self, Statistics, Tables, Term};
use crate::launch::norm_backward::{self, NormGradient};
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::Extent;
use flipcast_testkit::Random;

const EPS: f32 = 1e-5;

/// Gradients of scale and shift and of the input of `relu(batch norm)`, one channel at a time, in 64 bits.
fn expected(extent: Extent, x: &[f32], g: &[f32], scale: &[f32], shift: &[f32]) -> [Vec<f32>; 3] {
    let channels = extent.channels;
    let count = (extent.images * extent.pixels) as f64;
    let mut out = [vec![0.0; channels], vec![0.0; channels], vec![0.0; x.len()]];
    for c in 0..channels {
        let column = |of: &[f32]| -> Vec<f64> { of[c..].iter().step_by(channels).map(|&x| f64::from(x)).collect() };
        let (x, mut g) = (column(x), column(g));
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let inverse = 1.0 / (variance + f64::from(EPS)).sqrt();
        let normal: Vec<f64> = x.iter().map(|x| (x - mean) * inverse).collect();
        for (g, n) in g.iter_mut().zip(&normal) {
            if f64::from(scale[c]) * n + f64::from(shift[c]) <= 0.0 {
                *g = 0.0;
            }
        }
        let sum = g.iter().sum::<f64>();
        let product = g.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>();
        (out[0][c], out[1][c]) = (product as f32, sum as f32);
        for (row, (g, n)) in g.iter().zip(&normal).enumerate() {
            let inner = g - sum / count - n * product / count;
            out[2][row * channels + c] = (f64::from(scale[c]) * inverse * inner) as f32;
        }
    }
    out
}

/// What more blocks left than one thread per slice takes at a time.
#[test]
fn sums_of_many_parts_are_merged() {
    let Some(queue) = Emulator::new("norm_backward.cu", Precision::F32) else {
        return;
    };
    for (parts, channels) in [(1, 8), (130, 13), (1100, 9)] {
        let mut random = Random::new(38);
        let [sums, products] = [(); 2].map(|()| normals(&mut random, Precision::F32, parts * channels));
        let tables = normals(&mut random, Precision::F32, Tables::floats(channels));
        let total = |of: &[f32], c: usize| -> f64 {
            let column = of[c..].iter().step_by(channels);
            column.map(|&x| f64::from(x)).sum()
        };
        let of_shift: Vec<f32> = (0..channels).map(|c| total(&sums, c) as f32).collect();
        let of_scale: Vec<f32> = (0..channels).map(|c| total(&products, c) as f32 * tables[2 * channels + c]).collect();
        let [mut a, mut b] = [&sums, &products].map(|x| Place::floats(x));
        let mut table = Place::floats(&tables);
        let [mut da, mut db] = [(); 2].map(|()| Place::new(Element::F32, channels));
        let of = NormGradient {
            extent: Extent { images: 1, pixels: parts, channels },
            tables: Tables { slice: table.slice(), len: channels, per_image: false },
            workspace: a.slice(),
            affine: [da.slice(), db.slice()],
            of_batch: [0.0; 2],
        };
        norm_backward::batch_finish(&queue, of, [a.slice(), b.slice()], parts).unwrap();
        assert_close("scale", &da.values(), &of_scale, 2e-7);
        assert_close("shift", &db.values(), &of_shift, 2e-7);
    }
}

#[test]
fn gradients_of_a_batch_norm_equal_the_definition() {
    for (precision, bound) in [(Precision::F32, 2e-5), (Precision::Bf16, 1.0 / 64.0)] {
        let (Some(forward), Some(backward)) =
            (Emulator::new("norm.cu", precision), Emulator::new("norm_backward.cu", precision))
        else {
            return;
        };
        let mut random = Random::new(37);
        for (images, pixels, channels) in [(3, 20, 16), (2, 9, 5)] {
            let extent = Extent { images, pixels, channels };
            let [x, g] = [(); 2].map(|()| normals(&mut random, precision, extent.len()));
            let [scale, shift] = [(); 2].map(|()| normals(&mut random, Precision::F32, channels));
            let [of_scale, of_shift, of_input] = expected(extent, &x, &g, &scale, &shift);
            let (mut x, mut g) = (Place::elements(precision, &x), Place::elements(precision, &g));
            let [mut a, mut b] = [&scale, &shift].map(|values| Place::floats(values));
            let mut running = Place::floats(&vec![0.0; channels]);
            let running = running.slice();
            let mut workspace = Place::new(Element::F32, norm::partials_len(&forward, extent));
            let mut table = Place::new(Element::F32, Tables::floats(channels));
            let tables = Tables { slice: table.slice(), len: channels, per_image: false };
            let statistics = Statistics {
                extent,
                values: Some(x.slice()),
                workspace: workspace.slice(),
                affine: [a.slice(), b.slice()],
                eps: EPS,
                tables,
            };
            norm::batch_tables(&forward, statistics, [running; 2], 0.0, false).unwrap();
            let [mut da, mut db] = [(); 2].map(|()| Place::new(Element::F32, channels));
            let share = 1.0 / (images * pixels) as f32;
            let of = NormGradient {
                extent,
                tables,
                workspace: workspace.slice(),
                affine: [da.slice(), db.slice()],
                of_batch: [share, share],
            };
            let (values, gradient) = (x.slice(), g.slice());
            let relu = Activation::Relu;
            norm_backward::batch_sums(&backward, of, gradient, values, relu).unwrap();
            let term = Term { values, tables: Some(tables), activation: relu };
            let mut out = Place::new(precision.element(), extent.len());
            let to = out.slice().into();
            norm_backward::through(&backward, extent, term, gradient, to).unwrap();
            assert_close("scale", &da.values(), &of_scale, bound);
            assert_close("shift", &db.values(), &of_shift, bound);
            assert_close("input", &out.values(), &of_input, bound);
        }
    }
}
