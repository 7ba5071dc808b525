//! Eight lanes on 64-bit ARM, two registers of four: with the layouts, tiles and sums of AVX2.

#[cfg(target_arch = "aarch64")]
mod arm {
    use crate::lanes::{Lanes, Task, WIDEST};
    use std::arch::aarch64::*;

    #[derive(Clone, Copy)]
    pub(crate) struct Neon;

    /// Lanes 0 to 3, and 4 to 7.
    #[derive(Clone, Copy)]
    pub(crate) struct Pair(float32x4_t, float32x4_t);

    /// The bit of each lane in masks.
    const LANE_BITS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    /// Methods of [`Lanes`] that are one expression for each of both registers: `name(arguments) = expression;`.
    macro_rules! each_register {
        ($($name:ident($($argument:ident),*) = $expression:expr;)*) => {$(
            #[inline(always)]
            unsafe fn $name($($argument: Pair),*) -> Pair {
                // SAFETY: every 64-bit ARM has these instructions, and they read no memory.
                unsafe {
                    let first = { $(let $argument = $argument.0;)* $expression };
                    let last = { $(let $argument = $argument.1;)* $expression };
                    Pair(first, last)
                }
            }
        )*};
    }

    /// The bits of both registers' lanes.
    #[inline(always)]
    fn lane_bits() -> (uint32x4_t, uint32x4_t) {
        // SAFETY: the constant has eight values.
        unsafe { (vld1q_u32(LANE_BITS.as_ptr()), vld1q_u32(LANE_BITS.as_ptr().add(4))) }
    }

    /// Four rows of four to columns.
    #[inline(always)]
    fn transpose_four([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
        // SAFETY: see the impl; no pointers.
        unsafe {
            let even = [vtrn1q_f32(a, b), vtrn1q_f32(c, d)].map(|v| vreinterpretq_f64_f32(v));
            let odd = [vtrn2q_f32(a, b), vtrn2q_f32(c, d)].map(|v| vreinterpretq_f64_f32(v));
            let columns = [
                vtrn1q_f64(even[0], even[1]),
                vtrn1q_f64(odd[0], odd[1]),
                vtrn2q_f64(even[0], even[1]),
                vtrn2q_f64(odd[0], odd[1]),
            ];
            columns.map(|v| vreinterpretq_f32_f64(v))
        }
    }

    // SAFETY (all blocks): every 64-bit ARM has NEON, so only pointers need the caller's promise; loads and stores accept any address, and partial ones touch
    // only the lanes they name.
    impl Lanes for Neon {
        const N: usize = 8;
        const TILE_ROWS: usize = 6;
        type V = Pair;

        #[inline(always)]
        unsafe fn vectorize<T: Task>(task: T) -> T::Output {
            // SAFETY: see the impl.
            unsafe { task.run::<Self>() }
        }
        each_register! {
            add(a, b) = vaddq_f32(a, b);
            sub(a, b) = vsubq_f32(a, b);
            mul(a, b) = vmulq_f32(a, b);
            div(a, b) = vdivq_f32(a, b);
            sqrt(a) = vsqrtq_f32(a);
            fma(a, b, c) = vfmaq_f32(c, a, b);
            // The instructions for both return NaN where the contract wants the second operand.
            max(a, b) = vbslq_f32(vcgtq_f32(a, b), a, b);
            min(a, b) = vbslq_f32(vcltq_f32(a, b), a, b);
            select_gt(a, b, yes, no) = vbslq_f32(vcgtq_f32(a, b), yes, no);
            round(a) = vrndnq_f32(a);
            pow2(k) = vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtq_s32_f32(k), vdupq_n_s32(127))));
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Pair {
            // SAFETY: see the impl.
            let four = unsafe { vdupq_n_f32(x) };
            Pair(four, four)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Pair {
            // SAFETY: see the impl.
            unsafe { Pair(vld1q_f32(from), vld1q_f32(from.add(4))) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: Pair) {
            // SAFETY: see the impl.
            unsafe {
                vst1q_f32(to, v.0);
                vst1q_f32(to.add(4), v.1);
            }
        }
        #[inline(always)]
        unsafe fn stream(to: *mut f32, v: Pair) {
            // SAFETY: see the impl.
            unsafe { Self::store(to, v) }
        }
        #[inline(always)]
        unsafe fn prefetch(at: *const f32) {
            // SAFETY: a prefetch never faults and changes nothing.
            unsafe { std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, readonly, preserves_flags)) }
        }
        #[inline(always)]
        unsafe fn prefetch_far(at: *const f32) {
            // SAFETY: as above.
            unsafe { std::arch::asm!("prfm pldl2keep, [{0}]", in(reg) at, options(nostack, readonly, preserves_flags)) }
        }
        #[inline(always)]
        unsafe fn fence() {}
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> Pair {
            let mut floats = [0.0; 8];
            // SAFETY: see the impl.
            unsafe {
                std::ptr::copy_nonoverlapping(from, floats.as_mut_ptr(), count);
                Self::load(floats.as_ptr())
            }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, count: usize, v: Pair) {
            let mut floats = [0.0; 8];
            // SAFETY: see the impl.
            unsafe {
                Self::store(floats.as_mut_ptr(), v);
                std::ptr::copy_nonoverlapping(floats.as_ptr(), to, count);
            }
        }
        #[inline(always)]
        unsafe fn load_bytes(from: *const u8) -> Pair {
            // SAFETY: see the impl.
            unsafe {
                let words = vmovl_u8(vld1_u8(from));
                let [low, high] =
                    [vget_low_u16(words), vget_high_u16(words)].map(|four| vcvtq_f32_u32(vmovl_u16(four)));
                Pair(low, high)
            }
        }
        #[inline(always)]
        unsafe fn bits_gt(a: Pair, b: Pair) -> u32 {
            let (low, high) = lane_bits();
            // SAFETY: see the impl.
            unsafe {
                let low = vandq_u32(vcgtq_f32(a.0, b.0), low);
                vaddvq_u32(vorrq_u32(low, vandq_u32(vcgtq_f32(a.1, b.1), high)))
            }
        }
        #[inline(always)]
        unsafe fn keep(bits: u32, v: Pair) -> Pair {
            let (low, high) = lane_bits();
            // SAFETY: see the impl.
            unsafe {
                let bits = vdupq_n_u32(bits);
                let kept = |v, lane| vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vtstq_u32(bits, lane)));
                Pair(kept(v.0, low), kept(v.1, high))
            }
        }
        #[inline(always)]
        unsafe fn sum(a: Pair) -> f32 {
            // SAFETY: see the impl.
            unsafe {
                let half = vaddq_f32(a.0, a.1);
                let quarter = vadd_f32(vget_low_f32(half), vget_high_f32(half));
                vget_lane_f32::<0>(quarter) + vget_lane_f32::<1>(quarter)
            }
        }
        #[inline(always)]
        unsafe fn largest(a: Pair) -> f32 {
            // SAFETY: see the impl.
            unsafe { vmaxvq_f32(vmaxq_f32(a.0, a.1)) }
        }
        #[inline(always)]
        unsafe fn transpose(rows: &mut [Pair; WIDEST]) {
            let [top, bottom] = [0, 4].map(|row| {
                let left = transpose_four(std::array::from_fn(|i| rows[row + i].0));
                let right = transpose_four(std::array::from_fn(|i| rows[row + i].1));
                (left, right)
            });
            for i in 0..4 {
                rows[i] = Pair(top.0[i], bottom.0[i]);
                rows[4 + i] = Pair(top.1[i], bottom.1[i]);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;
