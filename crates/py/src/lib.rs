//! Door: the library for Python. Parses arguments, calls the library, hands back arrays and numbers; no number is computed here.
//!
//! Long work runs detached from the interpreter, tells a callback how far it is, and ends at Ctrl-C. `array.rs` and `dlpack.rs` are the only files with `unsafe`: they
//! reach the memory of NumPy and of other libraries.

mod adapter;
mod array;
mod calibration;
mod corrupt;
mod dlpack;
mod error;
mod estimates;
mod images;
mod labels;
mod model;
mod monitor;
mod plain;
mod program;
mod watch;

/// The extension module `flipcast._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::adapter::Adapter;
    #[pymodule_export]
    use crate::calibration::{Calibration, estimate};
    #[pymodule_export]
    use crate::corrupt::{corrupt, corruptions};
    #[pymodule_export]
    use crate::error::FlipcastError;
    #[pymodule_export]
    use crate::estimates::{Estimate, Estimates};
    #[pymodule_export]
    use crate::labels::{LabelledEstimate, choose_images, estimate_with_labels};
    #[pymodule_export]
    use crate::model::{Model, ModelCalibration};
    #[pymodule_export]
    use crate::monitor::Monitor;
    #[pymodule_export]
    use crate::program::{run_program, version};
}
