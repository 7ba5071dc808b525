//! The `flipcast` program as a function of its arguments, for the binary and for the Python package: parse arguments, call the library, print.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 a check fired, 2 bad input, 3 environment,
//! 130 and 143 ended by Ctrl-C and by `kill`.
#![forbid(unsafe_code)]
// The macros panic where nobody reads any more; `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod failure;
mod interrupt;
mod output;
mod progress;
mod table;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Tells how accurate an image classifier is on images nobody labelled, and adapts it to them.
#[derive(Parser)]
#[command(name = "flipcast", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Commands without a line here say in their own file what they do.
#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    /// List known architectures and weights, or look into a weight file
    Models(commands::models::Args),
    /// List the published datasets, or look into a folder, archive or array of images
    Data(commands::data::Args),
    Calibrate(commands::calibrate::Args),
    Estimate(commands::estimate::Args),
    Advise(commands::advise::Args),
    Agree(commands::agree::Args),
    /// Write a corrupted copy of a dataset in the layout of ImageNet-C and its relatives
    Corrupt(commands::corrupt::Args),
    /// Adapt a model to images while it predicts them
    Adapt(commands::adapt::Args),
    Serve(commands::serve::Args),
    /// Run a plan of many cells, in parts and resumed at will
    Study(commands::study::Args),
    /// Look at what adaptation does to a model: phases, omission, flips, an embedding map, a toy
    Analyse(commands::analyse::Args),
    Report(commands::report::Args),
    /// Write one figure of a report as SVG or PNG
    Figure(commands::figure::Args),
    /// List, show and compare recorded runs
    Runs(commands::runs::Args),
    /// Time a forward pass and an adaptation step on this machine, or whole cells
    Bench(commands::bench::Args),
    /// Tell what this machine offers and which settings are in force
    Env,
    Completions(commands::completions::Args),
}

/// The same with options that take a negative number as their value and refuse it as such, not as an option of its own.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |arg: clap::Arg| match arg.get_action() {
        clap::ArgAction::Set | clap::ArgAction::Append if !arg.is_positional() => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command.mut_args(takes).mut_subcommands(taking_negative_numbers)
}

/// The same with commands that need no model and no images where logits are given, or come as requests.
fn taking_logits(command: clap::Command) -> clap::Command {
    let without_model = |arg: clap::Arg| if arg.get_id() == "model" { arg.required(false) } else { arg };
    let command = command.mut_subcommand("serve", |serve| serve.mut_args(without_model));
    let spared = |arg: clap::Arg| arg.required(false).required_unless_present("logits");
    let spare = |command: clap::Command| command.mut_arg("model", spared).mut_arg("data", spared);
    command.mut_subcommand("calibrate", spare).mut_subcommand("estimate", spare)
}

/// The same with a word on what goes with what, where there is one.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(tip) = commands::outputs::tip(&error) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Runs the program with `arguments`, the first of which is its name, and gives its exit code. Wrong arguments, `--help` and signals end the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = taking_logits(taking_negative_numbers(Cli::command()));
    let matches = command.try_get_matches_from(arguments).unwrap_or_else(|error| with_tip(error).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Models(args) => commands::models::run(&args),
        Command::Data(args) => commands::data::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Estimate(args) => commands::estimate::run(&args),
        Command::Advise(args) => commands::advise::run(&args),
        Command::Agree(args) => commands::agree::run(&args),
        Command::Corrupt(args) => commands::corrupt::run(&args),
        Command::Adapt(args) => commands::adapt::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Study(args) => commands::study::run(&args),
        Command::Analyse(args) => commands::analyse::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Figure(args) => commands::figure::run(&args),
        Command::Runs(args) => commands::runs::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Env => commands::env::run(),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
    };
    match result {
        Ok(()) => 0,
        Err(error) => failure::report(&error),
    }
}
