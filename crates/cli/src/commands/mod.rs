//! One file per subcommand.

pub mod adapt;
pub mod bench;
pub mod calibrate;
pub mod corrupt;
pub mod data;
pub mod demo;
pub mod env;
pub mod estimate;
pub mod inputs;
pub mod models;
mod profile;
pub mod runs;
mod scoring;
mod threads;

pub use threads::thread_count;
