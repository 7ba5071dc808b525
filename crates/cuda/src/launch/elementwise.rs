//! Copies, conversions and sums of whole buffers.

use super::{Queue, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};
use flipcast_graph::Dims;

/// Copies `from` to `to`, or adds it.
pub(crate) fn accumulate(
    queue: &dyn Queue,
    from: DeviceSlice,
    to: DeviceSlice,
    add: bool,
) -> Result<(), CudaError> {
    expect_len("accumulate", "`to`", to, from.len)?;
    let args = [
        Arg::Slice(from),
        Arg::Slice(to),
        Arg::I32(add.into()),
        Arg::I64(from.len as i64),
    ];
    launch(queue, "accumulate", from.len, &args)
}

/// Converts 32-bit floats to what activations are stored as.
pub(crate) fn narrow(
    queue: &dyn Queue,
    from: DeviceSlice,
    to: DeviceSlice,
) -> Result<(), CudaError> {
    expect_len("narrow", "`to`", to, from.len)?;
    let args = [Arg::Slice(from), Arg::Slice(to), Arg::I64(from.len as i64)];
    launch(queue, "narrow", from.len, &args)
}

/// Converts what activations are stored as to 32-bit floats.
pub(crate) fn widen(
    queue: &dyn Queue,
    from: DeviceSlice,
    to: DeviceSlice,
) -> Result<(), CudaError> {
    expect_len("widen", "`to`", to, from.len)?;
    let args = [Arg::Slice(from), Arg::Slice(to), Arg::I64(from.len as i64)];
    launch(queue, "widen", from.len, &args)
}

fn launch(queue: &dyn Queue, name: &str, count: usize, args: &[Arg]) -> Result<(), CudaError> {
    queue.launch(name, [blocks(queue, count), 1, 1], [256, 1, 1], 0, args)
}

/// Images as the first layer reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputLayout {
    /// Side of the blocks of pixels that become one.
    pub block: usize,
    /// Rows and columns of blocks, those of zeros included.
    pub extents: [usize; 2],
    /// Channels of a block, with zeros behind.
    pub channels: usize,
    /// Blocks of zeros above and left of the image.
    pub before: [usize; 2],
}

impl InputLayout {
    /// Pixels and channels as they are.
    pub fn as_given(dims: Dims) -> Self {
        Self {
            block: 1,
            extents: [dims.height, dims.width],
            channels: dims.channels,
            before: [0, 0],
        }
    }

    /// Elements of an image.
    pub fn len(&self) -> usize {
        self.extents[0] * self.extents[1] * self.channels
    }
}

/// Lays `images` of `[height, width, channels]` 32-bit floats out.
pub(crate) fn spread_input(
    queue: &dyn Queue,
    images: usize,
    dims: [usize; 3],
    layout: InputLayout,
    from: DeviceSlice,
    to: DeviceSlice,
) -> Result<(), CudaError> {
    expect_len(
        "spread_input",
        "the input",
        from,
        images * dims.iter().product::<usize>(),
    )?;
    expect_len("spread_input", "the result", to, images * layout.len())?;
    let [height, width, channels] = dims;
    let ([rows, columns], [top, left]) = (layout.extents, layout.before);
    let counts = [
        images,
        height,
        width,
        channels,
        layout.block,
        rows,
        columns,
        layout.channels,
        top,
        left,
    ];
    let args = [
        [Arg::Slice(from), Arg::Slice(to)].as_slice(),
        &counts.map(Arg::count),
    ]
    .concat();
    launch(queue, "spread_input", images * layout.len(), &args)
}
