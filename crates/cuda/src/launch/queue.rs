use super::activation_code;
use super::rows::RowGrid;
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use crate::precision::Precision;
use flipcast_graph::Activation;

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

/// A kernel with its arguments, in the order of its parameters. The first that is too short refuses the whole call.
pub(crate) struct Call<'a> {
    queue: &'a dyn Queue,
    kernel: &'static str,
    args: Vec<Arg>,
    refused: Option<CudaError>,
}

impl<'a> Call<'a> {
    /// A call of `kernel` without arguments.
    pub fn new(queue: &'a dyn Queue, kernel: &'static str) -> Self {
        Self { queue, kernel, args: Vec::new(), refused: None }
    }

    /// Compares the length of a piece of memory with what the extents ask for; longer is fine.
    pub fn expect(mut self, what: &'static str, slice: DeviceSlice, least: usize) -> Self {
        self.refused = self.refused.or_else(|| expect_len(self.kernel, what, slice, least).err());
        self
    }

    /// A piece of memory with at least `least` elements.
    pub fn slice(self, what: &'static str, slice: DeviceSlice, least: usize) -> Self {
        self.expect(what, slice, least).args(&[Arg::Slice(slice)])
    }

    /// The same, or a null address.
    pub fn optional(self, what: &'static str, slice: Option<DeviceSlice>, least: usize) -> Self {
        match slice {
            Some(slice) => self.slice(what, slice, least),
            None => self.args(&[Arg::Null]),
        }
    }

    /// Pieces of memory whose lengths were checked, or are those of what made them.
    pub fn slices<const N: usize>(self, slices: [DeviceSlice; N]) -> Self {
        self.args(&slices.map(Arg::Slice))
    }

    /// Counts as `int`.
    pub fn counts<const N: usize>(self, counts: [usize; N]) -> Self {
        self.args(&counts.map(Arg::count))
    }

    /// Numbers as `float`.
    pub fn floats<const N: usize>(self, values: [f32; N]) -> Self {
        self.args(&values.map(Arg::F32))
    }

    /// Yes or no as `int`.
    pub fn flag(self, flag: bool) -> Self {
        self.args(&[Arg::I32(flag.into())])
    }

    /// The number of an activation in `activation.cuh`.
    pub fn activation(self, activation: Activation) -> Self {
        self.args(&[Arg::I32(activation_code(activation))])
    }

    /// Any other arguments.
    pub fn args(mut self, args: &[Arg]) -> Self {
        self.args.extend_from_slice(args);
        self
    }

    /// Queues the kernel.
    pub fn launch(self, grid: [u32; 3], block: [u32; 3], shared_bytes: usize) -> Result<(), CudaError> {
        let kernel = self.kernel;
        self.launch_variant(kernel, grid, block, shared_bytes)
    }

    /// Queues the variant of the kernel with this name.
    pub fn launch_variant(
        self,
        variant: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: usize,
    ) -> Result<(), CudaError> {
        match self.refused {
            Some(error) => Err(error),
            None => self.queue.launch(variant, grid, block, shared_bytes, &self.args),
        }
    }

    /// Queues the variant of the kernel that suits `rows`.
    pub fn launch_rows(self, rows: &RowGrid, shared_bytes: usize) -> Result<(), CudaError> {
        let variant = format!("{}_{}", self.kernel, if rows.wide { "wide" } else { "narrow" });
        self.launch_variant(&variant, rows.grid, rows.block, shared_bytes)
    }

    /// Queues the kernel over `count` pieces of work that its threads take one after the other.
    pub fn over(self, count: usize) -> Result<(), CudaError> {
        let grid = [blocks(self.queue, count), 1, 1];
        self.launch(grid, [256, 1, 1], 0)
    }
}

/// Compares the length of an argument with what the extents ask for; longer is fine.
pub(crate) fn expect_len(
    kernel: &'static str,
    what: &'static str,
    slice: DeviceSlice,
    expected: usize,
) -> Result<(), CudaError> {
    if slice.len >= expected {
        return Ok(());
    }
    Err(CudaError::Argument { kernel, what, found: slice.len, expected: format!("at least {expected} elements") })
}

/// Where a kernel leaves a gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// The place.
    pub slice: DeviceSlice,
    /// Whether another contribution lies there already.
    pub accumulate: bool,
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
