use flipcast_graph::Activation;

/// The function `activation` stands for.
pub(super) fn activate(activation: Activation) -> fn(f64) -> f64 {
    match activation {
        Activation::Identity => |x| x,
        Activation::Relu => |x| x.max(0.0),
        Activation::Relu6 => relu6,
        Activation::Silu => |x| x * sigmoid(x),
        // `1 + erf(t)` cancels for negative `t`; `erfc(-t)` is the same number without the loss.
        Activation::Gelu => |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::GeluTanh => |x| 0.5 * x * (1.0 + gelu_inner(x).tanh()),
        Activation::Tanh => f64::tanh,
        Activation::Sigmoid => sigmoid,
        Activation::HardSwish => |x| x * relu6(x + 3.0) / 6.0,
        Activation::HardSigmoid => |x| relu6(x + 3.0) / 6.0,
        Activation::InverseSqrt => |x| if x > 0.0 { x.sqrt().recip() } else { 0.0 },
    }
}

/// The derivative of `activation`. At a kink it is PyTorch's choice.
pub(super) fn slope(activation: Activation) -> fn(f64) -> f64 {
    match activation {
        Activation::Identity => |_| 1.0,
        Activation::Relu => |x| if x > 0.0 { 1.0 } else { 0.0 },
        Activation::Relu6 => |x| if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 },
        Activation::Silu => |x| sigmoid(x) * (1.0 + x * sigmoid(-x)),
        Activation::Gelu => |x| {
            let below = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            below + x * density
        },
        Activation::GeluTanh => |x| {
            let t = gelu_inner(x).tanh();
            let inner_slope = gelu_tanh_factor() * (1.0 + 3.0 * GELU_CUBIC * x * x);
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner_slope
        },
        Activation::Tanh => |x| 1.0 - x.tanh().powi(2),
        Activation::Sigmoid => |x| sigmoid(x) * sigmoid(-x),
        Activation::HardSwish => |x| match x {
            ..=-3.0 => 0.0,
            3.0.. => 1.0,
            _ => x / 3.0 + 0.5,
        },
        Activation::HardSigmoid => |x| if x > -3.0 && x < 3.0 { 1.0 / 6.0 } else { 0.0 },
        Activation::InverseSqrt => |x| if x > 0.0 { -0.5 * x.sqrt().recip().powi(3) } else { 0.0 },
    }
}

/// Where the derivative of `activation` jumps.
pub(super) fn kinks(activation: Activation) -> &'static [f64] {
    match activation {
        Activation::Relu => &[0.0],
        Activation::Relu6 => &[0.0, 6.0],
        Activation::HardSwish | Activation::HardSigmoid => &[-3.0, 3.0],
        _ => &[],
    }
}

/// Factor of the cube in GELU's approximation.
const GELU_CUBIC: f64 = 0.044715;

/// `sqrt(2 / pi)`.
fn gelu_tanh_factor() -> f64 {
    std::f64::consts::FRAC_2_PI.sqrt()
}

/// What GELU's approximation takes the hyperbolic tangent of.
fn gelu_inner(x: f64) -> f64 {
    gelu_tanh_factor() * (x + GELU_CUBIC * x.powi(3))
}

fn relu6(x: f64) -> f64 {
    x.clamp(0.0, 6.0)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(activation: Activation, pairs: &[(f64, f64)]) {
        let f = activate(activation);
        for &(x, expected) in pairs {
            let found = f(x);
            // Expectations are given to 16 digits.
            assert!(
                (found - expected).abs() <= 4e-16 * expected.abs().max(1.0),
                "{activation:?}({x}) is {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn piecewise_functions_follow_their_pieces() {
        check(Activation::Relu, &[(-2.0, 0.0), (0.0, 0.0), (2.5, 2.5)]);
        check(Activation::Relu6, &[(-1.0, 0.0), (4.0, 4.0), (7.0, 6.0)]);
        check(Activation::HardSigmoid, &[(-4.0, 0.0), (0.0, 0.5), (1.5, 0.75), (5.0, 1.0)]);
        check(Activation::HardSwish, &[(-4.0, 0.0), (0.0, 0.0), (1.5, 1.125), (3.0, 3.0), (5.0, 5.0)]);
    }

    #[test]
    fn smooth_functions_equal_tabulated_values() {
        check(Activation::Sigmoid, &[(0.0, 0.5), (1.0, 0.731_058_578_630_004_9)]);
        check(Activation::Silu, &[(1.0, 0.731_058_578_630_004_9)]);
        check(Activation::Gelu, &[(1.0, 0.841_344_746_068_542_9), (-1.0, -0.158_655_253_931_457_05), (0.0, 0.0)]);
    }

    #[test]
    fn an_inverse_root_is_zero_where_there_is_none() {
        check(Activation::InverseSqrt, &[(4.0, 0.5), (0.25, 2.0), (0.0, 0.0), (-1.0, 0.0)]);
        let slope = slope(Activation::InverseSqrt);
        assert_eq!([4.0, 0.25, 0.0, -1.0].map(slope), [-0.0625, -4.0, 0.0, 0.0]);
    }

    #[test]
    fn slopes_equal_central_differences() {
        for activation in [
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
        ] {
            let (f, slope) = (activate(activation), slope(activation));
            for x in [-7.5, -2.25, -0.5, 0.25, 1.5, 4.0, 8.0] {
                let difference = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
                // Rounding of values up to 8 over a step of 1e-5; measured 3.8e-11.
                assert!(
                    (difference - slope(x)).abs() < 1.5e-10,
                    "{activation:?} at {x}: {difference} and {}",
                    slope(x)
                );
            }
        }
    }

    #[test]
    fn a_kink_belongs_to_the_side_pytorch_gives_it() {
        for (activation, x, expected) in [
            (Activation::Relu, 0.0, 0.0),
            (Activation::Relu6, 0.0, 0.0),
            (Activation::Relu6, 6.0, 0.0),
            (Activation::HardSwish, -3.0, 0.0),
            (Activation::HardSwish, 3.0, 1.0),
            (Activation::HardSigmoid, -3.0, 0.0),
            (Activation::HardSigmoid, 3.0, 0.0),
        ] {
            assert_eq!(slope(activation)(x), expected, "{activation:?}");
        }
    }

    #[test]
    fn the_far_tail_of_gelu_keeps_its_digits() {
        let found = activate(Activation::Gelu)(-8.0);
        let expected = -8.0 * 6.220_960_574_271_784e-16;
        // The expectation has 16 digits; measured 4.4e-15.
        assert!((found / expected - 1.0).abs() < 1.5e-14, "{found:e}");
    }
}
