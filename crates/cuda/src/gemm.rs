//! Matrix products: linear layers and pointwise convolutions, forward and backward.

use crate::device::{Device, DeviceSlice};
use crate::error::CudaError;
use crate::library::libraries;
use crate::precision::{Element, Precision};
use crate::sys::cublaslt::{self as sys, Algorithm, Choice, CublasLt, Handle};
use std::ffi::c_void;
use std::sync::Arc;

/// Algorithms to ask for.
const CHOICES: usize = 6;
/// Bytes that the library may use besides its operands.
pub(crate) const WORKSPACE: usize = 64 << 20;
/// Planned buffers start on multiples of 16 elements.
const ALIGNED_ELEMENTS: u32 = 16;

/// The library, started on a device.
pub(crate) struct Blas {
    library: &'static CublasLt,
    handle: Handle,
    device: Arc<Device>,
    workspace: DeviceSlice,
}

// SAFETY: the handle may be used from any thread; it holds no state of a call.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuBLASLt on {:?}", self.device)
    }
}

fn check(call: &'static str, status: i32) -> Result<(), CudaError> {
    if status == 0 {
        return Ok(());
    }
    Err(CudaError::Library { library: "cuBLASLt", call, status, detail: String::new() })
}

impl Blas {
    pub fn new(device: &Arc<Device>, workspace: DeviceSlice) -> Result<Arc<Self>, CudaError> {
        let library = libraries().cublaslt()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a valid place, and the device's context is current.
        check("cublasLtCreate", unsafe { (library.create)(&mut handle) })?;
        Ok(Arc::new(Self { library, handle, device: Arc::clone(device), workspace }))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: made by `new` and not used after this.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}

/// Which way a layer is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// `y = x w'`, weights `[out][in]`.
    Forward,
    /// `dx = dy w`.
    Backward,
}

/// Extents and types of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub rows: usize,
    pub ins: usize,
    pub outs: usize,
    pub direction: Direction,
    /// What the result is stored as.
    pub result: Element,
}

/// A product whose algorithms are known.
#[derive(Debug)]
pub(crate) struct Product {
    blas: Arc<Blas>,
    description: Handle,
    /// Weights, values, result.
    layouts: [Handle; 3],
    choices: Vec<Algorithm>,
}

// SAFETY: descriptions are read-only after `new`.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

impl Product {
    /// A product with an optional bias, stored as the result is. Without algorithms for it, `algorithms` is 0.
    pub fn new(
        blas: &Arc<Blas>,
        precision: Precision,
        shape: Shape,
        bias: Option<DeviceSlice>,
    ) -> Result<Self, CudaError> {
        let compute = match precision {
            Precision::Tf32 => sys::COMPUTE_32F_FAST_TF32,
            Precision::Bf16 | Precision::F32 => sys::COMPUTE_32F,
        };
        let library = blas.library;
        let mut product = Self {
            blas: Arc::clone(blas),
            description: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            choices: Vec::new(),
        };
        let of = kind(precision.element());
        let (rows, ins, outs) = (shape.rows as u64, shape.ins as u64, shape.outs as u64);
        // Rows in memory are columns to the library.
        let (from, to) = match shape.direction {
            Direction::Forward => (ins, outs),
            Direction::Backward => (outs, ins),
        };
        let layouts = [(of, ins, outs), (of, from, rows), (kind(shape.result), to, rows)];
        // SAFETY: every pointer is a valid place, and every attribute is given with its own size.
        unsafe {
            check("cublasLtMatmulDescCreate", (library.desc_create)(&mut product.description, compute, sys::R_32F))?;
            for (layout, (kind, height, width)) in product.layouts.iter_mut().zip(layouts) {
                check(
                    "cublasLtMatrixLayoutCreate",
                    (library.layout_create)(layout, kind, height, width, height as i64),
                )?;
            }
            product.set(sys::DESC_TRANSA, &i32::from(shape.direction == Direction::Forward))?;
            if let Some(bias) = bias {
                product.set(sys::DESC_EPILOGUE, &sys::EPILOGUE_BIAS)?;
                product.set(sys::DESC_BIAS_POINTER, &bias.address)?;
                product.set(sys::DESC_BIAS_TYPE, &kind(bias.element))?;
            }
        }
        product.choices = product.heuristic(precision, shape)?;
        Ok(product)
    }

    /// Sets an attribute of the description.
    ///
    /// # Safety
    /// `T` must be what the attribute is declared as.
    unsafe fn set<T>(&self, attribute: i32, value: &T) -> Result<(), CudaError> {
        // SAFETY: the description was made, and the size is that of the value.
        check("cublasLtMatmulDescSetAttribute", unsafe {
            (self.blas.library.desc_set)(self.description, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        })
    }

    fn heuristic(&self, precision: Precision, shape: Shape) -> Result<Vec<Algorithm>, CudaError> {
        let library = self.blas.library;
        let mut preference = std::ptr::null_mut();
        let mut choices = [Choice::default(); CHOICES];
        let mut found = 0;
        let alignment = ALIGNED_ELEMENTS * precision.element().bytes() as u32;
        let result_alignment = ALIGNED_ELEMENTS * shape.result.bytes() as u32;
        // SAFETY: every pointer is a valid place, attributes are given with their sizes, and the list has room for as
        // many answers as are asked for.
        let status = unsafe {
            check("cublasLtMatmulPreferenceCreate", (library.preference_create)(&mut preference))?;
            let set =
                |attribute, value: *const c_void, size| (library.preference_set)(preference, attribute, value, size);
            set(sys::PREFERENCE_WORKSPACE, std::ptr::from_ref(&WORKSPACE).cast(), 8);
            let words = [
                (sys::PREFERENCE_ALIGN_A, &alignment),
                (sys::PREFERENCE_ALIGN_B, &alignment),
                (sys::PREFERENCE_ALIGN_C, &result_alignment),
                (sys::PREFERENCE_ALIGN_D, &result_alignment),
            ];
            for (attribute, word) in words {
                set(attribute, std::ptr::from_ref(word).cast(), 4);
            }
            let [weights, values, result] = self.layouts;
            let status = (library.heuristic)(
                self.blas.handle,
                self.description,
                weights,
                values,
                result,
                result,
                preference,
                CHOICES as i32,
                choices.as_mut_ptr(),
                &mut found,
            );
            (library.preference_destroy)(preference);
            status
        };
        if status != 0 {
            return Ok(Vec::new());
        }
        let found = choices.iter().take(found.max(0) as usize);
        Ok(found
            .filter(|choice| choice.status == 0 && choice.workspace <= WORKSPACE)
            .map(|choice| choice.algorithm)
            .collect())
    }

    /// How many algorithms there are.
    pub fn algorithms(&self) -> usize {
        self.choices.len()
    }

    /// Queues the product by one of its algorithms.
    pub fn run(
        &self,
        algorithm: usize,
        weights: DeviceSlice,
        values: DeviceSlice,
        result: DeviceSlice,
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let (alpha, beta) = (1.0f32, f32::from(u8::from(accumulate)));
        let blas = &self.blas;
        let [of_weights, of_values, of_result] = self.layouts;
        // SAFETY: the operands have the extents of their layouts, which `conv` compares, and the workspace is as large as
        // the heuristic was told.
        check("cublasLtMatmul", unsafe {
            (blas.library.matmul)(
                blas.handle,
                self.description,
                std::ptr::from_ref(&alpha).cast(),
                weights.address,
                of_weights,
                values.address,
                of_values,
                std::ptr::from_ref(&beta).cast(),
                result.address,
                of_result,
                result.address,
                of_result,
                &self.choices[algorithm],
                blas.workspace.address,
                WORKSPACE,
                blas.device.stream(),
            )
        })
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let library = self.blas.library;
        // SAFETY: made by `new`, as far as they are not null, and not used after this.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                (library.layout_destroy)(layout);
            }
            if !self.description.is_null() {
                (library.desc_destroy)(self.description);
            }
        }
    }
}

fn kind(element: Element) -> i32 {
    match element {
        Element::Bf16 => sys::R_16BF,
        _ => sys::R_32F,
    }
}
