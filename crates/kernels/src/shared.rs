//! Slices that several workers write to at once, each its own part.

use std::marker::PhantomData;

/// A mutable slice handed to all workers of a region.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

// SAFETY: access goes through `part`, whose caller promises that parts of different workers are disjoint.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The part of `len` elements from `offset`.
    ///
    /// # Safety
    /// No two parts that exist at the same time may overlap.
    pub unsafe fn part(&self, offset: usize, len: usize) -> &'a mut [T] {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "part {offset}+{len} of a slice of {}",
            self.len
        );
        // SAFETY: in bounds by the assertion, disjoint by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), len) }
    }
}
