//! `flipcast serve` of a build without the server.

use crate::failure::Environment;
use anyhow::Result;
use std::error::Error;

/// Watch a running classifier (left out of this build).
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Whatever the command takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<String>,
}

/// Says how to get it.
pub fn run(_: &Args) -> Result<()> {
    Err(Environment("this build leaves out the server: build it with the feature `serve`".to_owned()).into())
}

/// There is no error of the server to advise on.
pub fn hint(_: &(dyn Error + 'static)) -> Option<String> {
    None
}
