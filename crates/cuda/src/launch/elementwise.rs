//! Copies, conversions and sums of whole buffers.

use super::{Queue, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};

/// Copies `from` to `to`, or adds it.
pub(crate) fn accumulate(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice, add: bool) -> Result<(), CudaError> {
    expect_len("accumulate", "`to`", to, from.len)?;
    let args = [Arg::Slice(from), Arg::Slice(to), Arg::I32(add.into()), Arg::I64(from.len as i64)];
    launch(queue, "accumulate", from.len, &args)
}

/// Converts 32-bit floats to what activations are stored as.
pub(crate) fn narrow(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice) -> Result<(), CudaError> {
    expect_len("narrow", "`to`", to, from.len)?;
    let args = [Arg::Slice(from), Arg::Slice(to), Arg::I64(from.len as i64)];
    launch(queue, "narrow", from.len, &args)
}

/// Converts what activations are stored as to 32-bit floats.
pub(crate) fn widen(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice) -> Result<(), CudaError> {
    expect_len("widen", "`to`", to, from.len)?;
    let args = [Arg::Slice(from), Arg::Slice(to), Arg::I64(from.len as i64)];
    launch(queue, "widen", from.len, &args)
}

fn launch(queue: &dyn Queue, name: &str, count: usize, args: &[Arg]) -> Result<(), CudaError> {
    queue.launch(name, [blocks(queue, count), 1, 1], [256, 1, 1], 0, args)
}
