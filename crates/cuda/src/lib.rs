//! Logits stage on an NVIDIA GPU: the same graph, plan and trait as the CPU executor.
//!
//! Takes a graph, frozen weights by name and a precision. Gives logits, tapped values and affine gradients, as
//! `flipcast_executor::Executor`. Guarantees: the driver and every library are loaded at run time, so that a machine without
//! them gets a typed error and never a panic; results do not depend on scheduling, since no sum uses atomics.

mod backward;
mod batches;
mod buffers;
mod choices;
mod choose;
mod compile;
mod cudnn;
mod derive;
mod device;
mod error;
mod executor;
mod foreign;
mod forward;
mod fused;
mod gate;
mod gemm;
mod graphs;
mod launch;
mod layers;
mod library;
mod memory;
mod module;
mod network;
mod norms;
mod panels;
mod precision;
mod prepare;
mod profile;
mod resident;
mod sources;
mod step;
mod sys;
mod timer;
mod tokens;

pub use batches::StagedBatch;
pub use error::CudaError;
pub use foreign::{ForeignImages, ForeignLayout};
pub use library::{CudaReport, DeviceReport, LibraryReport, report};
pub use network::{CudaNetwork, CudaOptions};
pub use precision::{Element, Precision};
pub use resident::release_image_sets;
