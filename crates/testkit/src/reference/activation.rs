use flipcast_graph::Activation;

/// `activation(x)`, or `None` for one the reference does not know.
pub(super) fn activate(activation: Activation) -> Option<fn(f64) -> f64> {
    Some(match activation {
        Activation::Identity => |x| x,
        Activation::Relu => |x| x.max(0.0),
        Activation::Relu6 => relu6,
        Activation::Silu => |x| x * sigmoid(x),
        // `1 + erf(t)` cancels for negative `t`; `erfc(-t)` is the same number without the loss.
        Activation::Gelu => |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::Sigmoid => sigmoid,
        Activation::HardSwish => |x| x * relu6(x + 3.0) / 6.0,
        _ => return None,
    })
}

/// Where the derivative of `activation` jumps.
pub(super) fn kinks(activation: Activation) -> &'static [f64] {
    match activation {
        Activation::Relu => &[0.0],
        Activation::Relu6 => &[0.0, 6.0],
        Activation::HardSwish => &[-3.0, 3.0],
        _ => &[],
    }
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
        let f = activate(activation).unwrap();
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
        check(
            Activation::HardSwish,
            &[
                (-4.0, 0.0),
                (0.0, 0.0),
                (1.5, 1.125),
                (3.0, 3.0),
                (5.0, 5.0),
            ],
        );
    }

    #[test]
    fn smooth_functions_equal_tabulated_values() {
        check(
            Activation::Sigmoid,
            &[(0.0, 0.5), (1.0, 0.731_058_578_630_004_9)],
        );
        check(Activation::Silu, &[(1.0, 0.731_058_578_630_004_9)]);
        check(
            Activation::Gelu,
            &[
                (1.0, 0.841_344_746_068_542_9),
                (-1.0, -0.158_655_253_931_457_05),
                (0.0, 0.0),
            ],
        );
    }

    #[test]
    fn the_far_tail_of_gelu_keeps_its_digits() {
        let found = activate(Activation::Gelu).unwrap()(-8.0);
        let expected = -8.0 * 6.220_960_574_271_784e-16;
        // The expectation has 16 digits; measured 4.4e-15.
        assert!((found / expected - 1.0).abs() < 1.5e-14, "{found:e}");
    }
}
