//! Eight lanes in plain Rust, for every machine: the twin that fixes what each operation means.

use crate::lanes::{Lanes, Task, WIDEST};

#[derive(Clone, Copy)]
pub(crate) struct Portable;

const N: usize = 8;
type V = [f32; N];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> V {
    std::array::from_fn(f)
}

impl Lanes for Portable {
    const N: usize = N;
    const TILE_ROWS: usize = 4;
    type V = V;

    #[inline(always)]
    unsafe fn vectorize<T: Task>(task: T) -> T::Output {
        // SAFETY: plain Rust runs everywhere.
        unsafe { task.run::<Self>() }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> V {
        // SAFETY: the caller vouches for `N` floats.
        unsafe { from.cast::<V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: V) {
        // SAFETY: the caller vouches for `N` floats.
        unsafe { to.cast::<V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn stream(to: *mut f32, v: V) {
        // SAFETY: as for `store`.
        unsafe { Self::store(to, v) }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn prefetch_far(_: *const f32) {}
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> V {
        let mut v = [0.0; N];
        // SAFETY: only the first `count` floats are read, and there are at most `N` of them.
        unsafe { std::ptr::copy_nonoverlapping(from, v.as_mut_ptr(), count) };
        v
    }
    #[inline(always)]
    unsafe fn store_part(to: *mut f32, count: usize, v: V) {
        for (i, x) in v.into_iter().enumerate().take(count) {
            // SAFETY: only the first `count` floats are written.
            unsafe { *to.add(i) = x };
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> V {
        // SAFETY: the caller vouches for `N` bytes.
        each(|i| f32::from(unsafe { *from.add(i) }))
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn sqrt(a: V) -> V {
        each(|i| a[i].sqrt())
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        // Without an instruction for it, `mul_add` would be a library call; the product is exact in double precision.
        let fused = |a: f32, b: f32, c: f32| {
            if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                a.mul_add(b, c)
            } else {
                (f64::from(a) * f64::from(b) + f64::from(c)) as f32
            }
        };
        each(|i| fused(a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn select_gt(a: V, b: V, yes: V, no: V) -> V {
        each(|i| if a[i] > b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    unsafe fn bits_gt(a: V, b: V) -> u32 {
        (0..N).map(|i| u32::from(a[i] > b[i]) << i).sum()
    }
    #[inline(always)]
    unsafe fn keep(bits: u32, v: V) -> V {
        each(|i| if bits >> i & 1 == 1 { v[i] } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn round(a: V) -> V {
        each(|i| a[i].round_ties_even())
    }
    #[inline(always)]
    unsafe fn pow2(k: V) -> V {
        each(|i| f32::from_bits(((k[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn sum(a: V) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    unsafe fn largest(a: V) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    unsafe fn transpose(rows: &mut [V; WIDEST]) {
        for i in 0..N {
            for j in 0..i {
                (rows[i][j], rows[j][i]) = (rows[j][i], rows[i][j]);
            }
        }
    }
}
