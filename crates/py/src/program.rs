//! The command-line program inside the package.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the `flipcast` program with these arguments, the first of which is its name, and gives its exit code.
#[pyfunction]
pub fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| flipcast_cli::run(arguments))
}

/// The version of the package and of the library inside it.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
