//! Vectors of `f32` behind one trait, so that each kernel is written once.

/// Floats per vector of the widest instruction set.
pub(crate) const WIDEST: usize = 16;

/// A vector register of one instruction set.
///
/// # Safety
/// Every method may only run where the instruction set is available, which [`crate::Isa`] establishes once; pointers
/// must be valid for the number of floats the method names.
pub trait Lanes: Copy + 'static {
    /// Floats per vector.
    const N: usize;
    /// Most rows of a matrix tile: with `2` vectors of columns its accumulators fill the registers.
    const TILE_ROWS: usize;
    type V: Copy;

    /// Runs `task` inside a function compiled for this instruction set.
    unsafe fn vectorize<T: Task>(task: T) -> T::Output;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Stores past the caches where the instruction set can and `to` is aligned to the vector.
    unsafe fn stream(to: *mut f32, v: Self::V);
    /// Prefetches the cache line at `at`, which need not be valid.
    unsafe fn prefetch(at: *const f32);
    /// As `prefetch`, into the core's own cache but not the one nearest to it.
    unsafe fn prefetch_far(at: *const f32);
    /// Makes streamed stores visible before whatever follows.
    unsafe fn fence();
    /// Loads the first `count` floats, zeros behind them. `count` is at most `N`.
    unsafe fn load_part(from: *const f32, count: usize) -> Self::V;
    /// Stores the first `count` floats.
    unsafe fn store_part(to: *mut f32, count: usize, v: Self::V);
    /// Loads `N` bytes as floats.
    unsafe fn load_bytes(from: *const u8) -> Self::V;

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of both; the second operand when either is NaN or both are zero.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of both; the second operand when either is NaN or both are zero.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// Lane by lane, `yes` where `a > b`, else `no`; a NaN compares false.
    unsafe fn select_gt(a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// A bit per lane where `a > b`, the first lane lowest.
    unsafe fn bits_gt(a: Self::V, b: Self::V) -> u32;
    /// The lanes whose bit is set, zeros elsewhere.
    unsafe fn keep(bits: u32, v: Self::V) -> Self::V;
    /// Nearest integers.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `2^k` for integral `k` in -126..=127.
    unsafe fn pow2(k: Self::V) -> Self::V;
    /// Sum of the lanes, pairwise from the ends of a fixed tree.
    unsafe fn sum(a: Self::V) -> f32;
    /// The largest lane of a vector without NaN.
    unsafe fn largest(a: Self::V) -> f32;
    /// Turns rows into columns: the block is the first `N` of `rows`, the others are left alone.
    unsafe fn transpose(rows: &mut [Self::V; WIDEST]);
}

/// Methods of [`Lanes`] that are one instruction each: `name(arguments) -> result = intrinsic;`.
#[cfg(target_arch = "x86_64")]
macro_rules! one_instruction {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller vouches for the instruction set and the pointers.
            unsafe { $intrinsic($($argument),*) }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use one_instruction;

/// The vectors that cover `len` floats: where each starts and how many floats it holds, whole ones but for the last.
#[inline(always)]
pub(crate) fn vectors<L: Lanes>(len: usize) -> Vectors {
    Vectors { at: 0, len, lanes: L::N }
}

/// See [`vectors`].
pub(crate) struct Vectors {
    at: usize,
    len: usize,
    lanes: usize,
}

impl Iterator for Vectors {
    type Item = (usize, usize);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        let at = self.at;
        if at >= self.len {
            return None;
        }
        self.at += self.lanes;
        Some((at, self.lanes.min(self.len - at)))
    }
}

/// Loads `part` floats, the usual case of a whole vector without a mask.
#[inline(always)]
pub(crate) unsafe fn load<L: Lanes>(from: *const f32, part: usize) -> L::V {
    // SAFETY: the caller's promise.
    unsafe { if part == L::N { L::load(from) } else { L::load_part(from, part) } }
}

/// Stores `part` floats, the usual case of a whole vector without a mask.
#[inline(always)]
pub(crate) unsafe fn store<L: Lanes>(to: *mut f32, part: usize, v: L::V) {
    // SAFETY: the caller's promise.
    unsafe { if part == L::N { L::store(to, v) } else { L::store_part(to, part, v) } }
}

/// Work to run inside a function compiled for an instruction set.
pub trait Task {
    type Output;
    /// # Safety
    /// `L`'s instruction set must be available.
    unsafe fn run<L: Lanes>(self) -> Self::Output;
}
