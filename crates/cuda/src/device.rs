//! A GPU, its stream, and copies from and to it.

use crate::error::CudaError;
use crate::library::libraries;
pub(crate) use crate::memory::{DeviceMemory, DeviceSlice, Pinned};
use crate::precision::Element;
use crate::sys::driver::{self, Driver, Handle, Status};
use std::ffi::CStr;
use std::sync::Arc;

/// A GPU with its context and the one stream that everything of a network runs on.
pub(crate) struct Device {
    pub driver: &'static Driver,
    pub name: String,
    /// Compute capability, major times ten plus minor.
    pub capability: i32,
    pub multiprocessors: usize,
    /// Most shared memory of one block, in bytes.
    pub shared_bytes: usize,
    number: i32,
    context: Handle,
    stream: Handle,
}

// SAFETY: the driver's functions may be called from any thread once the context is current there, which `enter` sees to,
// and every use of the stream is through `&Device` methods that the driver serialises.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (GPU {})", self.name, self.number)
    }
}

/// Turns a status of the driver into an error.
pub(crate) fn check(driver: &Driver, call: &'static str, status: Status) -> Result<(), CudaError> {
    if status == 0 {
        return Ok(());
    }
    let text = |of: unsafe extern "C" fn(Status, *mut *const std::ffi::c_char) -> Status| {
        let mut text = std::ptr::null();
        // SAFETY: `text` is a valid place for a pointer; the driver's texts are constants.
        unsafe {
            if of(status, &mut text) == 0 && !text.is_null() {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            } else {
                format!("status {status}")
            }
        }
    };
    let name = text(driver.error_name);
    if driver::LOST.contains(&status) {
        return Err(CudaError::DeviceLost { call, name });
    }
    if status == driver::NO_DEVICE {
        return Err(CudaError::NoDevice);
    }
    Err(CudaError::Driver { call, name, description: text(driver.error_string) })
}

impl Device {
    /// Opens GPU `index`.
    pub fn open(index: usize) -> Result<Arc<Self>, CudaError> {
        let driver = libraries().driver()?;
        let mut count = 0;
        // SAFETY: `count` is a valid place.
        check(driver, "cuDeviceGetCount", unsafe { (driver.device_count)(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Err(CudaError::NoDevice);
        }
        let number = i32::try_from(index).ok().filter(|_| index < count);
        let number = number.ok_or(CudaError::DeviceIndex { index, count })?;
        let mut device = 0;
        let mut context = std::ptr::null_mut();
        let mut stream = std::ptr::null_mut();
        // SAFETY: every pointer is a valid place, and `device` is set before it is used.
        unsafe {
            check(driver, "cuDeviceGet", (driver.device_get)(&mut device, number))?;
            check(driver, "cuDevicePrimaryCtxRetain", (driver.context_retain)(&mut context, device))?;
            check(driver, "cuCtxSetCurrent", (driver.context_set)(context))?;
            check(driver, "cuStreamCreate", (driver.stream_create)(&mut stream, driver::STREAM_NON_BLOCKING))?;
        }
        let attribute = |which| attribute(driver, device, which);
        let capability = attribute(driver::ATTRIBUTE_MAJOR)? * 10 + attribute(driver::ATTRIBUTE_MINOR)?;
        let found = Self {
            driver,
            name: name(driver, device)?,
            capability,
            multiprocessors: attribute(driver::ATTRIBUTE_MULTIPROCESSORS)?.max(1) as usize,
            shared_bytes: attribute(driver::ATTRIBUTE_SHARED_OPTIN)?.max(0) as usize,
            number: device,
            context,
            stream,
        };
        if capability < 80 {
            return Err(CudaError::DeviceTooOld {
                device: found.name.clone(),
                found: format!("{}.{}", capability / 10, capability % 10),
                expected: "8.0".to_owned(),
            });
        }
        Ok(Arc::new(found))
    }

    /// Makes the context current on this thread.
    pub fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as `self`.
        self.check("cuCtxSetCurrent", unsafe { (self.driver.context_set)(self.context) })
    }

    /// Turns a status into an error.
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), CudaError> {
        check(self.driver, call, status)
    }

    /// Its number among the driver's devices.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// The stream, for libraries.
    pub fn stream(&self) -> Handle {
        self.stream
    }

    /// Waits until everything on the stream is done.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as `self`.
        self.check("cuStreamSynchronize", unsafe { (self.driver.stream_synchronize)(self.stream) })
    }

    /// Free bytes and all bytes of its memory.
    pub fn memory(&self) -> Result<(usize, usize), CudaError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid places.
        self.check("cuMemGetInfo", unsafe { (self.driver.memory_info)(&mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Zeroed memory for `len` elements.
    pub fn allocate(
        self: &Arc<Self>,
        what: &'static str,
        element: Element,
        len: usize,
    ) -> Result<DeviceMemory, CudaError> {
        let bytes = len.max(1).saturating_mul(element.bytes());
        let mut address = 0;
        // SAFETY: `address` is a valid place.
        let status = unsafe { (self.driver.allocate)(&mut address, bytes) };
        if status == driver::OUT_OF_MEMORY {
            let (free, total) = self.memory()?;
            return Err(CudaError::OutOfMemory { what, needed: bytes, free, total, batch: None });
        }
        self.check("cuMemAlloc", status)?;
        let memory = DeviceMemory { device: Arc::clone(self), slice: DeviceSlice { address, len, element } };
        self.fill_zero(memory.slice)?;
        Ok(memory)
    }

    /// Memory that holds `values`, as `element`.
    pub fn upload(
        self: &Arc<Self>,
        what: &'static str,
        element: Element,
        values: &[f32],
    ) -> Result<DeviceMemory, CudaError> {
        let memory = self.allocate(what, element, values.len())?;
        match element {
            Element::Bf16 => {
                let rounded: Vec<u16> = values.iter().map(|&x| bf16_bits(x)).collect();
                self.copy_in(memory.slice, bytes_of(&rounded))?;
            }
            _ => self.copy_in(memory.slice, bytes_of(values))?,
        }
        Ok(memory)
    }

    /// Memory that holds `values`.
    pub fn upload_integers(self: &Arc<Self>, what: &'static str, values: &[i32]) -> Result<DeviceMemory, CudaError> {
        let memory = self.allocate(what, Element::I32, values.len())?;
        self.copy_in(memory.slice, bytes_of(values))?;
        Ok(memory)
    }

    /// Memory that holds `values`.
    pub fn upload_bytes(self: &Arc<Self>, what: &'static str, values: &[u8]) -> Result<DeviceMemory, CudaError> {
        let memory = self.allocate(what, Element::U8, values.len())?;
        self.copy_in(memory.slice, values)?;
        Ok(memory)
    }

    /// Sets all bytes to zero, on the stream.
    pub fn fill_zero(&self, slice: DeviceSlice) -> Result<(), CudaError> {
        if slice.len == 0 {
            return Ok(());
        }
        // SAFETY: a slice lies within memory that is allocated.
        self.check("cuMemsetD8Async", unsafe { (self.driver.fill)(slice.address, 0, slice.bytes(), self.stream) })
    }

    /// Copies bytes to the start of `to` and waits.
    pub fn copy_in(&self, to: DeviceSlice, from: &[u8]) -> Result<(), CudaError> {
        assert!(from.len() <= to.bytes(), "the copy fits its target");
        // SAFETY: the lengths were compared, and `from` outlives the copy since the stream is waited for.
        self.check("cuMemcpyHtoDAsync", unsafe {
            (self.driver.to_device)(to.address, from.as_ptr().cast(), from.len(), self.stream)
        })?;
        self.synchronize()
    }

    /// Copies the start of `from` to the host and waits.
    pub fn copy_out(&self, from: DeviceSlice, to: &mut [u8]) -> Result<(), CudaError> {
        assert!(to.len() <= from.bytes(), "the copy fits its source");
        // SAFETY: the lengths were compared, and `to` outlives the copy since the stream is waited for.
        self.check("cuMemcpyDtoHAsync", unsafe {
            (self.driver.to_host)(to.as_mut_ptr().cast(), from.address, to.len(), self.stream)
        })?;
        self.synchronize()
    }

    /// Copies between two places of the same length, on the stream.
    pub fn copy(&self, from: DeviceSlice, to: DeviceSlice) -> Result<(), CudaError> {
        assert!(from.bytes() == to.bytes(), "both places have one length");
        // SAFETY: both lie within memory that is allocated.
        self.check("cuMemcpyDtoDAsync", unsafe {
            (self.driver.copy)(to.address, from.address, from.bytes(), self.stream)
        })
    }

    /// The values of `from`, widened to 32 bits.
    pub fn read(&self, from: DeviceSlice) -> Result<Vec<f32>, CudaError> {
        let mut bytes = vec![0u8; from.bytes()];
        self.copy_out(from, &mut bytes)?;
        let values = match from.element {
            Element::Bf16 => {
                let (pairs, _) = bytes.as_chunks::<2>();
                let widen = |pair: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*pair)) << 16);
                pairs.iter().map(widen).collect()
            }
            _ => {
                let (words, _) = bytes.as_chunks::<4>();
                words.iter().map(|word| f32::from_le_bytes(*word)).collect()
            }
        };
        Ok(values)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: both were made by `open` and are not used after this. A failure here has nobody to go to.
        unsafe {
            (self.driver.context_set)(self.context);
            (self.driver.stream_destroy)(self.stream);
            (self.driver.context_release)(self.number);
        }
    }
}

fn attribute(driver: &Driver, device: i32, which: i32) -> Result<i32, CudaError> {
    let mut value = 0;
    // SAFETY: `value` is a valid place.
    check(driver, "cuDeviceGetAttribute", unsafe { (driver.device_attribute)(&mut value, which, device) })?;
    Ok(value)
}

/// The name of a GPU.
pub(crate) fn name(driver: &Driver, device: i32) -> Result<String, CudaError> {
    let mut text = [0u8; 256];
    // SAFETY: the length is that of `text`, and the driver ends the name with a zero.
    check(driver, "cuDeviceGetName", unsafe {
        (driver.device_name)(text.as_mut_ptr().cast(), text.len() as i32, device)
    })?;
    let name = CStr::from_bytes_until_nul(&text).unwrap_or(c"");
    Ok(name.to_string_lossy().into_owned())
}

/// The bits of the nearest brain float, ties to even. A NaN stays one.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let odd = (bits >> 16) & 1;
    (bits.wrapping_add(0x7fff + odd) >> 16) as u16
}

pub(crate) fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers without padding, read as the bytes they are.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_brain_floats_takes_the_nearest_and_ties_to_even() {
        let back = |x: f32| f32::from_bits(u32::from(bf16_bits(x)) << 16);
        assert_eq!(back(1.0), 1.0);
        assert_eq!(back(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(back(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(back(f32::INFINITY), f32::INFINITY);
        assert!(back(f32::NAN).is_nan());
    }
}
