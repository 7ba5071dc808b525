//! Memory on the device, and host memory it exchanges with.

use crate::device::Device;
use crate::error::CudaError;
use crate::precision::Element;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// A piece of device memory: an address and a length in elements. Kernels get it through [`Arg::Slice`].
///
/// [`Arg::Slice`]: crate::module::Arg::Slice
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSlice {
    /// Where it starts.
    pub address: u64,
    /// Elements in it.
    pub len: usize,
    /// What they are.
    pub element: Element,
}

impl DeviceSlice {
    /// Bytes in it.
    pub fn bytes(self) -> usize {
        self.len * self.element.bytes()
    }

    /// A part of it.
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "a part lies within the whole");
        Self {
            address: self.address + (range.start * self.element.bytes()) as u64,
            len: range.end - range.start,
            element: self.element,
        }
    }

    /// Its first `len` elements.
    pub fn first(self, len: usize) -> Self {
        self.part(0..len)
    }

    /// The same memory, read as other elements.
    pub fn cast(self, element: Element) -> Self {
        Self { len: self.bytes() / element.bytes(), element, ..self }
    }
}

/// Device memory that is freed when dropped.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) device: Arc<Device>,
    pub(crate) slice: DeviceSlice,
}

impl DeviceMemory {
    /// All of it.
    pub fn slice(&self) -> DeviceSlice {
        self.slice
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: allocated by `Device::allocate` and not used after this; freeing waits for the stream.
            unsafe { (self.device.driver.free)(self.slice.address) };
        }
    }
}

/// Page-locked host memory, from which copies run beside the host.
#[derive(Debug)]
pub(crate) struct Pinned {
    device: Arc<Device>,
    start: *mut f32,
    len: usize,
}

// SAFETY: it owns plain memory.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read it.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Zeroed memory for `len` floats.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, CudaError> {
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: `start` is a valid place.
        device.check("cuMemHostAlloc", unsafe { (device.driver.allocate_host)(&mut start, len.max(1) * 4, 0) })?;
        let start = start.cast::<f32>();
        // SAFETY: `len` floats were allocated.
        unsafe { std::ptr::write_bytes(start, 0, len) };
        Ok(Self { device: Arc::clone(device), start, len })
    }

    /// What it holds.
    pub fn values(&self) -> &[f32] {
        // SAFETY: `len` initialised floats lie there; copies into them are waited for before they are read.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// What it holds, to change.
    pub fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `values`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The same as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `values_mut`; floats are read and written as the bytes they are.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), 4 * self.len) }
    }

    /// Queues a copy of the first `to.bytes()` bytes to the device.
    pub fn send(&self, to: DeviceSlice) -> Result<(), CudaError> {
        assert!(to.bytes() <= 4 * self.len, "the copy fits its source");
        // SAFETY: the lengths were compared; this memory outlives the stream's work, which its owner waits for.
        self.device.check("cuMemcpyHtoDAsync", unsafe {
            (self.device.driver.to_device)(to.address, self.start.cast(), to.bytes(), self.device.stream())
        })
    }

    /// Queues a copy of `from` to the start of this memory.
    pub fn receive(&mut self, from: DeviceSlice) -> Result<(), CudaError> {
        assert!(from.bytes() <= 4 * self.len, "the copy fits its target");
        // SAFETY: as in `send`.
        self.device.check("cuMemcpyDtoHAsync", unsafe {
            (self.device.driver.to_host)(self.start.cast(), from.address, from.bytes(), self.device.stream())
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: allocated by `new` and not used after this.
            unsafe { (self.device.driver.free_host)(self.start.cast()) };
        }
    }
}
