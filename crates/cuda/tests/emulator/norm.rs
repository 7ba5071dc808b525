use super::{Emulator, Place, assert_close, normals};
use crate::launch::norm::{self, Statistics, Tables, Term};
use crate::launch::pool;
use crate::precision::{Element, Precision};
use flipcast_graph::Activation;
use flipcast_kernels::Extent;
use flipcast_testkit::Random;

const EPS: f32 = 1e-5;

/// `relu(scale * (x - mean) / sqrt(variance + eps) + shift)` with the statistics of the batch, in 64 bits.
fn expected(extent: Extent, values: &[f32], scale: &[f32], shift: &[f32]) -> Vec<f32> {
    let channels = extent.channels;
    let count = (extent.images * extent.pixels) as f64;
    let mut out = vec![0.0; values.len()];
    for c in 0..channels {
        let column = || values[c..].iter().step_by(channels).map(|&x| f64::from(x));
        let mean = column().sum::<f64>() / count;
        let variance = column().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let factor = f64::from(scale[c]) / (variance + f64::from(EPS)).sqrt();
        for (row, x) in column().enumerate() {
            out[row * channels + c] = (factor * (x - mean) + f64::from(shift[c])).max(0.0) as f32;
        }
    }
    out
}

/// What more blocks left than one thread per slice takes at a time.
#[test]
fn statistics_of_many_parts_are_merged() {
    let Some(queue) = Emulator::new("norm.cu", Precision::F32) else {
        return;
    };
    for (parts, channels) in [(1, 8), (130, 13), (1100, 9)] {
        let mut random = Random::new(30);
        let [means, squares, affine] = [parts, parts, 2].map(|rows| {
            let values = normals(&mut random, Precision::F32, rows * channels);
            values.iter().map(|x| x.abs()).collect::<Vec<f32>>()
        });
        let counts: Vec<f32> = (0..parts).map(|part| (1 + part % 5) as f32).collect();
        let all: f64 = counts.iter().map(|&n| f64::from(n)).sum();
        let (mut mean, mut variance) = (vec![0.0; channels], vec![0.0; channels]);
        for c in 0..channels {
            let of = |values: &[f32], part: usize| f64::from(values[part * channels + c]);
            let n = |part: usize| f64::from(counts[part]);
            let middle = (0..parts).map(|p| n(p) * of(&means, p)).sum::<f64>() / all;
            let spread = |p: usize| of(&squares, p) + n(p) * (of(&means, p) - middle).powi(2);
            mean[c] = middle as f32;
            variance[c] = ((0..parts).map(spread).sum::<f64>() / all) as f32;
        }
        let mut partial = Place::floats(&[means, squares].concat());
        let mut sizes = Place::floats(&counts);
        let mut affine = Place::floats(&affine);
        let mut table = Place::new(Element::F32, Tables::floats(channels));
        let whole = affine.slice();
        let of = Statistics {
            extent: Extent { images: 1, pixels: all as usize, channels },
            values: None,
            workspace: partial.slice(),
            affine: [whole.first(channels), whole.part(channels..2 * channels)],
            eps: EPS,
            tables: Tables { slice: table.slice(), len: channels, per_image: false },
        };
        let places = [partial.slice(), sizes.slice()];
        let running = [whole.first(channels); 2];
        norm::batch_finish(&queue, of, running, (0.0, false), (places, parts)).unwrap();
        let found = table.values();
        assert_close("mean", &found[..channels], &mean, 2e-7);
        assert_close("variance", &found[channels..2 * channels], &variance, 2e-7);
    }
}

#[test]
fn batch_statistics_joins_and_means_equal_the_definition() {
    for (precision, bound) in [(Precision::F32, 2e-6), (Precision::Bf16, 1.0 / 256.0)] {
        let (Some(norms), Some(pools)) = (Emulator::new("norm.cu", precision), Emulator::new("pool.cu", precision))
        else {
            return;
        };
        let mut random = Random::new(29);
        for (images, pixels, channels) in [(3, 20, 16), (2, 9, 5)] {
            let extent = Extent { images, pixels, channels };
            let values = normals(&mut random, precision, extent.len());
            let [scale, shift, mean] = [(); 3].map(|()| normals(&mut random, Precision::F32, channels));
            let variance = vec![1.0; channels];
            let joined = expected(extent, &values, &scale, &shift);
            let mut x = Place::elements(precision, &values);
            let [mut a, mut b, mut c, mut d] = [&scale, &shift, &mean, &variance].map(|x| Place::floats(x));
            let mut workspace = Place::new(Element::F32, norm::partials_len(&norms, extent));
            let mut table = Place::new(Element::F32, Tables::floats(channels));
            let tables = Tables { slice: table.slice(), len: channels, per_image: false };
            let of = Statistics {
                extent,
                values: Some(x.slice()),
                workspace: workspace.slice(),
                affine: [a.slice(), b.slice()],
                eps: EPS,
                tables,
            };
            norm::batch_tables(&norms, of, [c.slice(), d.slice()], 0.0, false).unwrap();
            let term = Term { values: x.slice(), tables: Some(tables), activation: Activation::Relu };
            let mut out = Place::new(precision.element(), extent.len());
            norm::join(&norms, extent, &[term], Activation::Identity, out.slice(), None).unwrap();
            assert_close("join", &out.values(), &joined, bound);
            let mut means = Place::new(precision.element(), images * channels);
            pool::global_mean(&pools, extent, term, means.slice()).unwrap();
            let of_image = |at: usize| {
                let start = at / channels * pixels * channels + at % channels;
                let sum: f32 = (0..pixels).map(|p| joined[start + p * channels]).sum();
                sum / pixels as f32
            };
            let expected: Vec<f32> = (0..images * channels).map(of_image).collect();
            assert_close("mean", &means.values(), &expected, bound);
        }
    }
}
