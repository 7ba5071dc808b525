//! The run-time compiler.

use super::function_table;
use std::ffi::{c_char, c_int, c_void};

/// A program being compiled.
pub(crate) type Program = *mut c_void;

function_table! {
    /// Functions of `libnvrtc`.
    Nvrtc {
        fn version as b"nvrtcVersion\0"(*mut c_int, *mut c_int) -> c_int;
        fn error_string as b"nvrtcGetErrorString\0"(c_int) -> *const c_char;
        fn create as b"nvrtcCreateProgram\0"(
            *mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
        ) -> c_int;
        fn destroy as b"nvrtcDestroyProgram\0"(*mut Program) -> c_int;
        fn compile as b"nvrtcCompileProgram\0"(Program, c_int, *const *const c_char) -> c_int;
        fn cubin_size as b"nvrtcGetCUBINSize\0"(Program, *mut usize) -> c_int;
        fn cubin as b"nvrtcGetCUBIN\0"(Program, *mut c_char) -> c_int;
        fn log_size as b"nvrtcGetProgramLogSize\0"(Program, *mut usize) -> c_int;
        fn log as b"nvrtcGetProgramLog\0"(Program, *mut c_char) -> c_int;
    }
}
