use anyhow::Result;
use clap::Subcommand;

mod check;
mod list;
mod objects;
mod pass;
mod report;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the published datasets known by name, or everything about one of them
    List(list::Args),
    /// Open and read every image of a dataset, and tell what is there and what is broken
    Check(check::Args),
    /// List the images of an object store once, for the shards of an estimate
    Objects(objects::Args),
}

pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Check(args) => check::run(args),
        Command::Objects(args) => objects::run(args),
    }
}
