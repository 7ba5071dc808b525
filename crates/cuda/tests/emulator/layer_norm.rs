use super::{Emulator, Place, assert_close, normals};
use crate::launch::Target;
use crate::launch::layer_norm::{self, LayerNormGradient, LayerNormShape};
use crate::precision::{Element, Precision};
use flipcast_kernels::{Extent, Isa, LayerNorm, ScratchSize, Team};
use flipcast_testkit::Random;

const EPS: f32 = 1e-6;

/// In 64 bits: the result, the gradient of the input, and the gradients of scale and shift.
fn expected(channels: usize, [values, gradient, scale, shift]: [&[f32]; 4]) -> [Vec<f32>; 3] {
    let (mut out, mut passed) = (Vec::new(), Vec::new());
    let mut affine = vec![0.0f64; 2 * channels];
    let rows = values.chunks_exact(channels).zip(gradient.chunks_exact(channels));
    for (x, g) in rows {
        let count = channels as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
        let inverse = 1.0 / (variance + f64::from(EPS)).sqrt();
        let normal: Vec<f64> = x.iter().map(|&x| (f64::from(x) - mean) * inverse).collect();
        let scaled: Vec<f64> = (0..channels).map(|c| f64::from(g[c]) * f64::from(scale[c])).collect();
        let total = scaled.iter().sum::<f64>() / count;
        let along = scaled.iter().zip(&normal).map(|(g, x)| g * x).sum::<f64>() / count;
        for c in 0..channels {
            out.push((normal[c] * f64::from(scale[c]) + f64::from(shift[c])) as f32);
            passed.push((inverse * (scaled[c] - total - normal[c] * along)) as f32);
            affine[c] += f64::from(g[c]) * normal[c];
            affine[channels + c] += f64::from(g[c]);
        }
    }
    [out, passed, affine.iter().map(|&x| x as f32).collect()]
}

#[test]
fn layer_norm_and_its_gradients_equal_the_definition() {
    // Channels of one to eight vectors per lane, of none that fit, and of some that fill no vector.
    for (precision, bound) in [(Precision::F32, 5e-7), (Precision::Bf16, 1.0 / 256.0)] {
        let Some(emulator) = Emulator::new("layer_norm.cu", precision) else {
            return;
        };
        let mut random = Random::new(11);
        for (tokens, channels) in [(19, 96), (5, 200), (6, 384), (7, 768), (3, 1056), (9, 13)] {
            let shape = LayerNormShape { tokens, channels, eps: EPS };
            let len = tokens * channels;
            let [values, gradient, before] = [(); 3].map(|()| normals(&mut random, precision, len));
            let [scale, shift] = [(); 2].map(|()| normals(&mut random, Precision::F32, channels));
            let [out, passed, affine] = expected(channels, [&values, &gradient, &scale, &shift]);
            let [mut x, mut g, mut to] = [&values, &gradient, &before].map(|x| Place::elements(precision, x));
            let [mut a, mut b] = [&scale, &shift].map(|x| Place::floats(x));
            let mut y = Place::new(precision.element(), len);
            layer_norm::forward(&emulator, shape, x.slice(), [a.slice(), b.slice()], y.slice()).unwrap();
            assert_close(&format!("forward of {channels}"), &y.values(), &out, bound);
            let mut partials = Place::new(Element::F32, layer_norm::partials_len(&emulator, shape));
            let mut sums = Place::new(Element::F32, 2 * channels);
            for target in [Some(true), Some(false), None] {
                let of = LayerNormGradient {
                    values: x.slice(),
                    gradient: g.slice(),
                    scale: a.slice(),
                    target: target.map(|accumulate| Target { slice: to.slice(), accumulate }),
                    partials: partials.slice(),
                    affine: sums.slice(),
                };
                layer_norm::backward(&emulator, shape, of).unwrap();
                // Sums over tokens are in 32 bits whatever the element.
                assert_close(&format!("affine of {channels}"), &sums.values(), &affine, 5e-7);
                let added = |accumulate: bool| -> Vec<f32> {
                    let both = passed.iter().zip(&before);
                    both.map(|(a, b)| if accumulate { a + b } else { *a }).collect()
                };
                if let Some(accumulate) = target {
                    let what = format!("gradient of {channels}, add {accumulate}");
                    assert_close(&what, &to.values(), &added(accumulate), bound);
                }
            }
        }
    }
}

/// The CPU kernel is the twin: both follow the same two passes.
#[test]
fn layer_norm_equals_the_cpu_kernel() {
    let Some(emulator) = Emulator::new("layer_norm.cu", Precision::F32) else {
        return;
    };
    let (tokens, channels) = (21, 48);
    let mut random = Random::new(3);
    let values = normals(&mut random, Precision::F32, tokens * channels);
    let [scale, shift] = [(); 2].map(|()| normals(&mut random, Precision::F32, channels));
    let extent = Extent { images: 1, pixels: tokens, channels };
    let mut out = vec![0.0; values.len()];
    let norm = LayerNorm { values: &values, scale: &scale, shift: &shift, eps: EPS };
    flipcast_kernels::layer_norm(&mut Team::new(Isa::detect(), 1, ScratchSize::default()), extent, norm, &mut out);
    let shape = LayerNormShape { tokens, channels, eps: EPS };
    let [mut x, mut a, mut b] = [&values, &scale, &shift].map(|x| Place::floats(x));
    let mut y = Place::new(Element::F32, out.len());
    layer_norm::forward(&emulator, shape, x.slice(), [a.slice(), b.slice()], y.slice()).unwrap();
    assert_close("forward", &y.values(), &out, 2.5e-7);
}
