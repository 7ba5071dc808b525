//! Copies, conversions and sums of whole buffers.

use super::{Call, Queue};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;

/// Copies `from` to `to`, or adds it.
pub(crate) fn accumulate(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice, add: bool) -> Result<(), CudaError> {
    whole(Call::new(queue, "accumulate"), from, to).flag(add).args(&[Arg::I64(from.len as i64)]).over(from.len)
}

/// Converts 32-bit floats to what activations are stored as.
pub(crate) fn narrow(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice) -> Result<(), CudaError> {
    whole(Call::new(queue, "narrow"), from, to).args(&[Arg::I64(from.len as i64)]).over(from.len)
}

/// Converts what activations are stored as to 32-bit floats.
pub(crate) fn widen(queue: &dyn Queue, from: DeviceSlice, to: DeviceSlice) -> Result<(), CudaError> {
    whole(Call::new(queue, "widen"), from, to).args(&[Arg::I64(from.len as i64)]).over(from.len)
}

fn whole<'a>(call: Call<'a>, from: DeviceSlice, to: DeviceSlice) -> Call<'a> {
    call.slices([from]).slice("`to`", to, from.len)
}
