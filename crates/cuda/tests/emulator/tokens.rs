use super::{Emulator, Place, assert_close, normals};
use crate::launch::{Target, tokens};
use crate::precision::Precision;
use flipcast_graph::{Arrangement, Dims};
use flipcast_kernels as k;
use flipcast_kernels::{Cells, Extent, Factors, Isa, ScratchSize, ShortcutShape, Team};
use flipcast_testkit::Random;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Bf16];
const IMAGES: usize = 3;

/// One thread of the host.
fn team() -> Team {
    Team::new(Isa::detect(), 1, ScratchSize::default())
}

/// One rounding of the result.
fn bound(precision: Precision) -> f32 {
    match precision {
        Precision::Bf16 => 1.0 / 256.0,
        _ => 1e-6,
    }
}

/// Runs `test` for both element types, for channels that fill vectors and for some that do not, aligned and not.
fn each(test: impl Fn(&Emulator, &mut Random, usize, bool)) {
    for precision in PRECISIONS {
        let Some(emulator) = Emulator::new("tokens.cu", precision) else {
            return;
        };
        for (channels, aligned) in [(16, true), (16, false), (5, true)] {
            test(&emulator, &mut Random::new(5), channels, aligned);
        }
    }
}

fn place(emulator: &Emulator, values: &[f32], aligned: bool) -> Place {
    let precision = crate::launch::Queue::precision(emulator);
    if aligned { Place::elements(precision, values) } else { Place::shifted(precision, values) }
}

fn draw(emulator: &Emulator, random: &mut Random, len: usize) -> Vec<f32> {
    normals(random, crate::launch::Queue::precision(emulator), len)
}

fn compare(what: &str, emulator: &Emulator, found: &Place, expected: &[f32]) {
    let precision = crate::launch::Queue::precision(emulator);
    assert_close(what, &found.values(), expected, bound(precision));
}

#[test]
fn tokens_move_as_on_the_host_and_back() {
    let arrangements = [
        Arrangement::PrependTokens { count: 2 },
        Arrangement::DropTokens { count: 1 },
        Arrangement::PadToMultiple { multiple: 4 },
        Arrangement::MergePatches,
    ];
    each(|emulator, random, channels, aligned| {
        let from = Dims::new(3, 5, channels);
        for arrangement in arrangements {
            let (to, learned_rows) = match arrangement {
                Arrangement::PrependTokens { count } => (Dims::new(15 + count, 1, channels), count),
                Arrangement::DropTokens { count } => (Dims::new(15 - count, 1, channels), 0),
                Arrangement::PadToMultiple { .. } => (Dims::new(4, 8, channels), 0),
                _ => (Dims::new(2, 3, 4 * channels), 0),
            };
            let cells = arrangement.cells(from, to);
            let learned = draw(emulator, random, learned_rows * channels);
            let back = Arrangement::inverse(&cells, from.pixels());
            let ways = [(&cells, from.pixels(), learned.as_slice()), (&back, cells.len(), &[])];
            for ((table, tokens, learned), accumulate) in ways.into_iter().zip([false, true]) {
                let values = draw(emulator, random, IMAGES * tokens * channels);
                let mut expected = draw(emulator, random, IMAGES * table.len() * channels);
                let mut found = place(emulator, &expected, aligned);
                let host = Cells { table, tokens, channels, vacant: learned };
                let to = k::Target { values: &mut expected, accumulate };
                k::arrange(&mut team(), IMAGES, host, &values, to);
                let moves = tokens::Moves { images: IMAGES, tokens, cells: table.len(), channels };
                let mut table = Place::integers(&tokens::move_table(table, learned.len() / channels));
                let mut learned_place = Place::floats(learned);
                let mut values = place(emulator, &values, aligned);
                let to = Target { slice: found.slice(), accumulate };
                let learned = (!learned.is_empty()).then(|| learned_place.slice());
                tokens::arrange(emulator, moves, table.slice(), learned, values.slice(), to).unwrap();
                compare("arrange", emulator, &found, &expected);
            }
        }
    });
}

#[test]
fn positions_and_factors_are_applied_as_on_the_host() {
    each(|emulator, random, channels, aligned| {
        let extent = Extent { images: IMAGES, pixels: 7, channels };
        let values = draw(emulator, random, extent.len());
        let position: Vec<f32> = (0..7 * channels).map(|_| random.normal() as f32).collect();
        let factors = &position[..channels];
        let mut expected = vec![0.0; extent.len()];
        let mut from = place(emulator, &values, aligned);
        let mut out = place(emulator, &expected, aligned);
        let mut table = Place::floats(&position);
        k::add_repeated(&mut team(), IMAGES, &values, &position, &mut expected);
        tokens::add_position(emulator, IMAGES, from.slice(), table.slice(), out.slice()).unwrap();
        compare("add_position", emulator, &out, &expected);
        let mut table = Place::floats(factors);
        for accumulate in [false, true] {
            let mut expected = draw(emulator, random, extent.len());
            let mut out = place(emulator, &expected, aligned);
            let to = k::Target { values: &mut expected, accumulate };
            k::scale(&mut team(), extent, &values, factors, to);
            let to = Target { slice: out.slice(), accumulate };
            tokens::scale_channels(emulator, extent, from.slice(), table.slice(), to).unwrap();
            compare("scale_channels", emulator, &out, &expected);
        }
    });
}

#[test]
fn gates_multiply_and_take_their_gradient_over_pixels() {
    each(|emulator, random, channels, aligned| {
        let extent = Extent { images: IMAGES, pixels: 11, channels };
        for (gate_pixels, accumulate) in [(1, false), (1, true), (11, true)] {
            let gate_len = IMAGES * gate_pixels * channels;
            let values = draw(emulator, random, extent.len());
            let gate = draw(emulator, random, gate_len);
            let gradient = draw(emulator, random, extent.len());
            let mut product = vec![0.0; extent.len()];
            let mut value_target = draw(emulator, random, extent.len());
            let mut gate_target = draw(emulator, random, gate_len);
            let [mut a, mut b, mut c] = [&product, &value_target, &gate_target].map(|x| place(emulator, x, aligned));
            let factors = Factors { values: &values, gate: &gate, gate_pixels };
            k::multiply(&mut team(), extent, factors, &mut product);
            if !accumulate {
                value_target.fill(0.0);
                gate_target.fill(0.0);
            }
            for i in 0..extent.len() {
                let of_image = gate_pixels * channels;
                let at = i / (11 * channels) * of_image + i % (11 * channels) % of_image;
                value_target[i] += gradient[i] * gate[at];
                gate_target[at] += gradient[i] * values[i];
            }
            let [mut values, mut gate, mut gradient] = [&values, &gate, &gradient].map(|x| place(emulator, x, aligned));
            let [values, gate, gradient] = [values.slice(), gate.slice(), gradient.slice()];
            let target = |slice| Target { slice, accumulate };
            let gate = (gate, gate_pixels);
            tokens::multiply(emulator, extent, values, gate, a.slice().into()).unwrap();
            compare("multiply", emulator, &a, &product);
            tokens::multiply(emulator, extent, gradient, gate, target(b.slice())).unwrap();
            compare("multiply backward", emulator, &b, &value_target);
            let to = target(c.slice());
            tokens::multiply_backward_gate(emulator, extent, gradient, values, gate_pixels, to).unwrap();
            compare("multiply_backward_gate", emulator, &c, &gate_target);
        }
    });
}

#[test]
fn flattening_turns_pixels_and_channels_and_back() {
    each(|emulator, random, channels, aligned| {
        let extent = Extent { images: IMAGES, pixels: 35, channels };
        let values = draw(emulator, random, extent.len());
        let (mut flat, mut back) = (values.clone(), values.clone());
        k::flatten(&mut team(), extent, &values, &mut flat);
        k::flatten_backward(&mut team(), extent, &values, k::Target { values: &mut back, accumulate: true });
        let mut from = place(emulator, &values, aligned);
        let [mut a, mut b] = [(); 2].map(|()| place(emulator, &values, aligned));
        tokens::flatten(emulator, extent, from.slice(), a.slice()).unwrap();
        compare("flatten", emulator, &a, &flat);
        let to = Target { slice: b.slice(), accumulate: true };
        tokens::flatten_backward(emulator, extent, from.slice(), to).unwrap();
        compare("flatten_backward", emulator, &b, &back);
    });
}

#[test]
fn the_strided_shortcut_pads_channels_and_passes_gradients_back() {
    each(|emulator, random, channels, aligned| {
        let shape = ShortcutShape { input: [5, 6], output: [3, 3], channels: [channels, 2 * channels + 2], stride: 2 };
        let (small, large) = (IMAGES * 30 * channels, IMAGES * 9 * (2 * channels + 2));
        let values = draw(emulator, random, small);
        let gradient = draw(emulator, random, large);
        let (mut out, mut target) = (vec![0.0; large], values.clone());
        let mut a = place(emulator, &out, aligned);
        let mut b = place(emulator, &target, aligned);
        k::shortcut_a(&mut team(), IMAGES, shape, &values, &mut out);
        let to = k::Target { values: &mut target, accumulate: true };
        k::shortcut_a_backward(&mut team(), IMAGES, shape, &gradient, to);
        let mut values = place(emulator, &values, aligned);
        let mut gradient = place(emulator, &gradient, aligned);
        tokens::shortcut_a(emulator, IMAGES, shape, values.slice(), a.slice()).unwrap();
        compare("shortcut_a", emulator, &a, &out);
        let to = Target { slice: b.slice(), accumulate: true };
        tokens::shortcut_a_backward(emulator, IMAGES, shape, gradient.slice(), to).unwrap();
        compare("shortcut_a_backward", emulator, &b, &target);
    });
}
