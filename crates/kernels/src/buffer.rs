use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};

const HUGE_PAGE: usize = 2 << 20;
const SMALL_PAGE: usize = 4096;

/// A zeroed, page-aligned slice of `f32`, on huge pages where it is large enough to fill one.
///
/// First touch of a fresh small page costs more than thirty times a later write, so long-lived memory is touched once,
/// here, and in large pages: the advice to use them comes before the first write.
pub struct Buffer {
    start: *mut f32,
    len: usize,
    layout: Layout,
}

// SAFETY: a `Buffer` owns its memory like a `Box<[f32]>`.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| {
            let layout = Layout::array::<f32>(len).expect("planned lengths fit the address space");
            handle_alloc_error(layout)
        })
    }

    /// A buffer of `len` zeros, unless there is too little memory.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let bytes = len.max(1).checked_mul(size_of::<f32>())?;
        let page = if bytes >= HUGE_PAGE { HUGE_PAGE } else { SMALL_PAGE };
        let layout = Layout::from_size_align(bytes.checked_next_multiple_of(page)?, page).ok()?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return None;
        }
        #[cfg(target_os = "linux")]
        if page == HUGE_PAGE {
            // SAFETY: the range is this allocation. The call is advice; its failure changes nothing.
            unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: the allocation has `layout.size()` bytes.
        unsafe { std::ptr::write_bytes(start, 0, layout.size()) };
        Some(Self { start: start.cast(), len, layout })
    }

    /// A copy of `values`.
    pub fn from_slice(values: &[f32]) -> Self {
        let mut buffer = Self::zeroed(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `try_zeroed`.
        unsafe { dealloc(self.start.cast(), self.layout) }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `start` is valid for `len` initialised floats.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer of {} floats", self.len)
    }
}
