//! `flipcast analyse`: what adaptation does to a model, step by step.

use anyhow::Result;
use clap::Subcommand;

mod flips;
mod map;
mod omission;
mod phases;
mod subject;
mod toy;

/// Look at what adaptation does to a model.
///
/// Each analysis prints a table, or JSON with --json, and keeps its result in the record file given with --record; the same
/// command then goes on where it was.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    analysis: Analysis,
}

#[derive(Subcommand)]
enum Analysis {
    /// When adaptation helps and when it begins to hurt, and how embeddings move meanwhile
    Phases(phases::Args),
    /// Adapt without images that were right, or certain, to begin with
    Omission(omission::Args),
    /// Flips against the silhouette of embeddings and the accuracy
    Flips(flips::Args),
    /// A map of the embeddings at several steps of adaptation
    Map(map::Args),
    /// Entropy minimisation as expectation-maximisation on points of a plane
    Toy(toy::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.analysis {
        Analysis::Phases(args) => phases::run(args),
        Analysis::Omission(args) => omission::run(args),
        Analysis::Flips(args) => flips::run(args),
        Analysis::Map(args) => map::run(args),
        Analysis::Toy(args) => toy::run(args),
    }
}
