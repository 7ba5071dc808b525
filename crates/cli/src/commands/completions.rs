use crate::output::print;
use anyhow::{Context, Result};
use clap_complete::{Shell, generate};

/// Print a script that lets a shell complete the arguments of this program.
///
/// Example: flipcast completions bash > ~/.local/share/bash-completion/completions/flipcast
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `program`.
pub fn run(args: &Args, mut program: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut program, "flipcast", &mut script);
    print(&String::from_utf8(script).context("the script is no text")?)
}
