//! Convolutions, through the library's graph interface.

use super::function_table;
use std::ffi::{c_char, c_int, c_void};

/// An opaque object of the library.
pub(crate) type Handle = *mut c_void;

/// Descriptors, attributes and values by number, as in the library's header.
pub(crate) mod number {
    use std::ffi::c_int;

    pub const CONVOLUTION: c_int = 1;
    pub const ENGINE: c_int = 2;
    pub const ENGINE_CONFIG: c_int = 3;
    pub const HEURISTIC: c_int = 4;
    pub const PLAN: c_int = 5;
    pub const FORWARD: c_int = 10;
    pub const BACKWARD_DATA: c_int = 12;
    pub const GRAPH: c_int = 15;
    pub const VARIANT_PACK: c_int = 16;
    pub const TENSOR: c_int = 17;

    pub const CONVOLUTION_COMPUTE: c_int = 100;
    pub const CONVOLUTION_MODE: c_int = 101;
    pub const CONVOLUTION_DILATIONS: c_int = 102;
    pub const CONVOLUTION_STRIDES: c_int = 103;
    pub const CONVOLUTION_POST: c_int = 104;
    pub const CONVOLUTION_PRE: c_int = 105;
    pub const CONVOLUTION_AXES: c_int = 106;
    pub const HEURISTIC_MODE: c_int = 200;
    pub const HEURISTIC_GRAPH: c_int = 201;
    pub const HEURISTIC_RESULTS: c_int = 202;
    pub const CONFIG_ENGINE: c_int = 300;
    pub const PLAN_HANDLE: c_int = 400;
    pub const PLAN_CONFIG: c_int = 401;
    pub const PLAN_WORKSPACE: c_int = 402;
    pub const FORWARD_ALPHA: c_int = 700;
    pub const BACKWARD_ALPHA: c_int = 706;
    pub const GRAPH_HANDLE: c_int = 800;
    pub const GRAPH_OPERATIONS: c_int = 801;
    pub const TENSOR_ALIGNMENT: c_int = 900;
    pub const TENSOR_TYPE: c_int = 901;
    pub const TENSOR_EXTENTS: c_int = 902;
    pub const TENSOR_STRIDES: c_int = 903;
    pub const TENSOR_ID: c_int = 906;
    pub const PACK_IDS: c_int = 1000;
    pub const PACK_POINTERS: c_int = 1001;
    pub const PACK_WORKSPACE: c_int = 1003;
    pub const ENGINE_NUMERICAL: c_int = 1303;
    pub const ENGINE_BEHAVIOUR: c_int = 1305;

    pub const OF_HANDLE: c_int = 0;
    pub const OF_DATA_TYPE: c_int = 1;
    pub const OF_I64: c_int = 3;
    pub const OF_FLOAT: c_int = 4;
    pub const OF_POINTER: c_int = 6;
    pub const OF_MODE: c_int = 7;
    pub const OF_HEURISTIC: c_int = 8;
    pub const OF_NUMERICAL: c_int = 11;
    pub const OF_DESCRIPTOR: c_int = 15;
    pub const OF_BEHAVIOUR: c_int = 19;

    pub const FLOAT: c_int = 0;
    pub const BRAIN_FLOAT: c_int = 9;
    pub const CROSS_CORRELATION: c_int = 1;
    pub const HEURISTIC_A: c_int = 3;
    pub const HEURISTIC_FALLBACK: c_int = 2;
    pub const TENSOR_CORE: c_int = 0;
    pub const DOWN_CONVERT: c_int = 1;
    pub const REDUCED_REDUCTION: c_int = 2;
    pub const NONDETERMINISTIC: c_int = 4;
    pub const RUNTIME_COMPILATION: c_int = 0;
}

function_table! {
    /// Functions of `libcudnn`.
    Cudnn {
        fn version as b"cudnnGetVersion\0"() -> usize;
        fn last_error as b"cudnnGetLastErrorString\0"(*mut c_char, usize) -> ();
        fn create as b"cudnnCreate\0"(*mut Handle) -> c_int;
        fn destroy as b"cudnnDestroy\0"(Handle) -> c_int;
        fn set_stream as b"cudnnSetStream\0"(Handle, Handle) -> c_int;
        fn descriptor_create as b"cudnnBackendCreateDescriptor\0"(c_int, *mut Handle) -> c_int;
        fn descriptor_destroy as b"cudnnBackendDestroyDescriptor\0"(Handle) -> c_int;
        fn descriptor_finalize as b"cudnnBackendFinalize\0"(Handle) -> c_int;
        fn descriptor_set as b"cudnnBackendSetAttribute\0"(Handle, c_int, c_int, i64, *const c_void) -> c_int;
        fn descriptor_get as b"cudnnBackendGetAttribute\0"(Handle, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
        fn execute as b"cudnnBackendExecute\0"(Handle, Handle, Handle) -> c_int;
    }
}
