use super::{Emulator, Place, assert_close, normals};
use crate::launch::Target;
use crate::launch::attention::{AttentionGradient, AttentionLayer, AttentionTables, KeptAttention};
use crate::precision::{Element, Precision};
use flipcast_graph::{Attention, Dims, Tokens};
use flipcast_kernels as k;
use flipcast_kernels::{AttentionShape, Exactness, Isa, Team};
use flipcast_testkit::Random;

/// A layer over a map of some rows and columns, with heads of some width.
struct Case {
    attention: Attention,
    map: [usize; 2],
    width: usize,
    images: usize,
}

fn case(tokens: Tokens, map: [usize; 2], [heads, width, images]: [usize; 3]) -> Case {
    let mut attention = Attention::new(heads, 1.0 / (width as f32).sqrt()).tokens(tokens);
    if tokens != Tokens::All {
        attention = attention.with_relative_bias();
    }
    Case { attention, map, width, images }
}

/// The same with a bias for every pair of tokens.
fn dense(case: Case) -> Case {
    let [height, width] = case.map;
    let tokens = case.attention.window().map_or(height * width, |size| size * size);
    Case { attention: case.attention.with_dense_bias(tokens), ..case }
}

const WINDOW: Tokens = Tokens::Window { size: 4, shift: 2 };

/// Runs both passes of `case`, and compares the result and the gradient with the CPU kernel in double precision.
fn compare(emulator: &Emulator, precision: Precision, case: &Case, [value_bound, gradient_bound]: [f32; 2]) {
    let Case { attention, map: [height, width], images, .. } = *case;
    let heads = attention.heads;
    let channels = heads * case.width;
    let dims = Dims::new(height, width, 3 * channels);
    let mut random = Random::new(17);
    let learned = attention.weights().map_or(0, |(_, extents)| extents.iter().product());
    let table = normals(&mut random, Precision::F32, learned);
    let tables = AttentionTables::new(&attention, dims, &table).unwrap();
    let len = images * dims.pixels() * channels;
    let values = normals(&mut random, precision, 3 * len);
    let gradient = normals(&mut random, precision, len);
    let before = normals(&mut random, precision, 3 * len);
    let [out, passed] = twin(case, &tables, &values, &gradient);

    let mut order = tables.order.as_ref().map(|order| Place::integers(order));
    let mut bias = tables.bias.as_ref().map(|bias| Place::floats(bias));
    let mut regions = tables.regions.as_ref().map(|regions| Place::raw(regions));
    let layer = AttentionLayer {
        order: order.as_mut().map(Place::slice),
        bias: bias.as_mut().map(Place::slice),
        regions: regions.as_mut().map(Place::slice),
        tokens: tables.tokens,
        group: tables.group,
        heads,
        head_channels: case.width,
        scale: attention.scale,
    };
    let [mut x, mut g, mut to] = [&values, &gradient, &before].map(|x| Place::elements(precision, x));
    let [mut y, mut output] = [(); 2].map(|()| Place::new(precision.element(), len));
    let [mut log_sums, mut pulls] = [(); 2].map(|()| Place::new(Element::F32, layer.rows(images)));
    let kept = KeptAttention { output: output.slice(), log_sums: log_sums.slice() };
    let what = |pass: &str| {
        let size = (tables.group, case.width);
        format!("{pass} of {size:?} in {}", precision.name())
    };
    layer.forward(emulator, images, x.slice(), y.slice(), Some(kept)).unwrap();
    assert_close(&what("forward"), &y.values(), &out, value_bound);
    assert_eq!(y.values(), output.values());
    // Long groups take their time, and the flag is the same for all.
    let flags: &[bool] = if tables.group > 100 { &[true] } else { &[true, false] };
    for &accumulate in flags {
        let of = AttentionGradient {
            values: x.slice(),
            kept,
            gradient: g.slice(),
            pulls: pulls.slice(),
            target: Target { slice: to.slice(), accumulate },
        };
        layer.backward(emulator, images, of).unwrap();
        let both = passed.iter().zip(&before);
        let expected: Vec<f32> = both.map(|(a, b)| if accumulate { a + b } else { *a }).collect();
        assert_close(&what("backward"), &to.values(), &expected, gradient_bound);
    }
}

/// The CPU kernel with sums in double precision.
fn twin(case: &Case, tables: &AttentionTables, values: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
    let tokens = tables.tokens as u32;
    let order: Vec<u32> = match &tables.order {
        Some(order) => order.iter().map(|token| token.cast_unsigned()).collect(),
        None => (0..tokens).collect(),
    };
    let shape = AttentionShape {
        tokens: tables.tokens,
        heads: case.attention.heads,
        head_channels: case.width,
        scale: case.attention.scale,
        group: tables.group,
        order: &order,
        bias: tables.bias.as_deref(),
        regions: tables.regions.as_deref().map(|regions| (regions, Attention::MASK)),
    };
    let attention = k::Attention::new(Isa::detect(), &shape, Exactness::Double);
    let team = &mut Team::new(Isa::detect(), 1, attention.scratch());
    let (mut out, mut passed) = (vec![0.0; gradient.len()], vec![0.0; values.len()]);
    attention.forward(team, case.images, values, &mut out);
    let target = k::Target { values: &mut passed, accumulate: false };
    attention.backward(team, case.images, values, gradient, target);
    [out, passed]
}

#[test]
fn attention_equals_the_cpu_kernel_for_any_head() {
    let cases = [
        case(Tokens::All, [1, 1], [1, 8, 1]),
        case(Tokens::All, [7, 5], [2, 24, 2]),
        case(Tokens::All, [65, 1], [1, 128, 1]),
        case(WINDOW, [8, 12], [2, 5, 1]),
        case(Tokens::Grid { size: 3 }, [6, 9], [1, 40, 2]),
        dense(case(Tokens::All, [5, 7], [2, 16, 1])),
    ];
    for (precision, bounds) in [(Precision::F32, [2e-6, 2e-6]), (Precision::Bf16, [4e-3, 1e-2])] {
        let Some(emulator) = Emulator::new("attention.cu", precision) else {
            return;
        };
        for case in &cases {
            compare(&emulator, precision, case, bounds);
        }
    }
}

#[test]
fn attention_on_tensor_cores_equals_the_cpu_kernel() {
    let cases = [
        case(Tokens::All, [197, 1], [1, 64, 1]),
        case(Tokens::All, [5, 13], [2, 32, 1]),
        case(Tokens::All, [1, 1], [1, 64, 1]),
        case(WINDOW, [8, 12], [2, 32, 1]),
        case(Tokens::Grid { size: 7 }, [7, 7], [1, 32, 2]),
        dense(case(Tokens::All, [33, 1], [2, 32, 1])),
        dense(case(WINDOW, [8, 8], [1, 32, 1])),
    ];
    for (precision, bounds) in [(Precision::Tf32, [2e-3, 2e-3]), (Precision::Bf16, [1e-2, 1e-2])] {
        let Some(emulator) = Emulator::new("attention_tensor.cu", precision) else {
            return;
        };
        for case in &cases {
            compare(&emulator, precision, case, bounds);
        }
    }
}
