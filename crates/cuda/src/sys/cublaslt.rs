//! Matrix products.

use super::function_table;
use std::ffi::{c_int, c_void};

/// An opaque object of the library.
pub(crate) type Handle = *mut c_void;

/// Row- or column-major storage, chosen algorithms and such, by number as in the library's header.
pub(crate) const R_32F: c_int = 0;
pub(crate) const R_16BF: c_int = 14;
pub(crate) const COMPUTE_32F: c_int = 68;
pub(crate) const COMPUTE_32F_FAST_TF32: c_int = 77;
pub(crate) const DESC_TRANSA: c_int = 3;
pub(crate) const DESC_EPILOGUE: c_int = 7;
pub(crate) const DESC_BIAS_POINTER: c_int = 8;
pub(crate) const DESC_BIAS_TYPE: c_int = 26;
pub(crate) const EPILOGUE_BIAS: c_int = 4;
pub(crate) const PREFERENCE_WORKSPACE: c_int = 1;
pub(crate) const PREFERENCE_ALIGN_A: c_int = 5;
pub(crate) const PREFERENCE_ALIGN_B: c_int = 6;
pub(crate) const PREFERENCE_ALIGN_C: c_int = 7;
pub(crate) const PREFERENCE_ALIGN_D: c_int = 8;

/// An algorithm: the library's opaque eight words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Algorithm {
    pub words: [u64; 8],
}

/// One answer of the heuristic.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Choice {
    pub algorithm: Algorithm,
    pub workspace: usize,
    pub status: c_int,
    pub waves: f32,
    pub reserved: [c_int; 4],
}

function_table! {
    /// Functions of `libcublasLt`.
    CublasLt {
        fn version as b"cublasLtGetVersion\0"() -> usize;
        fn create as b"cublasLtCreate\0"(*mut Handle) -> c_int;
        fn destroy as b"cublasLtDestroy\0"(Handle) -> c_int;
        fn desc_create as b"cublasLtMatmulDescCreate\0"(*mut Handle, c_int, c_int) -> c_int;
        fn desc_destroy as b"cublasLtMatmulDescDestroy\0"(Handle) -> c_int;
        fn desc_set as b"cublasLtMatmulDescSetAttribute\0"(Handle, c_int, *const c_void, usize) -> c_int;
        fn layout_create as b"cublasLtMatrixLayoutCreate\0"(*mut Handle, c_int, u64, u64, i64) -> c_int;
        fn layout_destroy as b"cublasLtMatrixLayoutDestroy\0"(Handle) -> c_int;
        fn preference_create as b"cublasLtMatmulPreferenceCreate\0"(*mut Handle) -> c_int;
        fn preference_destroy as b"cublasLtMatmulPreferenceDestroy\0"(Handle) -> c_int;
        fn preference_set as b"cublasLtMatmulPreferenceSetAttribute\0"(Handle, c_int, *const c_void, usize) -> c_int;
        fn heuristic as b"cublasLtMatmulAlgoGetHeuristic\0"(
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Choice, *mut c_int,
        ) -> c_int;
        fn matmul as b"cublasLtMatmul\0"(
            Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle,
            *const Algorithm, u64, usize, Handle,
        ) -> c_int;
    }
}
