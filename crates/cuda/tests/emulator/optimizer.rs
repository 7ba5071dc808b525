use super::{Emulator, Place};
use crate::launch::optimizer::{OptimizerPlaces, Pull, step};
use crate::precision::Precision;
use flipcast_executor::{AdamConfig, OptimizerConfig, SgdConfig};

/// What the loss leaves when it used `images` images.
fn result(images: u32) -> Place {
    Place::doubles(&[0.5, f64::from_bits(u64::from(images) << 32), 0.0])
}

const SGD: OptimizerConfig = OptimizerConfig::Sgd(SgdConfig { lr: 0.1, momentum: 0.9, nesterov: false });
const ADAM: OptimizerConfig = OptimizerConfig::Adam(AdamConfig { lr: 0.1, betas: [0.9, 0.999], eps: 1e-8 });

/// Parameters, and both memories, after one step from ones with a gradient of twos.
fn one_step(optimizer: OptimizerConfig, used: u32, mask: Option<&[f32]>) -> Option<[Vec<f32>; 3]> {
    step_along(optimizer, used, mask, [2.0; 5], None)
}

/// The same with another gradient, and with the weights of a pull to parameters of a half.
fn step_along(
    optimizer: OptimizerConfig,
    used: u32,
    mask: Option<&[f32]>,
    gradient: [f32; 5],
    pull: Option<[f64; 5]>,
) -> Option<[Vec<f32>; 3]> {
    let emulator = Emulator::new("optimiser.cu", Precision::Tf32)?;
    let [mut params, mut gradient] = [[1.0; 5], gradient].map(|x| Place::floats(&x));
    let mut source = Place::floats(&[0.5; 5]);
    let mut weights = pull.map(|pull| Place::doubles(&pull));
    let [mut first, mut second] = [(); 2].map(|()| Place::floats(&[0.25; 5]));
    let mut mask = mask.map(Place::floats);
    let (mut steps, mut result) = (Place::integers(&[2]), result(used));
    let places = OptimizerPlaces {
        params: params.slice(),
        gradient: gradient.slice(),
        mask: mask.as_mut().map(Place::slice),
        first: first.slice(),
        second: second.slice(),
        steps: steps.slice(),
        result: result.slice(),
        pull: weights.as_mut().map(|weights| Pull { weights: weights.slice(), source: source.slice() }),
    };
    step(&emulator, optimizer, places).unwrap();
    Some([params.values(), first.values(), second.values()])
}

#[test]
fn without_a_used_image_nothing_moves() {
    for optimizer in [SGD, ADAM] {
        let Some([params, first, second]) = one_step(optimizer, 0, None) else {
            return;
        };
        assert_eq!(params, [1.0; 5]);
        assert_eq!((first, second), (vec![0.25; 5], vec![0.25; 5]));
    }
}

#[test]
fn a_masked_parameter_sees_a_gradient_of_zero() {
    let mask = [1.0, 0.0, 1.0, 1.0, 0.0];
    let Some([params, first, _]) = one_step(SGD, 3, Some(&mask)) else {
        return;
    };
    for (i, &open) in mask.iter().enumerate() {
        let v = 0.9f32 * 0.25 + 2.0 * open;
        assert_eq!((first[i], params[i]), (v, 1.0 - 0.1 * v), "{i}");
    }
}

#[test]
fn a_pull_joins_the_gradient_before_the_mask() {
    let mask = [1.0, 0.0, 1.0, 1.0, 0.0];
    let pull = [0.0, 3.0, 1e-3, 40.0, 0.0];
    let Some([params, first, _]) = step_along(SGD, 3, Some(&mask), [2.0; 5], Some(pull)) else {
        return;
    };
    for (i, &open) in mask.iter().enumerate() {
        let v = 0.9f32 * 0.25 + (2.0 + pull[i] * 0.5) as f32 * open;
        assert_eq!((first[i], params[i]), (v, 1.0 - 0.1 * v), "{i}");
    }
}

#[test]
fn a_gradient_that_is_no_number_moves_nothing() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for optimizer in [SGD, ADAM] {
            let gradient = [2.0, 2.0, bad, 2.0, 2.0];
            let Some([params, first, second]) = step_along(optimizer, 3, None, gradient, None) else {
                return;
            };
            assert_eq!(params, [1.0; 5]);
            assert_eq!((first, second), (vec![0.25; 5], vec![0.25; 5]));
        }
    }
}
