//! Runs kernels on the host, so that their logic is tested where there is no GPU.
//!
//! [`Emulator`] compiles a `.cu` file with the host's compiler under `cuda_shim.hpp` and takes the place of a device's stream, so
//! that the launch wrappers run as they are. [`Place`] takes that of device memory, with guards around it.

mod activation;
mod attention;
mod conv;
mod corrupt;
mod driver;
mod layer_norm;
mod loss;
mod norm;
mod norm_backward;
mod optimizer;
mod panel;
mod place;
mod pointwise;
mod pool;
mod preprocess;
mod tokens;

pub(crate) use driver::Emulator;
pub(crate) use place::{Place, assert_close, normals};
