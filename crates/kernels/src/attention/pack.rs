//! Small matrices rearranged for the tile kernel.

use crate::gemm::panels;
use crate::lanes::{Lanes, load, store};

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

/// Packs the transpose of `count` rows of `len` floats into panels: rows become columns.
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
    // SAFETY: handed on.
    unsafe {
        for (first, width) in panels(0..count.next_multiple_of(L::N), L::N) {
            for j in 0..width {
                let column = to.add(j);
                if first + j < count {
                    let from = from.add(row(first + j));
                    for k in 0..len {
                        *column.add(k * width) = *from.add(k);
                    }
                } else {
                    for k in 0..len {
                        *column.add(k * width) = 0.0;
                    }
                }
            }
            to = to.add(len * width);
        }
    }
}

/// Writes the transpose of `count` rows of `len` floats: row `k` of the result begins at `k * count`.
///
/// # Safety
/// Every row is readable behind `from`, and `to` takes `count * len` floats.
#[inline(always)]
pub(super) unsafe fn transpose(
    from: *const f32,
    row: impl Fn(usize) -> usize,
    (count, len): (usize, usize),
    to: *mut f32,
) {
    for i in 0..count {
        // SAFETY: handed on.
        unsafe {
            let from = from.add(row(i));
            for k in 0..len {
                *to.add(k * count + i) = *from.add(k);
            }
        }
    }
}

/// Writes or adds column `column` of `rows` rows `stride` apart.
///
/// # Safety
/// The column is readable in every row.
#[inline(always)]
pub(super) unsafe fn put_column(from: *const f32, stride: usize, to: &mut [f32], add: bool) {
    for (k, to) in to.iter_mut().enumerate() {
        // SAFETY: handed on.
        let x = unsafe { *from.add(k * stride) };
        *to = if add { *to + x } else { x };
    }
}

/// Writes or adds a row times `factor`.
///
/// # Safety
/// `from` holds as many floats as `to`.
#[inline(always)]
pub(super) unsafe fn put_row<L: Lanes>(from: *const f32, factor: f32, to: &mut [f32], add: bool) {
    let (len, to) = (to.len(), to.as_mut_ptr());
    // SAFETY: the last vector is partial.
    unsafe {
        for c in (0..len).step_by(L::N) {
            let part = L::N.min(len - c);
            let mut v = L::mul(load::<L>(from.add(c), part), L::splat(factor));
            if add {
                v = L::add(v, load::<L>(to.add(c), part));
            }
            store::<L>(to.add(c), part, v);
        }
    }
}
