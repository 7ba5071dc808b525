use super::{Emulator, Place, assert_close};
use crate::launch::Queue;
use crate::module::Arg;
use crate::precision::{Element, Precision};

/// Numbered as in activation.cuh, with value and slope in 64 bits.
type Curve = (&'static str, fn(f64) -> [f64; 2]);

const CURVES: [Curve; 10] = [
    ("identity", |z| [z, 1.0]),
    ("relu", |z| [z.max(0.0), f64::from(u8::from(z > 0.0))]),
    ("relu6", |z| [z.clamp(0.0, 6.0), f64::from(u8::from(z > 0.0 && z < 6.0))]),
    ("silu", |z| {
        let s = sigmoid(z);
        [z * s, s * (1.0 + z * (1.0 - s))]
    }),
    ("gelu", |z| {
        let phi = 0.5 * (1.0 + libm::erf(z / 2f64.sqrt()));
        [z * phi, phi + z * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()]
    }),
    ("gelu_tanh", |z| {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let t = (root * (z + 0.044715 * z.powi(3))).tanh();
        let inner = root * (1.0 + 3.0 * 0.044715 * z * z);
        [0.5 * z * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * inner]
    }),
    ("tanh", |z| [z.tanh(), 1.0 - z.tanh().powi(2)]),
    ("sigmoid", |z| [sigmoid(z), sigmoid(z) * (1.0 - sigmoid(z))]),
    ("hard_swish", |z| {
        let slope = if z <= -3.0 {
            0.0
        } else if z > 3.0 {
            1.0
        } else {
            z / 3.0 + 0.5
        };
        [z * (z + 3.0).clamp(0.0, 6.0) / 6.0, slope]
    }),
    ("hard_sigmoid", |z| [(z + 3.0).clamp(0.0, 6.0) / 6.0, if z > -3.0 && z < 3.0 { 1.0 / 6.0 } else { 0.0 }]),
];

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

const SOURCE: &str = r#"
#include "activation.cuh"
static void activate_all(const float *z, float *value, float *slope, int activation, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) value[i] = activate(activation, z[i]), slope[i] = slope_at(activation, z[i]);
}
"#;

#[test]
fn activations_and_their_slopes_equal_the_definitions() {
    let names = ["activate_all".to_owned()];
    let Some(emulator) = Emulator::build(SOURCE, &names, Precision::F32) else {
        return;
    };
    let z: Vec<f32> = (-80..=80).map(|i| i as f32 / 8.0 + 1e-3).collect();
    for (number, (name, curve)) in CURVES.iter().enumerate() {
        let mut input = Place::floats(&z);
        let [mut value, mut slope] = [(); 2].map(|()| Place::new(Element::F32, z.len()));
        let places = [input.slice(), value.slice(), slope.slice()].map(Arg::Slice);
        let args = [&places[..], &[Arg::count(number), Arg::count(z.len())]].concat();
        emulator.launch("activate_all", [6, 1, 1], [32, 1, 1], 0, &args).unwrap();
        let expected: Vec<[f64; 2]> = z.iter().map(|&z| curve(f64::from(z))).collect();
        for (found, which) in [(value.values(), 0), (slope.values(), 1)] {
            let expected: Vec<f32> = expected.iter().map(|pair| pair[which] as f32).collect();
            // `1 - sigmoid` is rounded to 2^-24, and the slope of the tanh form multiplies it with up to 35 where it counts.
            assert_close(name, &found, &expected, 4e-6);
        }
    }
}
