//! Exponential and error function on vectors.

use crate::lanes::Lanes;

/// `exp(x)` within 2 ulp; saturates near the ends of the `f32` range instead of overflowing.
#[inline(always)]
pub(crate) unsafe fn exp<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        // The constant comes first so that a NaN passes through.
        let x = L::min(L::splat(88.0), L::max(L::splat(-87.0), x));
        let k = L::round(L::mul(x, L::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, the first exact in a product with `k`.
        let r = L::fma(k, L::splat(-0.693_359_4), x);
        let r = L::fma(k, L::splat(2.121_944_4e-4), r);
        let mut p = L::splat(1.987_569_1e-4);
        for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = L::fma(p, r, L::splat(c));
        }
        let y = L::add(L::fma(p, L::mul(r, r), r), L::splat(1.0));
        L::mul(y, L::pow2(k))
    }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) unsafe fn sigmoid<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let one = L::splat(1.0);
        L::div(one, L::add(one, exp::<L>(L::sub(L::splat(0.0), x))))
    }
}

/// The hyperbolic tangent within 3 ulp: a polynomial near zero, where the other form cancels.
#[inline(always)]
pub(crate) unsafe fn tanh<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let (one, x2) = (L::splat(1.0), L::mul(x, x));
        let mut p = L::splat(-5.704_988_7e-3);
        for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
            p = L::fma(p, x2, L::splat(c));
        }
        let near = L::fma(L::mul(x, x2), p, x);
        let e = exp::<L>(L::add(x, x));
        let far = L::sub(one, L::div(L::splat(2.0), L::add(e, one)));
        // 0.625^2
        L::select_gt(x2, L::splat(0.390_625), far, near)
    }
}

/// The error function, by a rational approximation on [-4, 4], outside of which it is 1 to `f32` precision.
#[inline(always)]
pub(crate) unsafe fn erf<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let x = L::min(L::splat(4.0), L::max(L::splat(-4.0), x));
        let x2 = L::mul(x, x);
        let mut p = L::splat(-2.726_142_3e-10);
        for c in [2.770_681_4e-8, -2.101_024e-6, -5.692_506_5e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2] {
            p = L::fma(p, x2, L::splat(c));
        }
        let mut q = L::splat(-1.456_607_2e-5);
        for c in [-2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2] {
            q = L::fma(q, x2, L::splat(c));
        }
        L::div(L::mul(x, p), q)
    }
}

/// The derivative of `z Phi(z)`, `Phi(z) + z phi(z)`, within 4e-7: a half and an odd rational function, fitted to the least
/// largest error on [-6, 6], outside of which the derivative is 0 or 1 to `f32` precision.
#[inline(always)]
pub(crate) unsafe fn gelu_slope<L: Lanes>(z: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let z = L::min(L::splat(6.0), L::max(L::splat(-6.0), z));
        let z2 = L::mul(z, z);
        let mut p = L::splat(-1.535_814_5e-11);
        for c in [
            2.785_136e-9,
            -1.008_864e-7,
            3.300_806e-5,
            -1.481_641_5e-4,
            1.452_999_8e-2,
            -4.151_735_5e-2,
            7.978_847_6e-1,
        ] {
            p = L::fma(p, z2, L::splat(c));
        }
        let mut q = L::splat(5.556_495e-6);
        for c in [1.502_072e-4, 2.952_269_3e-3, 3.697_174_8e-2, 2.813_015e-1, 1.0] {
            q = L::fma(q, z2, L::splat(c));
        }
        L::add(L::div(L::mul(z, p), q), L::splat(0.5))
    }
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::lanes::{Lanes, Task};

    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        Erf,
        Tanh,
        GeluSlope,
    }

    struct Map<'a>(&'a [f32], &'a mut [f32], Function);

    impl Task for Map<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            for i in (0..self.0.len()).step_by(L::N) {
                // SAFETY: lengths are multiples of the largest lane count.
                unsafe {
                    let x = L::load(self.0[i..].as_ptr());
                    let y = match self.2 {
                        Function::Exp => super::exp::<L>(x),
                        Function::Erf => super::erf::<L>(x),
                        Function::Tanh => super::tanh::<L>(x),
                        Function::GeluSlope => super::gelu_slope::<L>(x),
                    };
                    L::store(self.1[i..].as_mut_ptr(), y);
                }
            }
        }
    }

    fn worst_relative(function: Function, low: f32, high: f32, exact: fn(f64) -> f64) -> f64 {
        let inputs: Vec<f32> = (0..65_536).map(|i| low + (high - low) * i as f32 / 65_536.0).collect();
        let mut worst = 0.0f64;
        for isa in Isa::available() {
            let mut outputs = vec![0.0; inputs.len()];
            isa.run(Map(&inputs, &mut outputs, function));
            for (&x, &y) in inputs.iter().zip(&outputs) {
                let expected = exact(f64::from(x));
                worst = worst.max((f64::from(y) - expected).abs() / expected.abs().max(1e-30));
            }
        }
        worst
    }

    #[test]
    fn exp_is_within_two_ulp() {
        let worst = worst_relative(Function::Exp, -86.0, 87.0, f64::exp);
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn erf_is_within_four_ulp() {
        let worst = worst_relative(Function::Erf, 0.001, 3.9, libm::erf);
        assert!(worst < 4.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn tanh_is_within_three_ulp() {
        let worst = worst_relative(Function::Tanh, -12.0, -0.001, f64::tanh).max(worst_relative(
            Function::Tanh,
            0.001,
            12.0,
            f64::tanh,
        ));
        assert!(worst < 3.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn gelu_slope_is_within_its_bound() {
        let exact = |z: f64| {
            let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) + z * density
        };
        let inputs: Vec<f32> = (-40_000..40_000).map(|i| i as f32 / 4_000.0).collect();
        for isa in Isa::available() {
            let mut outputs = vec![0.0; inputs.len()];
            isa.run(Map(&inputs, &mut outputs, Function::GeluSlope));
            for (&z, &slope) in inputs.iter().zip(&outputs) {
                let error = (f64::from(slope) - exact(f64::from(z))).abs();
                assert!(error < 4e-7, "{error:e} at {z} with {isa:?}");
            }
        }
    }
}
