//! One file per subcommand.

pub mod adapt;
pub mod advise;
pub mod agree;
pub mod analyse;
pub mod bench;
mod bench_cell;
mod bench_cuda;
pub mod calibrate;
pub mod completions;
pub mod corrupt;
pub mod data;
pub mod demo;
mod device;
pub mod env;
pub mod estimate;
pub mod figure;
mod files;
pub mod inputs;
pub mod models;
mod numbers;
pub mod outputs;
mod places;
mod profile;
pub mod report;
pub mod runs;
mod scoring;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(not(feature = "serve"))]
#[path = "serve_left_out.rs"]
pub mod serve;
pub mod study;
mod threads;

pub use device::DeviceArgs;
pub use threads::thread_count;
