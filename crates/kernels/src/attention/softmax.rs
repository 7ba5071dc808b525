use crate::lanes::{Lanes, load};
use crate::math;

/// Turns `len` products at `row` into `exp(score - largest score)`, with `score = scale * product + addends`, and gives the
/// reciprocal of their sum. The row is padded to whole vectors, and what lies in the padding afterwards counts as nothing.
///
/// # Safety
/// The row and its padding are valid, and every addend has `len` floats.
#[inline(always)]
pub(super) unsafe fn exponentials<L: Lanes>(
    row: *mut f32,
    len: usize,
    scale: f32,
    addends: [Option<&[f32]>; 2],
) -> f32 {
    let padded = len.next_multiple_of(L::N);
    // SAFETY: handed on; addends are read in part at the end.
    unsafe {
        let mut largest = L::splat(f32::NEG_INFINITY);
        for c in (0..padded).step_by(L::N) {
            let mut score = L::mul(L::load(row.add(c)), L::splat(scale));
            for addend in addends.into_iter().flatten() {
                let part = L::N.min(len - c);
                score = L::add(score, load::<L>(addend.as_ptr().add(c), part));
            }
            L::store(row.add(c), score);
            if c + L::N > len {
                for i in len..padded {
                    *row.add(i) = f32::NEG_INFINITY;
                }
                score = L::load(row.add(c));
            }
            largest = L::max(score, largest);
        }
        let mut lanes = [f32::NEG_INFINITY; 16];
        L::store(lanes.as_mut_ptr(), largest);
        let largest = L::splat(lanes.into_iter().fold(f32::NEG_INFINITY, f32::max));
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
