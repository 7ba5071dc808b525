//! Images of a set, by their positions.

use super::{Queue, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};

/// Queues a copy of the images of `set` at `positions`, 32-bit integers below the set's count, to `to`; `len` floats each.
pub(crate) fn gather_images(
    queue: &dyn Queue,
    set: DeviceSlice,
    positions: DeviceSlice,
    to: DeviceSlice,
    len: usize,
) -> Result<(), CudaError> {
    expect_len("gather_images", "the set", set, len)?;
    expect_len("gather_images", "the batch", to, positions.len * len)?;
    let args = [
        Arg::Slice(set),
        Arg::Slice(positions),
        Arg::Slice(to),
        Arg::count(len),
    ];
    let grid = [blocks(queue, len), positions.len as u32, 1];
    queue.launch("gather_images", grid, [256, 1, 1], 0, &args)
}
