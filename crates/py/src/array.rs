//! NumPy's arrays, by the protocol that they tell their memory by (`__array_interface__`).
#![expect(unsafe_code, reason = "NumPy's memory is reached by its address")]

use crate::dlpack::{gpu_of, to_processor};
use crate::error::refuse;
use pyo3::prelude::*;

/// An element of an array.
pub trait Element: Copy + Default {
    /// What NumPy calls it.
    const DTYPE: &'static str;
    /// How the protocol writes it.
    const TYPE: &'static str;
}

impl Element for f32 {
    const DTYPE: &'static str = "float32";
    const TYPE: &'static str = if cfg!(target_endian = "little") { "<f4" } else { ">f4" };
}

impl Element for i64 {
    const DTYPE: &'static str = "int64";
    const TYPE: &'static str = if cfg!(target_endian = "little") { "<i8" } else { ">i8" };
}

impl Element for u8 {
    const DTYPE: &'static str = "uint8";
    const TYPE: &'static str = "|u1";
}

/// The shape and values of whatever NumPy makes an array of: lists, tensors of the processor, arrays of other types where no value
/// changes but for rounding. `what` is what the caller calls it.
pub fn read<T: Element>(object: &Bound<'_, PyAny>, what: &str) -> PyResult<(Vec<usize>, Vec<T>)> {
    let (_array, address, shape) = view::<T>(object, what)?;
    let len = shape.iter().product();
    let mut values = vec![T::default(); len];
    if len > 0 {
        // SAFETY: `view` checked that the array is C-contiguous, of `T`, with this shape; `_array` keeps it alive, and attached to the interpreter nobody frees it.
        unsafe { std::ptr::copy_nonoverlapping(address as *const T, values.as_mut_ptr(), len) };
    }
    Ok((shape, values))
}

/// An array that stays where it is: NumPy's memory, kept alive.
pub struct Borrowed {
    _array: Py<PyAny>,
    address: usize,
    len: usize,
}

impl AsRef<[f32]> for Borrowed {
    fn as_ref(&self) -> &[f32] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `view` checked that the array is C-contiguous, of `f32`, aligned, with `len` elements; `_array` keeps it alive. That nobody changes it meanwhile is
        // asked of the caller in the documentation of what takes logits.
        unsafe { std::slice::from_raw_parts(self.address as *const f32, self.len) }
    }
}

/// The shape and the values of an array of floats, which are not copied where they are `float32` row after row.
pub fn borrow(object: &Bound<'_, PyAny>, what: &str) -> PyResult<(Vec<usize>, Borrowed)> {
    let (array, address, shape) = view::<f32>(object, what)?;
    let len = shape.iter().product();
    Ok((shape, Borrowed { _array: array.unbind(), address, len }))
}

/// A new array of this shape.
pub fn write<'py, T: Element>(py: Python<'py>, shape: &[usize], values: &[T]) -> PyResult<Bound<'py, PyAny>> {
    let made = py.import("numpy")?.call_method1("empty", (shape.to_vec(), T::DTYPE))?;
    let (array, address, found) = view::<T>(&made, "a new array")?;
    if found != shape || values.len() != shape.iter().product::<usize>() {
        let problem = format!("a new array has the shape {found:?}, expected {shape:?} for {} values", values.len());
        return Err(refuse(py, problem, "this is a mistake in flipcast"));
    }
    if !values.is_empty() {
        // SAFETY: `view` checked that the array is C-contiguous, of `T`; it has as many elements as `values`, is new, and nobody else knows it.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), address as *mut T, values.len()) };
    }
    Ok(array)
}

/// Whether NumPy's elements of `object` are bytes.
pub fn holds_bytes(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let array = as_array(object)?;
    let dtype: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    Ok(dtype == u8::DTYPE)
}

/// Whatever NumPy makes of `object`, without a copy where it can: of tensors that only speak DLPack, and of those on a GPU, too.
pub fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = object.py().import("numpy")?;
    if gpu_of(object)?.is_some() {
        return numpy.call_method1("asarray", (to_processor(object)?,));
    }
    let only_dlpack = object.hasattr("__dlpack__")? && !object.hasattr("__array__")?;
    numpy.call_method1(if only_dlpack { "from_dlpack" } else { "asarray" }, (object,))
}

/// A contiguous array of `T`, the address of its first element, and its shape.
fn view<'py, T: Element>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<(Bound<'py, PyAny>, usize, Vec<usize>)> {
    let py = object.py();
    let numpy = py.import("numpy")?;
    let unfit = |found: String| {
        let hint = format!("give a NumPy array of {}, or what NumPy makes one of", T::DTYPE);
        refuse(py, format!("{what}: {found}, expected {}", T::DTYPE), &hint)
    };
    let array = as_array(object).map_err(|error| unfit(error.to_string()))?;
    // Floats become floats, integers integers; a number that is cut off would be a mistake of the caller's.
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    let fits = match T::DTYPE {
        "float32" => matches!(kind.as_str(), "f" | "i" | "u"),
        "uint8" => dtype.getattr("name")?.extract::<String>()? == "uint8",
        _ => matches!(kind.as_str(), "i" | "u" | "b"),
    };
    if !fits {
        return Err(unfit(format!("found {}", dtype.str()?)));
    }
    let array = numpy.call_method1("ascontiguousarray", (array, T::DTYPE))?;
    let interface = array.getattr("__array_interface__")?;
    let kind: String = interface.get_item("typestr")?.extract()?;
    let shape: Vec<usize> = interface.get_item("shape")?.extract()?;
    let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
    let is_contiguous = interface.get_item("strides")?.is_none();
    if kind != T::TYPE || !is_contiguous || address % align_of::<T>() != 0 {
        return Err(unfit(format!("found {kind} in another order")));
    }
    Ok((array, address, shape))
}
