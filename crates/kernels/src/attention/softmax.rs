use crate::lanes::Lanes;
use crate::math;

/// Turns the products at `row` into `exp(score - largest score)`, with `score = scale * product + bias + mask`, and gives the
/// reciprocal of their sum. Row, bias and mask have `padded` floats; the padding of the bias is minus infinity, and what lies
/// in the padding of the row afterwards counts as nothing.
///
/// # Safety
/// The row is valid, and bias and mask are as long.
#[inline(always)]
pub(super) unsafe fn exponentials<L: Lanes>(
    row: *mut f32,
    padded: usize,
    scale: f32,
    (bias, mask): (*const f32, Option<*const f32>),
) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let scale = L::splat(scale);
        let mut largest = L::splat(f32::NEG_INFINITY);
        for c in (0..padded).step_by(L::N) {
            let mut score = L::fma(L::load(row.add(c)), scale, L::load(bias.add(c)));
            if let Some(mask) = mask {
                score = L::add(score, L::load(mask.add(c)));
            }
            L::store(row.add(c), score);
            largest = L::max(score, largest);
        }
        let largest = L::splat(L::largest(largest));
        let mut sum = L::splat(0.0);
        for c in (0..padded).step_by(L::N) {
            // Padding gives the least power of e there is, which no sum notices.
            let e = math::exp::<L>(L::sub(L::load(row.add(c)), largest));
            L::store(row.add(c), e);
            sum = L::add(sum, e);
        }
        1.0 / L::sum(sum)
    }
}
