//! Tensors of other libraries that lie on a GPU, by the protocol that they are exchanged by (`__dlpack__`).
#![expect(unsafe_code, reason = "what a capsule holds is reached by its address")]

use crate::error::{raise, refuse};
use flipcast::cuda::{ForeignImages, ForeignLayout};
use flipcast::{Batch, Device, Model};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;

/// Numbers of kinds of devices and of elements, as the protocol has them.
const CUDA: [i32; 2] = [2, 13];
const UNSIGNED: u8 = 1;
const FLOAT: u8 = 2;
/// The default stream, which a network waits for.
const DEFAULT_STREAM: i32 = 1;

/// `DLTensor` of the protocol, with which what a capsule holds begins.
#[repr(C)]
struct Tensor {
    data: u64,
    device: [i32; 2],
    dims: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

/// The GPU that `object` lies on, if it does.
pub fn gpu_of(object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (kind, number): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    Ok(usize::try_from(number).ok().filter(|_| CUDA.contains(&kind)))
}

/// `object`, which lies on a GPU, as something on the processor.
pub fn to_processor<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // PyTorch's name for it, CuPy's, and that of NumPy's own import.
    for method in ["cpu", "get"] {
        if object.hasattr(method)? {
            return object.call_method0(method);
        }
    }
    let settings = PyDict::new(object.py());
    settings.set_item("device", "cpu")?;
    object.py().import("numpy")?.call_method("from_dlpack", (object,), Some(&settings))
}

/// A batch that a network on `device` reads where it lies: floats `[images, 3, height, width]` of any strides, or bytes that the weights take as they are. `None` where it has to be
/// copied: from another device, of other elements, or to be resized first.
pub fn batch(object: &Bound<'_, PyAny>, model: &Model, device: Device) -> PyResult<Option<Batch>> {
    let py = object.py();
    let Device::Cuda { index, .. } = device else { return Ok(None) };
    if gpu_of(object)? != Some(index) {
        return Ok(None);
    }
    let settings = PyDict::new(py);
    settings.set_item("stream", DEFAULT_STREAM)?;
    let capsule = object.call_method("__dlpack__", (), Some(&settings)).map_err(|error| {
        let hint = "a tensor that gradients are asked for is given as `tensor.detach()`";
        refuse(py, format!("the tensor cannot be had: {error}"), hint)
    })?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let tensor = capsule.pointer_checked(Some(c"dltensor"))?.cast::<Tensor>();
    // SAFETY: a capsule of this name holds a managed tensor, which begins with a `DLTensor`, for as long as it is not taken, and nobody else has the capsule.
    let tensor = unsafe { tensor.as_ref() };
    let Some((shape, strides)) = tensor.layout() else { return Ok(None) };
    // Channels in front, but for bytes that have three values at the end.
    let last = tensor.code == UNSIGNED && shape[3] == 3;
    let order = if last { [0, 1, 2, 3] } else { [0, 2, 3, 1] };
    let (extents, strides) = (order.map(|axis| shape[axis]), order.map(|axis| strides[axis]));
    let [_, height, width, channels] = extents;
    let scale = match (tensor.code, tensor.bits, tensor.lanes) {
        (FLOAT, 32, 1) => None,
        (UNSIGNED, 8, 1) if channels == 3 => {
            let preprocess = model.require_preprocess().map_err(|error| raise(py, &error))?;
            match preprocess.scale_of_bytes_as_they_are(width, height) {
                Some(scale) => Some(Arc::new(scale)),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let layout = ForeignLayout { device: index, address: tensor.data + tensor.offset, extents, strides, scale };
    // SAFETY: the capsule keeps the tensor's memory, whose layout this is; what fills it is on the default stream, as `__dlpack__` was asked for. That nobody changes it meanwhile is
    // asked of the caller in the documentation.
    let images = unsafe { ForeignImages::new(layout, Box::new(capsule.unbind())) };
    Ok(Some(Batch::on_device(Arc::new(images.map_err(|error| raise(py, &error))?))))
}

impl Tensor {
    /// Extents and strides, of four axes that none runs backwards along and none is empty.
    fn layout(&self) -> Option<([usize; 4], [usize; 4])> {
        if self.dims != 4 || self.shape.is_null() {
            return None;
        }
        let axes = |numbers: *const i64| {
            // SAFETY: there are as many numbers as axes, which are four.
            let numbers = unsafe { std::slice::from_raw_parts(numbers, 4) };
            let mut found = [0; 4];
            for (to, &number) in found.iter_mut().zip(numbers) {
                *to = usize::try_from(number).ok()?;
            }
            Some(found)
        };
        let shape = axes(self.shape)?;
        if shape.contains(&0) {
            return None;
        }
        let strides = match self.strides.is_null() {
            true => [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1],
            false => axes(self.strides)?,
        };
        Some((shape, strides))
    }
}
