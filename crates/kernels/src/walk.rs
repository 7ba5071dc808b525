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
