//! One file per subcommand.

pub mod bench;
pub mod corrupt;
pub mod data;
pub mod demo;
pub mod env;
pub mod models;
mod profile;
mod threads;

pub use threads::thread_count;
