//! Every kernel on every instruction set against its scalar twin: channel counts from one to beyond two vectors, canaries
//! around every output, and NaN, infinities and signed zeros among the inputs.

use flipcast_graph::Activation;
use flipcast_kernels::internals::{Lanes, Task};
use flipcast_kernels::*;
use flipcast_tensor::Tolerance;

const ACTIVATIONS: [Activation; 10] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Relu6,
    Activation::Silu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Tanh,
    Activation::Sigmoid,
    Activation::HardSwish,
    Activation::HardSigmoid,
];
const CANARY: f32 = 12345.0;
/// Values on either side of an output that must stay as they were.
const MARGIN: usize = 37;

/// Repeatable numbers in about [-2, 2].
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 4_194_304.0 - 2.0
    };
    (0..len).map(|_| next()).collect()
}

/// The same with NaN, infinities and zeros of both signs sprinkled in.
fn special(len: usize, seed: u64) -> Vec<f32> {
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
    let mut values = noise(len, seed);
    for (i, value) in values.iter_mut().enumerate() {
        if i % 7 == 3 {
            *value = specials[i / 7 % specials.len()];
        }
    }
    values
}

/// Runs `kernel` on every instruction set into an output of `len` between canaries, and compares with the scalar twin.
pub(crate) fn compare(what: &str, len: usize, tolerance: Tolerance, kernel: impl Fn(&mut Team, &mut [f32])) {
    let run = |isa: Isa| {
        let scratch = ScratchSize { floats: 64 << 10, offsets: 1 << 10, partials: 64 << 10 };
        let mut out = vec![CANARY; len + 2 * MARGIN];
        kernel(&mut Team::new(isa, 2, scratch), &mut out[MARGIN..MARGIN + len]);
        let canaries = out[..MARGIN].iter().chain(&out[MARGIN + len..]);
        assert!(canaries.into_iter().all(|x| *x == CANARY), "{what} {isa:?} wrote outside its output");
        out[MARGIN..MARGIN + len].to_vec()
    };
    let sets = Isa::available();
    let expected = run(sets[0]);
    for isa in &sets[1..] {
        tolerance.check(&format!("{what} {isa:?}"), &run(*isa), &expected);
    }
}

fn extent(channels: usize) -> Extent {
    Extent { images: 2, pixels: 19, channels }
}

struct Operations<'a> {
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut Vec<f32>,
}

impl Task for Operations<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let mut lane = [0.0f32; 16];
        for start in (0..self.a.len()).step_by(L::N) {
            // SAFETY: lengths are multiples of every lane count, and `lane` holds the widest vector.
            unsafe {
                let (a, b) = (L::load(self.a[start..].as_ptr()), L::load(self.b[start..].as_ptr()));
                let results = [
                    L::add(a, b),
                    L::sub(a, b),
                    L::mul(a, b),
                    L::div(a, b),
                    L::fma(a, b, a),
                    L::max(a, b),
                    L::min(a, b),
                    L::select_gt(a, b, a, b),
                    L::round(a),
                    L::keep(L::bits_gt(a, b), a),
                ];
                for v in results {
                    L::store(lane.as_mut_ptr(), v);
                    self.out.extend_from_slice(&lane[..L::N]);
                }
            }
        }
    }
}

#[test]
fn single_operations_agree_on_special_values() {
    let (a, b) = (special(160, 1), special(163, 2)[3..].to_vec());
    let run = |isa: Isa| {
        let mut out = Vec::new();
        isa.run(Operations { a: &a, b: &b, out: &mut out });
        // Vectors of different widths interleave results differently: sort them back by operation.
        let (n, operations) = (isa.lanes(), 10);
        let mut sorted = vec![0.0; out.len()];
        for (i, x) in out.into_iter().enumerate() {
            let (vector, rest) = (i / (n * operations), i % (n * operations));
            sorted[rest / n * a.len() + vector * n + rest % n] = x;
        }
        sorted
    };
    let expected = run(Isa::available()[0]);
    for isa in Isa::available() {
        // A NaN's sign and payload are not fixed; `Exact` treats all NaNs as equal.
        Tolerance::Exact.check(&format!("{isa:?}"), &run(isa), &expected);
    }
}

#[test]
fn partial_vectors_touch_only_their_part() {
    struct Copy<'a>(&'a [f32], &'a mut [f32], usize);
    impl Task for Copy<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            // SAFETY: both slices hold `part` floats; nothing beyond is touched.
            unsafe { L::store_part(self.1.as_mut_ptr(), self.2, L::load_part(self.0.as_ptr(), self.2)) }
        }
    }
    for isa in Isa::available() {
        for part in 0..=isa.lanes() {
            let from = noise(part, 5);
            let mut to = vec![CANARY; 16];
            isa.run(Copy(&from, &mut to, part));
            assert_eq!(to[..part], from[..]);
            assert!(to[part..].iter().all(|x| *x == CANARY));
        }
    }
}

#[test]
fn joins_agree_forward_and_back() {
    for channels in (1..=33).chain([48, 64]) {
        let e = extent(channels);
        let (x, y, scale, shift) = (special(e.len(), 1), noise(e.len(), 2), noise(channels, 3), noise(channels, 4));
        for activation in ACTIVATIONS {
            // Activations below the sum take the slow path.
            for inner in [Activation::Identity, Activation::Silu] {
                let norm = NormTables { scale: &scale, shift: &shift, per_image: false };
                let terms = [Source::Normed { values: &y, norm, activation: inner }, Source::Plain(&x)];
                let what = format!("join {channels} {activation:?} {inner:?}");
                compare(&what, e.len(), Tolerance::Ulps(4), |team, out| {
                    join(team, e, &terms, activation, out, None);
                });
            }
        }
        let g = noise(e.len(), 5);
        let centre = noise(channels, 6);
        compare(&format!("join backward {channels}"), e.len() + 2 * channels, Tolerance::Exact, |team, out| {
            let mut mask = vec![0; mask_len(e)];
            let mut joined = vec![0.0; e.len()];
            let terms = [Source::Plain(&y), Source::Plain(&g)];
            join(team, e, &terms, Activation::Relu6, &mut joined, Some(&mut mask));
            let (gradient, sums) = out.split_at_mut(e.len());
            let (sum, product) = sums.split_at_mut(channels);
            gradient.copy_from_slice(&g);
            let norm = JoinedNorm { values: &y, centre: &centre, sum, product };
            let through = JoinGradient { mask: Some(&mask), norms: [Some(norm), None] };
            join_backward(team, e, gradient, through);
            for i in 0..e.len() {
                let slope = joined[i] > 0.0 && joined[i] < 6.0;
                assert_eq!(gradient[i], if slope { g[i] } else { 0.0 }, "{channels} {i}");
            }
        });
    }
}

#[test]
fn norm_passes_agree() {
    for channels in 1..=33 {
        for per_image in [false, true] {
            let e = extent(channels);
            let rows = if per_image { 2 * channels } else { channels };
            let (y, g) = (noise(e.len(), 1), noise(e.len(), 2));
            let table = |seed: u64| noise(rows, seed);
            let (scale, shift, centre) = (table(3), table(4), table(5));
            let (slope, pull, constant) = (table(6), table(7), table(8));
            let norm = NormTables { scale: &scale, shift: &shift, per_image };
            let through = ThroughTables { slope: &slope, pull: &pull, constant: &constant };
            for activation in ACTIVATIONS {
                let what = format!("{channels} {activation:?} per image: {per_image}");
                // Sums of 38 products of magnitude up to about 16.
                let bound = Tolerance::SumOf { terms: 38, magnitude: 40.0 };
                compare(&format!("sums {what}"), 2 * rows, bound, |team, out| {
                    let input = NormGradient { gradient: &g, values: &y, norm, activation, centre: &centre };
                    let (sum, product) = out.split_at_mut(rows);
                    norm_sums(team, e, input, sum, product);
                });
                compare(&format!("through {what}"), e.len(), Tolerance::Absolute(2e-6), |team, out| {
                    let passage = Passage { values: &y, norm, activation, through };
                    out.copy_from_slice(&g);
                    through_norm(team, e, passage, Carried::InPlace(out));
                    let mut other = vec![1.0; e.len()];
                    let target = Target { values: &mut other, accumulate: true };
                    let carried = Carried::Into { gradient: &g, target };
                    through_norm(team, e, passage, carried);
                    let one_more: Vec<f32> = out.iter().map(|x| x + 1.0).collect();
                    assert_eq!(other, one_more, "{what}");
                });
            }
        }
        let e = extent(channels);
        let y = noise(e.len(), 1);
        compare(&format!("statistics {channels}"), 2 * channels, Tolerance::Exact, |team, out| {
            let (mut mean, mut variance) = (vec![0.0; channels], vec![0.0; channels]);
            statistics(team, e, &y, &mut mean, &mut variance);
            out.iter_mut().zip(mean.iter().chain(&variance)).for_each(|(to, x)| *to = *x as f32);
        });
    }
}

#[test]
fn pools_agree_forward_and_back() {
    for channels in [1, 5, 8, 15, 16, 17, 31, 33] {
        let shape = PoolShape { input: [7, 6], output: [4, 3], channels, kernel: 3, stride: 2, padding: 1 };
        let (in_len, out_len) = (2 * 42 * channels, 2 * 12 * channels);
        let (x, g) = (noise(in_len, 1), noise(out_len, 2));
        compare(&format!("max pool {channels}"), out_len + in_len, Tolerance::Exact, |team, out| {
            let (out, back) = out.split_at_mut(out_len);
            let mut choices = vec![0; out_len];
            pool(team, 2, shape, Source::Plain(&x), out, Some(&mut choices));
            pool_backward(team, 2, shape, &g, Some(&choices), Target { values: back, accumulate: false });
        });
        let bound = Tolerance::SumOf { terms: 9, magnitude: 18.0 };
        compare(&format!("average pool {channels}"), out_len + in_len, bound, |team, out| {
            let (out, back) = out.split_at_mut(out_len);
            pool(team, 2, shape, Source::Plain(&x), out, None);
            pool_backward(team, 2, shape, &g, None, Target { values: back, accumulate: false });
        });
        let e = Extent { images: 2, pixels: 42, channels };
        compare(&format!("global pool {channels}"), 2 * channels, Tolerance::Exact, |team, out| {
            global_avg_pool(team, e, Source::Plain(&x), out);
        });
    }
}

#[test]
fn layer_norm_agrees_forward_and_back() {
    for channels in (2..=35).chain([100]) {
        let e = extent(channels);
        let (x, g, scale, shift) = (noise(e.len(), 1), noise(e.len(), 2), noise(channels, 3), noise(channels, 4));
        // Measured: at most 1.4e-6; means over a pixel are summed in an order that depends on the vector width.
        let len = 2 * e.len() + 2 * channels;
        compare(&format!("layer norm {channels}"), len, Tolerance::RelativeL2(2e-6), |team, out| {
            let (forward, rest) = out.split_at_mut(e.len());
            let (back, rest) = rest.split_at_mut(e.len());
            let (scale_gradient, shift_gradient) = rest.split_at_mut(channels);
            let norm = LayerNorm { values: &x, scale: &scale, shift: &shift, eps: 1e-5 };
            layer_norm(team, e, norm, forward);
            let values = Some(Target { values: back, accumulate: false });
            let gradients = LayerNormGradients { scale: scale_gradient, shift: shift_gradient, values };
            layer_norm_backward(team, e, norm, &g, gradients);
        });
    }
}
