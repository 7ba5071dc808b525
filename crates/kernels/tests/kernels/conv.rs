//! Every algorithm, direction and instruction set against the definition of a convolution in double precision.

use flipcast_graph::Activation;
use flipcast_kernels::{Conv, ConvShape, Exactness, Gather, Isa, NormTables, Sink, Source, Team, ThroughTables};
use flipcast_tensor::Tolerance;

/// Repeatable numbers in about [-1, 1].
fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn shape(
    [height, width]: [usize; 2],
    in_channels: usize,
    out_channels: usize,
    kernel: [usize; 2],
    [stride, pad, dilation, groups]: [usize; 4],
) -> ConvShape {
    let along = |size: usize, k: usize| (size + 2 * pad - ((k - 1) * dilation + 1)) / stride + 1;
    ConvShape {
        input: [height, width],
        in_channels,
        output: [along(height, kernel[0]), along(width, kernel[1])],
        out_channels,
        kernel,
        stride,
        padding: [pad, pad],
        dilation,
        groups,
    }
}

/// Calls `f(output index, input index, weight index)` for every product of a convolution.
fn products(shape: &ConvShape, images: usize, mut f: impl FnMut(usize, usize, usize)) {
    let (gi, go) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    for n in 0..images {
        for oy in 0..shape.output[0] {
            for ox in 0..shape.output[1] {
                for ky in 0..shape.kernel[0] {
                    for kx in 0..shape.kernel[1] {
                        let y = (oy * shape.stride + ky * shape.dilation).checked_sub(shape.padding[0]);
                        let x = (ox * shape.stride + kx * shape.dilation).checked_sub(shape.padding[1]);
                        let (Some(y), Some(x)) = (y, x) else { continue };
                        if y >= shape.input[0] || x >= shape.input[1] {
                            continue;
                        }
                        for o in 0..shape.out_channels {
                            for i in 0..gi {
                                let out = ((n * shape.output[0] + oy) * shape.output[1] + ox) * shape.out_channels + o;
                                let channel = o / go * gi + i;
                                let into =
                                    ((n * shape.input[0] + y) * shape.input[1] + x) * shape.in_channels + channel;
                                let weight = ((o * gi + i) * shape.kernel[0] + ky) * shape.kernel[1] + kx;
                                f(out, into, weight);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn run(conv: &Conv, threads: usize, images: usize, source: Source, sink: Sink) {
    conv.run(&mut Team::new(Isa::detect(), threads, conv.scratch(images)), images, source, sink);
}

fn cases() -> Vec<(&'static str, ConvShape)> {
    vec![
        ("pointwise", shape([5, 7], 33, 20, [1, 1], [1, 0, 1, 1])),
        ("pointwise", shape([4, 4], 700, 48, [1, 1], [1, 0, 1, 1])),
        ("pointwise", shape([9, 6], 16, 32, [1, 1], [2, 0, 1, 1])),
        ("winograd", shape([8, 8], 16, 16, [3, 3], [1, 1, 1, 1])),
        ("winograd", shape([7, 9], 32, 48, [3, 3], [1, 1, 1, 1])),
        ("winograd", shape([14, 3], 16, 64, [3, 3], [1, 1, 1, 1])),
        ("winograd", shape([19, 40], 16, 16, [3, 3], [1, 0, 1, 1])),
        ("direct", shape([9, 6], 5, 12, [3, 3], [1, 1, 1, 1])),
        ("direct", shape([9, 10], 16, 33, [3, 3], [2, 1, 1, 1])),
        ("direct", shape([8, 8], 20, 17, [3, 3], [2, 1, 1, 1])),
        ("direct", shape([23, 30], 3, 24, [7, 7], [2, 3, 1, 1])),
        ("direct", shape([11, 9], 6, 8, [3, 3], [1, 2, 2, 1])),
        ("direct", shape([7, 7], 8, 8, [5, 5], [3, 2, 1, 1])),
        ("direct", shape([6, 7], 24, 12, [3, 3], [1, 1, 1, 4])),
        ("direct", shape([6, 7], 32, 32, [3, 3], [2, 1, 1, 8])),
        ("direct", shape([6, 7], 12, 24, [1, 3], [1, 0, 1, 1])),
        ("direct", shape([5, 5], 48, 48, [1, 1], [1, 1, 1, 1])),
        ("depthwise", shape([9, 11], 20, 20, [3, 3], [1, 1, 1, 20])),
        ("depthwise", shape([9, 8], 33, 33, [3, 3], [2, 1, 1, 33])),
        ("depthwise", shape([7, 7], 16, 16, [5, 5], [2, 2, 1, 16])),
    ]
}

#[test]
fn both_directions_equal_the_definition() {
    let images = 3;
    for isa in Isa::available() {
        for (case, (name, shape)) in cases().into_iter().enumerate() {
            let weights = noise(
                shape.out_channels * shape.in_channels / shape.groups * shape.kernel[0] * shape.kernel[1],
                7 + case as u64,
            );
            let (in_len, out_len) = (
                images * shape.input[0] * shape.input[1] * shape.in_channels,
                images * shape.output[0] * shape.output[1] * shape.out_channels,
            );
            let (x, g) = (noise(in_len, 100 + case as u64), noise(out_len, 200 + case as u64));
            let bias = noise(shape.out_channels, 3);
            let mut y = vec![0.0f64; out_len];
            let mut dx = vec![0.0f64; in_len];
            products(&shape, images, |o, i, w| {
                y[o] += f64::from(x[i]) * f64::from(weights[w]);
                dx[i] += f64::from(g[o]) * f64::from(weights[w]);
            });
            let terms = shape.in_channels.max(shape.out_channels) / shape.groups * shape.kernel[0] * shape.kernel[1];
            // Measured: at most 1.1e-6 of the largest output with Winograd, less otherwise.
            let bound = 4e-6 * (terms as f32).sqrt();

            let conv = Conv::forward(isa, &shape, &weights, Exactness::Fast);
            assert_eq!(conv.algorithm(), name, "{shape:?}");
            let mut out = vec![0.5; out_len];
            let sink = Sink { out: &mut out, accumulate: false, bias: Some(&bias), gather: Gather::Nothing };
            run(&conv, 2, images, Source::Plain(&x), sink);
            let expected: Vec<f32> =
                y.iter().enumerate().map(|(i, y)| *y as f32 + bias[i % shape.out_channels]).collect();
            Tolerance::Absolute(bound).check(&format!("{isa:?} {name} forward {shape:?}"), &out, &expected);

            let conv = Conv::backward(isa, &shape, &weights, Exactness::Fast);
            let mut out = vec![0.25; in_len];
            let sink = Sink { out: &mut out, accumulate: true, bias: None, gather: Gather::Nothing };
            run(&conv, 2, images, Source::Plain(&g), sink);
            let expected: Vec<f32> = dx.iter().map(|dx| *dx as f32 + 0.25).collect();
            Tolerance::Absolute(bound).check(&format!("{isa:?} {name} backward {shape:?}"), &out, &expected);
            let sink = Sink { out: &mut out, accumulate: false, bias: None, gather: Gather::Nothing };
            run(&conv, 1, images, Source::Plain(&g), sink);
            let expected: Vec<f32> = dx.iter().map(|dx| *dx as f32).collect();
            Tolerance::Absolute(bound).check(&format!("{isa:?} {name} overwritten {shape:?}"), &out, &expected);
        }
    }
}

#[test]
fn norms_fold_into_the_fill_and_statistics_into_the_sink() {
    let images = 2;
    for isa in Isa::available() {
        for (_, shape) in cases() {
            let weights =
                noise(shape.out_channels * shape.in_channels / shape.groups * shape.kernel[0] * shape.kernel[1], 5);
            let in_len = images * shape.input[0] * shape.input[1] * shape.in_channels;
            let out_len = images * shape.output[0] * shape.output[1] * shape.out_channels;
            let c = shape.in_channels;
            let (x, scale, shift) = (noise(in_len, 1), noise(c, 2), noise(c, 3));
            let (g, slope, pull, constant) = (noise(in_len, 9), noise(c, 4), noise(c, 5), noise(c, 6));
            let norm = NormTables { scale: &scale, shift: &shift, per_image: false };
            let through = ThroughTables { slope: &slope, pull: &pull, constant: &constant };
            let z: Vec<f32> = x.iter().enumerate().map(|(i, x)| x * scale[i % c] + shift[i % c]).collect();
            let normed: Vec<f32> = z.iter().map(|z| z.clamp(0.0, 6.0)).collect();
            let carried: Vec<f32> = (0..in_len)
                .map(|i| {
                    let dz = if z[i] > 0.0 && z[i] < 6.0 { g[i] } else { 0.0 };
                    slope[i % c] * dz + pull[i % c] * x[i] + constant[i % c]
                })
                .collect();
            let conv = Conv::forward(isa, &shape, &weights, Exactness::Fast);
            let activation = Activation::Relu6;
            let sources = [
                (Source::Normed { values: &x, norm, activation }, &normed),
                (Source::Gradient { gradient: &g, values: &x, norm, activation, through }, &carried),
            ];
            for (source, stored) in sources {
                let channels = shape.out_channels;
                let (mut folded, mut plain) = (vec![0.0; out_len], vec![0.0; out_len]);
                let (mut mean, mut variance) = (vec![0.0; channels], vec![0.0; channels]);
                let gather = Gather::Statistics { mean: &mut mean, variance: &mut variance };
                run(&conv, 2, images, source, Sink { out: &mut folded, accumulate: false, bias: None, gather });
                let sink = Sink { out: &mut plain, accumulate: false, bias: None, gather: Gather::Nothing };
                run(&conv, 1, images, Source::Plain(stored), sink);
                let largest = plain.iter().fold(0.0f32, |a, b| a.max(b.abs()));
                Tolerance::Absolute(3e-6 * largest.max(1.0)).check("folded", &folded, &plain);
                for o in 0..channels {
                    let column: Vec<f64> = plain.iter().skip(o).step_by(channels).map(|v| f64::from(*v)).collect();
                    let n = column.len() as f64;
                    let m = column.iter().sum::<f64>() / n;
                    let v = column.iter().map(|x| (x - m).powi(2)).sum::<f64>() / n;
                    assert!((mean[o] - m).abs() < 2e-6 * (1.0 + v.sqrt() + m.abs()), "{} {m}", mean[o]);
                    assert!((variance[o] - v).abs() < 1e-5 * (v + 1e-3), "{} {v}", variance[o]);
                }
            }
        }
    }
}

#[test]
fn sums_gathered_in_the_sink_equal_a_separate_pass() {
    let images = 3;
    for isa in Isa::available() {
        for (_, shape) in cases() {
            let weights =
                noise(shape.out_channels * shape.in_channels / shape.groups * shape.kernel[0] * shape.kernel[1], 5);
            let (c, pixels) = (shape.in_channels, shape.input[0] * shape.input[1]);
            let in_len = images * pixels * c;
            let g = noise(images * shape.output[0] * shape.output[1] * shape.out_channels, 8);
            let (y, scale, shift, centre) = (noise(in_len, 1), noise(c, 2), noise(c, 3), noise(c, 4));
            let norm = NormTables { scale: &scale, shift: &shift, per_image: false };
            let activation = Activation::Relu;
            let conv = Conv::backward(isa, &shape, &weights, Exactness::Fast);
            let mut out = vec![0.0; in_len];
            let (mut sum, mut product) = (vec![0.0; c], vec![0.0; c]);
            let gather =
                Gather::Sums { values: &y, norm, activation, centre: &centre, sum: &mut sum, product: &mut product };
            run(&conv, 2, images, Source::Plain(&g), Sink { out: &mut out, accumulate: false, bias: None, gather });
            for channel in 0..c {
                let (mut s, mut p, mut size) = (0.0f64, 0.0f64, 0.0f64);
                for i in (channel..in_len).step_by(c) {
                    if y[i] * scale[channel] + shift[channel] > 0.0 {
                        s += f64::from(out[i]);
                        p += f64::from(out[i]) * f64::from(y[i] - centre[channel]);
                        size += f64::from(out[i].abs());
                    } else {
                        assert_eq!(out[i], 0.0, "a gradient behind a flat activation");
                    }
                }
                assert!((f64::from(sum[channel]) - s).abs() <= 2e-6 * size, "{} {s}", sum[channel]);
                assert!((f64::from(product[channel]) - p).abs() <= 4e-6 * size, "{} {p}", product[channel]);
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for isa in Isa::available() {
        for (_, shape) in cases() {
            let images = 4;
            let weights =
                noise(shape.out_channels * shape.in_channels / shape.groups * shape.kernel[0] * shape.kernel[1], 5);
            let x = noise(images * shape.input[0] * shape.input[1] * shape.in_channels, 6);
            let conv = Conv::forward(isa, &shape, &weights, Exactness::Fast);
            let len = images * shape.output[0] * shape.output[1] * shape.out_channels;
            let results: Vec<_> = [1, 2, 3]
                .into_iter()
                .map(|threads| {
                    let mut out = vec![0.0; len];
                    let mut mean = vec![0.0; shape.out_channels];
                    let mut variance = vec![0.0; shape.out_channels];
                    let gather = Gather::Statistics { mean: &mut mean, variance: &mut variance };
                    let sink = Sink { out: &mut out, accumulate: false, bias: None, gather };
                    run(&conv, threads, images, Source::Plain(&x), sink);
                    (out, mean, variance)
                })
                .collect();
            assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{isa:?} {shape:?}");
        }
    }
}
