//! The library's errors as Python's exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::error::Error;

create_exception!(
    flipcast,
    FlipcastError,
    PyValueError,
    "What flipcast cannot do, why, and what would help; `hints` has the advice alone."
);

/// `error` with its causes, a line each, and what would help.
pub fn raise(py: Python<'_>, error: &(dyn Error + 'static)) -> PyErr {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!("\n  caused by: {cause}");
        next = cause.source();
    }
    raise_text(py, text, flipcast::hints(error))
}

/// The same for a mistake in arguments that the library never sees.
pub fn refuse(py: Python<'_>, problem: impl Into<String>, hint: &str) -> PyErr {
    raise_text(py, problem.into(), vec![hint.to_owned()])
}

fn raise_text(py: Python<'_>, mut text: String, hints: Vec<String>) -> PyErr {
    for hint in &hints {
        text += &format!("\n  hint: {hint}");
    }
    let error = FlipcastError::new_err(text);
    // An exception that takes no attribute is raised all the same.
    let _ = error.value(py).setattr("hints", hints);
    error
}
