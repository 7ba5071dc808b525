//! Logits stage on an NVIDIA GPU: the same graph, plan and trait as the CPU executor.
//!
//! Takes a graph, frozen weights by name and a precision. Gives logits, tapped values and affine gradients, as
//! `flipcast_exec::Executor`. Guarantees: the driver and every library are loaded at run time, so that a machine without
//! them gets a typed error and never a panic; results do not depend on scheduling, since no sum uses atomics.

mod backward;
mod buffers;
mod choose;
mod compile;
mod cudnn;
mod device;
mod error;
mod executor;
mod forward;
mod gemm;
mod graphs;
mod launch;
mod layers;
mod library;
mod memory;
mod module;
mod network;
mod norms;
mod precision;
mod prepare;
mod profile;
mod sources;
mod step;
mod sys;
mod timer;
mod tokens;

pub use error::CudaError;
pub use executor::StagedBatch;
pub use launch::loss::{DeviceLoss, StepResult};
pub use launch::optimiser::DeviceOptimiser;
pub use library::{CudaReport, DeviceReport, LibraryReport, report};
pub use network::{CudaNetwork, CudaOptions};
pub use precision::{Element, Precision};
pub use step::DeviceStep;
