//! Exponential and error function on vectors.

use crate::lanes::Lanes;

/// `exp(x)` within 2 ulp; saturates near the ends of the `f32` range instead of overflowing.
#[inline(always)]
pub unsafe fn exp<L: Lanes>(x: L::V) -> L::V {
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
pub unsafe fn tanh<L: Lanes>(x: L::V) -> L::V {
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
pub unsafe fn erf<L: Lanes>(x: L::V) -> L::V {
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
pub unsafe fn gelu_slope<L: Lanes>(z: L::V) -> L::V {
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
