//! The CUDA driver interface.

use super::function_table;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// A status; zero is success.
pub(crate) type Status = c_int;
/// An address on the device.
pub(crate) type Address = u64;
/// An opaque object of the driver.
pub(crate) type Handle = *mut c_void;

pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const NO_DEVICE: Status = 100;
/// Statuses after which the context can no longer be used.
pub(crate) const LOST: [Status; 8] = [214, 219, 700, 702, 714, 715, 716, 719];

pub(crate) const ATTRIBUTE_MULTIPROCESSORS: c_int = 16;
pub(crate) const ATTRIBUTE_MAJOR: c_int = 75;
pub(crate) const ATTRIBUTE_MINOR: c_int = 76;
pub(crate) const ATTRIBUTE_SHARED_OPTIN: c_int = 97;
pub(crate) const FUNCTION_MAX_DYNAMIC_SHARED: c_int = 8;
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
pub(crate) const CAPTURE_RELAXED: c_int = 2;

function_table! {
    /// Functions of `libcuda`.
    Driver {
        fn init as b"cuInit\0"(c_uint) -> Status;
        fn version as b"cuDriverGetVersion\0"(*mut c_int) -> Status;
        fn error_name as b"cuGetErrorName\0"(Status, *mut *const c_char) -> Status;
        fn error_string as b"cuGetErrorString\0"(Status, *mut *const c_char) -> Status;
        fn device_count as b"cuDeviceGetCount\0"(*mut c_int) -> Status;
        fn device_get as b"cuDeviceGet\0"(*mut c_int, c_int) -> Status;
        fn device_name as b"cuDeviceGetName\0"(*mut c_char, c_int, c_int) -> Status;
        fn device_attribute as b"cuDeviceGetAttribute\0"(*mut c_int, c_int, c_int) -> Status;
        fn device_memory as b"cuDeviceTotalMem_v2\0"(*mut usize, c_int) -> Status;
        fn context_retain as b"cuDevicePrimaryCtxRetain\0"(*mut Handle, c_int) -> Status;
        fn context_release as b"cuDevicePrimaryCtxRelease_v2\0"(c_int) -> Status;
        fn context_set as b"cuCtxSetCurrent\0"(Handle) -> Status;
        fn memory_info as b"cuMemGetInfo_v2\0"(*mut usize, *mut usize) -> Status;
        fn allocate as b"cuMemAlloc_v2\0"(*mut Address, usize) -> Status;
        fn free as b"cuMemFree_v2\0"(Address) -> Status;
        fn allocate_host as b"cuMemHostAlloc\0"(*mut Handle, usize, c_uint) -> Status;
        fn free_host as b"cuMemFreeHost\0"(Handle) -> Status;
        fn to_device as b"cuMemcpyHtoDAsync_v2\0"(Address, *const c_void, usize, Handle) -> Status;
        fn to_host as b"cuMemcpyDtoHAsync_v2\0"(*mut c_void, Address, usize, Handle) -> Status;
        fn copy as b"cuMemcpyDtoDAsync_v2\0"(Address, Address, usize, Handle) -> Status;
        fn fill as b"cuMemsetD8Async\0"(Address, u8, usize, Handle) -> Status;
        fn stream_create as b"cuStreamCreate\0"(*mut Handle, c_uint) -> Status;
        fn stream_destroy as b"cuStreamDestroy_v2\0"(Handle) -> Status;
        fn stream_synchronize as b"cuStreamSynchronize\0"(Handle) -> Status;
        fn event_create as b"cuEventCreate\0"(*mut Handle, c_uint) -> Status;
        fn event_record as b"cuEventRecord\0"(Handle, Handle) -> Status;
        fn event_synchronize as b"cuEventSynchronize\0"(Handle) -> Status;
        fn event_elapsed as b"cuEventElapsedTime\0"(*mut f32, Handle, Handle) -> Status;
        fn event_destroy as b"cuEventDestroy_v2\0"(Handle) -> Status;
        fn module_load as b"cuModuleLoadData\0"(*mut Handle, *const c_void) -> Status;
        fn module_unload as b"cuModuleUnload\0"(Handle) -> Status;
        fn module_function as b"cuModuleGetFunction\0"(*mut Handle, Handle, *const c_char) -> Status;
        fn function_set as b"cuFuncSetAttribute\0"(Handle, c_int, c_int) -> Status;
        fn launch as b"cuLaunchKernel\0"(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
        ) -> Status;
        fn capture_begin as b"cuStreamBeginCapture_v2\0"(Handle, c_int) -> Status;
        fn capture_end as b"cuStreamEndCapture\0"(Handle, *mut Handle) -> Status;
        fn graph_instantiate as b"cuGraphInstantiateWithFlags\0"(*mut Handle, Handle, u64) -> Status;
        fn graph_launch as b"cuGraphLaunch\0"(Handle, Handle) -> Status;
        fn graph_destroy as b"cuGraphDestroy\0"(Handle) -> Status;
        fn graph_exec_destroy as b"cuGraphExecDestroy\0"(Handle) -> Status;
    }
}
