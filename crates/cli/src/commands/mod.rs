//! One file per subcommand.

pub mod bench;
pub mod demo;
pub mod env;
pub mod models;
mod profile;
