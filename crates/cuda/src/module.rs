//! Kernels by name.
//!
//! Every `kernels/*.cu` file is compiled once per device and precision, and its `extern "C" __global__` functions are
//! launched by name on the device's stream:
//!
//! ```text
//! Call::new(kernels, "gelu").slice("the input", x, count).slice("the result", y, count).counts([count]).over(count)?;
//! ```
//!
//! A launch wrapper in `launch/` takes [`Kernels`], [`DeviceSlice`]s and extents, and makes a `Call`, which compares lengths with the
//! extents. Nothing waits: work is queued, also while a graph is being captured, so a wrapper never allocates on the
//! device and never reads back. In the source, `element` is `float` or a brain float as the precision says, and
//! `element.cuh` loads and stores both as `float`, one by one or 16 bytes at a time.

use crate::compile::{self, SOURCES};
use crate::device::{Device, DeviceSlice};
use crate::error::CudaError;
use crate::gate;
use crate::launch::Queue;
use crate::precision::Precision;
use crate::sys::driver::{FUNCTION_MAX_DYNAMIC_SHARED, Handle};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arg {
    /// The address of a piece of memory.
    Slice(DeviceSlice),
    /// A null address, for a piece that is absent.
    Null,
    /// `int`
    I32(i32),
    /// `long long`
    I64(i64),
    /// `float`
    F32(f32),
}

impl Arg {
    /// A slice or a null address.
    pub fn optional(slice: Option<DeviceSlice>) -> Self {
        slice.map_or(Self::Null, Self::Slice)
    }

    /// A count as `int`.
    pub fn count(value: usize) -> Self {
        Self::I32(i32::try_from(value).expect("extents of one buffer fit 31 bits"))
    }

    /// The argument's bytes in the low end of a word.
    pub fn word(self) -> u64 {
        match self {
            Self::Slice(slice) => slice.address,
            Self::Null => 0,
            Self::I32(value) => u64::from(value.cast_unsigned()),
            Self::I64(value) => value.cast_unsigned(),
            Self::F32(value) => u64::from(value.to_bits()),
        }
    }
}

/// All kernels, compiled for one device and precision.
pub(crate) struct Kernels {
    pub device: Arc<Device>,
    pub precision: Precision,
    modules: Vec<Handle>,
    functions: HashMap<String, Handle>,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes after `new`.
unsafe impl Sync for Kernels {}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} kernels on {:?}", self.functions.len(), self.device)
    }
}

impl Kernels {
    /// Compiles every source, or takes it from the cache.
    pub fn new(device: &Arc<Device>, precision: Precision) -> Result<Self, CudaError> {
        let cubins = compile::compile_all(precision, device.capability)?;
        let mut kernels =
            Self { device: Arc::clone(device), precision, modules: Vec::new(), functions: HashMap::new() };
        for (source, cubin) in SOURCES.iter().zip(&cubins) {
            let mut module = std::ptr::null_mut();
            // SAFETY: `cubin` is a whole image made by the compiler, and `module` a valid place.
            device.check("cuModuleLoadData", unsafe {
                (device.driver.module_load)(&mut module, cubin.as_ptr().cast())
            })?;
            kernels.modules.push(module);
            for name in compile::kernel_names(source.text) {
                let symbol = CString::new(name.as_str()).expect("names hold no zero");
                let mut function = std::ptr::null_mut();
                // SAFETY: the module is loaded, the name ends with a zero, and `function` is a valid place.
                device.check("cuModuleGetFunction", unsafe {
                    (device.driver.module_function)(&mut function, module, symbol.as_ptr())
                })?;
                kernels.functions.insert(name, function);
            }
        }
        Ok(kernels)
    }
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
        let unknown = || CudaError::UnknownKernel { name: name.to_owned() };
        let function = *self.functions.get(name).ok_or_else(unknown)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let device = &self.device;
        if shared_bytes > 48 * 1024 {
            // SAFETY: the function belongs to a loaded module.
            device.check("cuFuncSetAttribute", unsafe {
                (device.driver.function_set)(function, FUNCTION_MAX_DYNAMIC_SHARED, shared_bytes as i32)
            })?;
        }
        let mut words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        let mut pointers: Vec<_> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        // SAFETY: every pointer leads to eight readable bytes, at least as many as the parameter it stands for; wrappers
        // pass as many arguments as the kernel has parameters, which the tests of the wrappers hold them to.
        device.check("cuLaunchKernel", unsafe {
            (device.driver.launch)(
                function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes as u32,
                device.stream(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
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

impl Drop for Kernels {
    fn drop(&mut self) {
        let _loading = gate::load();
        if self.device.enter().is_ok() {
            for &module in &self.modules {
                // SAFETY: loaded by `new` and not used after this.
                unsafe { (self.device.driver.module_unload)(module) };
            }
        }
    }
}
