//! How much memory an input takes at most, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
pub struct Counting;

thread_local! {
    // Neither is initialised nor dropped by code of its own, so that both may be used inside an allocation.
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn add(bytes: usize) {
    // What one thread allocates another may free: the count wraps and differences stay right.
    let held = HELD.get().wrapping_add(bytes);
    HELD.set(held);
    if held.wrapping_sub(PEAK.get()) as isize > 0 {
        PEAK.set(held);
    }
}

fn subtract(bytes: usize) {
    HELD.set(HELD.get().wrapping_sub(bytes));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Starts counting anew in this thread; returns what it holds now.
pub fn start() -> usize {
    PEAK.set(HELD.get());
    HELD.get()
}

/// The most that this thread held since `start`.
pub fn peak() -> usize {
    PEAK.get()
}
