use super::subject::{number, percent, to_json};
use crate::commands::scoring::open_ledger;
use crate::output::print;
use crate::table::render;
use anyhow::Result;
use flipcast_run::Unwatched;
use flipcast_run::analysis::{Analysis, Toy, ToyConfig};
use std::path::PathBuf;

/// Entropy minimisation as expectation-maximisation on points of a plane.
///
/// Three panels: points that move with means at the right places, the same with shifted points, and ordinary
/// expectation-maximisation. Needs neither model nor images.
///
/// Example: flipcast analyse toy --rounds 200 --record toy.jsonl
#[derive(clap::Args)]
pub struct Args {
    /// Classes
    #[arg(long, value_name = "N", default_value_t = ToyConfig::default().classes)]
    classes: usize,
    /// Points of a class
    #[arg(long, value_name = "N", default_value_t = ToyConfig::default().points_per_class)]
    points_per_class: usize,
    /// How far the points are turned, as a share of the angle between classes
    #[arg(long, value_name = "X", default_value_t = ToyConfig::default().turn)]
    turn: f64,
    /// What is left of the points' distance to the centre
    #[arg(long, value_name = "X", default_value_t = ToyConfig::default().shrink)]
    shrink: f64,
    /// Step length of the points
    #[arg(long, value_name = "X", default_value_t = ToyConfig::default().rate)]
    rate: f64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = ToyConfig::default().rounds)]
    rounds: usize,
    /// Seed of the points
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep the result in this file (JSON Lines)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let config = ToyConfig {
        classes: args.classes,
        points_per_class: args.points_per_class,
        turn: args.turn,
        shrink: args.shrink,
        rate: args.rate,
        rounds: args.rounds,
        seed: args.seed,
        ..ToyConfig::default()
    };
    let toy = config.recorded(&mut open_ledger(args.record.as_deref())?, &mut Unwatched)?;
    if args.json {
        return print(&to_json("toy", &config.protocol()?.key(), &toy)?);
    }
    print(&to_text(&toy))
}

fn to_text(toy: &Toy) -> String {
    let mut text = String::new();
    for panel in &toy.panels {
        let rows: Vec<Vec<String>> = panel
            .frames
            .iter()
            .map(|frame| vec![frame.round.to_string(), percent(Some(frame.purity)), number(Some(frame.drift), 3)])
            .collect();
        let table = render(&[">round", ">purity", ">drift"], &rows);
        text += &format!("{}\n{table}\n", panel.title);
    }
    text
}
