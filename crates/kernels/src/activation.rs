//! Activations on vectors: their value, and a gradient carried back through them.

use crate::lanes::Lanes;
use crate::math;
use flipcast_graph::Activation;

/// An element-wise function the compiler can see through.
pub(crate) trait Curve: Copy {
    /// The function at `z`.
    unsafe fn value<L: Lanes>(self, z: L::V) -> L::V;
    /// `gradient` times the derivative at `z`.
    unsafe fn backward<L: Lanes>(self, z: L::V, gradient: L::V) -> L::V;
}

#[derive(Clone, Copy)]
pub(crate) struct Identity;
#[derive(Clone, Copy)]
pub(crate) struct Relu;
#[derive(Clone, Copy)]
pub(crate) struct Relu6;
/// The smooth ones, chosen vector by vector: their arithmetic outweighs the choice.
#[derive(Clone, Copy)]
pub(crate) enum Smooth {
    Silu,
    Gelu,
    GeluTanh,
    Tanh,
    Sigmoid,
    HardSwish,
    HardSigmoid,
    InverseSqrt,
}

/// An activation, sorted by the [`Curve`] that computes it.
pub(crate) enum Form {
    Identity,
    Relu,
    Relu6,
    Smooth(Smooth),
}

impl From<Activation> for Form {
    #[inline(always)]
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Identity => Self::Identity,
            Activation::Relu => Self::Relu,
            Activation::Relu6 => Self::Relu6,
            Activation::Silu => Self::Smooth(Smooth::Silu),
            Activation::Gelu => Self::Smooth(Smooth::Gelu),
            Activation::GeluTanh => Self::Smooth(Smooth::GeluTanh),
            Activation::Tanh => Self::Smooth(Smooth::Tanh),
            Activation::Sigmoid => Self::Smooth(Smooth::Sigmoid),
            Activation::HardSwish => Self::Smooth(Smooth::HardSwish),
            Activation::HardSigmoid => Self::Smooth(Smooth::HardSigmoid),
            Activation::InverseSqrt => Self::Smooth(Smooth::InverseSqrt),
        }
    }
}

/// Runs `$body` with `$curve` bound to the [`Curve`] of `$activation`, so that loops inside are compiled for each.
macro_rules! with_curve {
    ($activation:expr, $curve:ident => $body:expr) => {
        match crate::activation::Form::from($activation) {
            crate::activation::Form::Identity => {
                let $curve = crate::activation::Identity;
                $body
            }
            crate::activation::Form::Relu => {
                let $curve = crate::activation::Relu;
                $body
            }
            crate::activation::Form::Relu6 => {
                let $curve = crate::activation::Relu6;
                $body
            }
            crate::activation::Form::Smooth($curve) => $body,
        }
    };
}
pub(crate) use with_curve;

// SAFETY (all blocks): the caller vouches for the instruction set; nothing else is needed.
impl Curve for Identity {
    #[inline(always)]
    unsafe fn value<L: Lanes>(self, z: L::V) -> L::V {
        z
    }
    #[inline(always)]
    unsafe fn backward<L: Lanes>(self, _: L::V, gradient: L::V) -> L::V {
        gradient
    }
}

impl Curve for Relu {
    #[inline(always)]
    unsafe fn value<L: Lanes>(self, z: L::V) -> L::V {
        // Zero first: `max` gives its second operand for a NaN, which must not vanish.
        // SAFETY: see above.
        unsafe { L::max(L::splat(0.0), z) }
    }
    #[inline(always)]
    unsafe fn backward<L: Lanes>(self, z: L::V, gradient: L::V) -> L::V {
        // SAFETY: see above.
        unsafe { L::select_gt(z, L::splat(0.0), gradient, L::splat(0.0)) }
    }
}

impl Curve for Relu6 {
    #[inline(always)]
    unsafe fn value<L: Lanes>(self, z: L::V) -> L::V {
        // SAFETY: see above.
        unsafe { L::min(L::splat(6.0), L::max(L::splat(0.0), z)) }
    }
    #[inline(always)]
    unsafe fn backward<L: Lanes>(self, z: L::V, gradient: L::V) -> L::V {
        // SAFETY: see above.
        unsafe {
            let zero = L::splat(0.0);
            let below = L::select_gt(L::splat(6.0), z, gradient, zero);
            L::select_gt(z, zero, below, zero)
        }
    }
}

impl Curve for Smooth {
    #[inline(always)]
    unsafe fn value<L: Lanes>(self, z: L::V) -> L::V {
        // SAFETY: see above.
        unsafe {
            match self {
                Self::Silu => L::mul(z, math::sigmoid::<L>(z)),
                Self::Sigmoid => math::sigmoid::<L>(z),
                Self::Gelu => L::mul(z, normal_distribution::<L>(z)),
                Self::GeluTanh => L::mul(z, gelu_gate::<L>(z)),
                Self::Tanh => math::tanh::<L>(z),
                Self::HardSwish => {
                    let gate = Relu6.value::<L>(L::add(z, L::splat(3.0)));
                    L::mul(L::mul(z, gate), L::splat(1.0 / 6.0))
                }
                Self::HardSigmoid => L::mul(Relu6.value::<L>(L::add(z, L::splat(3.0))), L::splat(1.0 / 6.0)),
                Self::InverseSqrt => inverse_sqrt::<L>(z),
            }
        }
    }
    #[inline(always)]
    unsafe fn backward<L: Lanes>(self, z: L::V, gradient: L::V) -> L::V {
        // SAFETY: see above.
        unsafe {
            let one = L::splat(1.0);
            let slope = match self {
                Self::Silu => {
                    let s = math::sigmoid::<L>(z);
                    L::mul(s, L::fma(z, L::sub(one, s), one))
                }
                Self::Sigmoid => {
                    let s = math::sigmoid::<L>(z);
                    L::mul(s, L::sub(one, s))
                }
                Self::Gelu => math::gelu_slope::<L>(z),
                Self::GeluTanh => {
                    let s = gelu_gate::<L>(z);
                    // 2 sqrt(2 / pi) (1 + 3 * 0.044715 z^2), the slope of what the gate is taken of.
                    let inner = L::fma(L::mul(z, z), L::splat(0.214_064_43), L::splat(1.595_769));
                    L::mul(s, L::fma(L::mul(z, inner), L::sub(one, s), one))
                }
                Self::Tanh => {
                    let t = math::tanh::<L>(z);
                    L::sub(one, L::mul(t, t))
                }
                Self::HardSwish => {
                    let inner = L::fma(z, L::splat(1.0 / 3.0), L::splat(0.5));
                    let upper = L::select_gt(z, L::splat(3.0), one, inner);
                    L::select_gt(z, L::splat(-3.0), upper, L::splat(0.0))
                }
                Self::HardSigmoid => {
                    let inner = L::select_gt(L::splat(3.0), z, L::splat(1.0 / 6.0), L::splat(0.0));
                    L::select_gt(z, L::splat(-3.0), inner, L::splat(0.0))
                }
                Self::InverseSqrt => {
                    let r = inverse_sqrt::<L>(z);
                    L::mul(L::mul(L::mul(r, r), r), L::splat(-0.5))
                }
            };
            L::mul(gradient, slope)
        }
    }
}

/// `(1 + tanh(u)) / 2 = sigmoid(2 u)` with `u = sqrt(2 / pi) (z + 0.044715 z^3)`.
#[inline(always)]
unsafe fn gelu_gate<L: Lanes>(z: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let inner = L::fma(L::mul(z, z), L::splat(0.071_354_814), L::splat(1.595_769));
        math::sigmoid::<L>(L::mul(z, inner))
    }
}

/// `1 / sqrt(z)`, and 0 where `z` is not positive.
#[inline(always)]
unsafe fn inverse_sqrt<L: Lanes>(z: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let zero = L::splat(0.0);
        L::select_gt(z, zero, L::div(L::splat(1.0), L::sqrt(z)), zero)
    }
}

/// `Phi(z)`.
#[inline(always)]
unsafe fn normal_distribution<L: Lanes>(z: L::V) -> L::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let e = math::erf::<L>(L::mul(z, L::splat(std::f32::consts::FRAC_1_SQRT_2)));
        L::fma(e, L::splat(0.5), L::splat(0.5))
    }
}
