//! Small matrices rearranged for the tile kernel.

use crate::gemm::panels;
use crate::lanes::{Lanes, WIDEST, load, store};

/// Packs `count` rows of `columns` floats into panels; `row` gives the offset of each.
///
/// # Safety
/// Every row is readable behind `from`, and `to` takes `count` rows of `columns` padded to whole vectors.
#[inline(always)]
pub(super) unsafe fn pack_rows<L: Lanes>(
    from: *const f32,
    row: impl Fn(usize) -> usize,
    (count, columns): (usize, usize),
    mut to: *mut f32,
) {
    // SAFETY: the last vector of a row is read in part.
    unsafe {
        for (first, width) in panels(0..columns.next_multiple_of(L::N), L::N) {
            for i in 0..count {
                let from = from.add(row(i));
                for c in (first..first + width).step_by(L::N) {
                    let part = L::N.min(columns - c);
                    L::store(to, load::<L>(from.add(c), part));
                    to = to.add(L::N);
                }
            }
        }
    }
}

/// Packs the transpose of `count` rows of `len` floats into panels, block by block: rows become columns.
///
/// # Safety
/// As for `pack_rows`, with `len` rows of `count`.
#[inline(always)]
pub(super) unsafe fn pack_transposed<L: Lanes>(
    from: *const f32,
    row: impl Fn(usize) -> usize,
    (count, len): (usize, usize),
    mut to: *mut f32,
) {
    // SAFETY: rows beyond the end count as zeros, and the last vector of a row is read in part.
    unsafe {
        for (first, width) in panels(0..count.next_multiple_of(L::N), L::N) {
            for j in (0..width).step_by(L::N) {
                for k in (0..len).step_by(L::N) {
                    let part = L::N.min(len - k);
                    let mut block = [L::splat(0.0); WIDEST];
                    for (i, v) in block[..L::N].iter_mut().enumerate() {
                        if first + j + i < count {
                            *v = load::<L>(from.add(row(first + j + i) + k), part);
                        }
                    }
                    L::transpose(&mut block);
                    for (i, v) in block[..part].iter().enumerate() {
                        L::store(to.add((k + i) * width + j), *v);
                    }
                }
            }
            to = to.add(len * width);
        }
    }
}

/// Writes or adds a row times `factor`.
///
/// # Safety
/// `from` holds as many floats as `to`.
#[inline(always)]
pub(super) unsafe fn put_row<L: Lanes>(from: *const f32, factor: f32, to: &mut [f32], accumulate: bool) {
    let (len, to) = (to.len(), to.as_mut_ptr());
    // SAFETY: the last vector is partial.
    unsafe {
        for c in (0..len).step_by(L::N) {
            let part = L::N.min(len - c);
            let mut v = L::mul(load::<L>(from.add(c), part), L::splat(factor));
            if accumulate {
                v = L::add(v, load::<L>(to.add(c), part));
            }
            store::<L>(to.add(c), part, v);
        }
    }
}
