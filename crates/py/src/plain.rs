//! Values as Python's own dictionaries, lists and numbers.

use crate::error::raise;
use pyo3::prelude::*;

/// `value` as Python reads it from JSON.
pub fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| raise(py, &error))?;
    py.import("json")?.call_method1("loads", (text,))
}
