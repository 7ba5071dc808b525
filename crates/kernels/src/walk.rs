//! How a pass walks a tensor: how long its sums are, what it prefetches, and when it leaves the caches alone.

use crate::lanes::Lanes;

/// Pixels summed before they join a longer sum: rounding errors grow with the length of a sum, not with its parts.
pub(crate) const SHORT_SUM: usize = 16;

/// Outputs larger than this bypass the caches: they would be evicted before anybody reads them again.
pub(crate) const STREAM_FROM: usize = 6 << 20;

/// Prefetches the next few pixels of a tensor that is read vector by vector: such reads jump from pixel to pixel, which
/// the machine does not foresee. Called once per vector of the current pixels, it covers the next ones in memory order.
#[inline(always)]
pub(crate) unsafe fn prefetch_pixels<L: Lanes>(tensor: *const f32, next: usize, row: usize, c: usize, width: usize) {
    const LINE: usize = 16;
    let lines = width.div_ceil(LINE);
    let per_vector = (SHORT_SUM * L::N).div_ceil(LINE);
    let first = c / L::N * per_vector;
    for line in first..(first + per_vector).min(SHORT_SUM * lines) {
        // SAFETY: a prefetch may name any address.
        unsafe { L::prefetch(tensor.wrapping_add((next + line / lines) * row + line % lines * LINE)) };
    }
}

/// Memory that is read soon, to be fetched into the core's own cache while it computes: two stretches of equal length.
#[derive(Clone, Copy)]
pub(crate) struct Soon {
    stretches: [*const f32; 2],
    floats: usize,
}

impl Soon {
    /// Nothing, which costs a prefetch of what is near in any case.
    pub const NOTHING: Self = Self { stretches: [std::ptr::null(); 2], floats: 0 };

    /// One stretch, in halves.
    pub fn one(values: &[f32]) -> Self {
        let (first, second) = values.split_at(values.len() / 2);
        Self { stretches: [first.as_ptr(), second.as_ptr()], floats: first.len() }
    }

    /// Two stretches of equal length.
    pub fn two(a: &[f32], b: &[f32]) -> Self {
        Self { stretches: [a.as_ptr(), b.as_ptr()], floats: a.len().min(b.len()) }
    }

    /// Part number `part` of `parts` of each stretch.
    #[inline(always)]
    pub fn part(self, part: usize, parts: usize) -> Self {
        let floats = self.floats / parts;
        Self { stretches: self.stretches.map(|stretch| stretch.wrapping_add(part * floats)), floats }
    }

    /// Where each stretch begins, and how far to go on with each of `steps` prefetches of it: a cache line at most, and what that leaves
    /// out the machine fetches as it is read. Where there is nothing to fetch, all are of `near`.
    #[inline(always)]
    pub fn pace(self, steps: usize, near: *const f32) -> ([*const f32; 2], usize) {
        match self.floats {
            0 => ([near; 2], 0),
            floats => (self.stretches, (floats / steps.max(1)).min(16)),
        }
    }
}
