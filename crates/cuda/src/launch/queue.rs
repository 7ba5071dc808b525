use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, Kernels};
use crate::precision::Precision;

/// What kernels are launched on: a device's stream, or in tests the host.
pub(crate) trait Queue {
    /// Queues a kernel. An empty grid does nothing.
    fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: usize,
        args: &[Arg],
    ) -> Result<(), CudaError>;
    /// How numbers are stored and multiplied.
    fn precision(&self) -> Precision;
    /// Multiprocessors of the device.
    fn multiprocessors(&self) -> usize;
    /// Most shared memory of one block, in bytes.
    fn shared_bytes(&self) -> usize;
}

impl Queue for Kernels {
    fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: usize,
        args: &[Arg],
    ) -> Result<(), CudaError> {
        Self::launch(self, name, grid, block, shared_bytes, args)
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn multiprocessors(&self) -> usize {
        self.device.multiprocessors
    }

    fn shared_bytes(&self) -> usize {
        self.device.shared_bytes
    }
}

/// Where a kernel leaves a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// The place.
    pub slice: DeviceSlice,
    /// Whether another contribution lies there already.
    pub accumulate: bool,
}

impl Target {
    /// The accumulate flag as an argument.
    pub fn add(self) -> Arg {
        Arg::I32(i32::from(self.accumulate))
    }
}

impl From<DeviceSlice> for Target {
    /// A place that is overwritten.
    fn from(slice: DeviceSlice) -> Self {
        Self { slice, accumulate: false }
    }
}

/// Whether runs of `channels` elements can be taken 16 bytes at a time in all of `slices`.
pub(crate) fn wide(precision: Precision, channels: usize, slices: &[DeviceSlice]) -> bool {
    (channels * precision.element().bytes()).is_multiple_of(16)
        && slices.iter().all(|slice| slice.address.is_multiple_of(16))
}

/// Blocks of 256 threads for `count` pieces of work that a thread takes one after the other.
pub(crate) fn blocks(queue: &dyn Queue, count: usize) -> u32 {
    count.div_ceil(256).min(8 * queue.multiprocessors()) as u32
}

/// A `double`.
pub(crate) fn double(value: f64) -> Arg {
    Arg::I64(value.to_bits().cast_signed())
}
