//! The `flipcast` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(flipcast_cli::run(std::env::args_os()))
}
