//! `flipcast estimate merge`: the parts of all shards become the estimate of the whole.

use super::{Shown, check_calibration, tables};
use crate::commands::scoring::{check_level, parse_marginal};
use crate::output::print;
use crate::table::{counted, grouped, percent};
use anyhow::{Context, Result};
use flipcast_run::{Calibration, Merged, Part, merge_parts};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Estimators that need every image's embedding, which parts do not hold.
const LEFT_OUT: [&str; 2] = ["aetta", "dispersion"];

/// Join the parts of all shards to the estimate of the whole.
///
/// Says which numbers are exact over all images and which come from the sample of them that the parts hold; intervals count the
/// sample's size. Refuses parts of different models, calibrations, images or settings, and shards that are missing or there twice.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What `flipcast estimate --shard` wrote, one file for each shard
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// The calibration the parts were made with
    #[arg(long, value_name = "FILE")]
    calibration: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    check_level(args.shown.level)?;
    check_calibration(&args.calibration)?;
    let calibration = Calibration::load(&args.calibration)?;
    let classes = calibration.basis.reference.classes;
    let marginal = args.shown.marginal.as_deref().map(|text| parse_marginal(text, classes)).transpose()?;
    let load = |path: &PathBuf| Ok((path.display().to_string(), Part::load(path)?));
    let parts: Vec<(String, Part)> = args.parts.iter().map(load).collect::<Result<_>>()?;
    let merged = merge_parts(&parts, &calibration, marginal.as_ref(), args.shown.level)
        .with_context(|| format!("cannot join {}", counted(parts.len(), "part")))?;
    print(&match args.shown.json {
        true => to_json(&merged, args.shown.level).to_string() + "\n",
        false => to_text(&merged, &args.shown),
    })
}

fn to_json(merged: &Merged, level: f64) -> Value {
    let Merged { cell, estimates, sums, .. } = merged;
    json!({
        "data": merged.data,
        "shards": merged.shards,
        "images": sums.images,
        "skipped": merged.skipped,
        "level": level,
        "exact": {
            "accuracy": sums.accuracy(),
            "mean_confidence": sums.mean_confidence(),
            "mean_entropy": sums.mean_entropy(),
            "answers": sums.answers,
        },
        "sample": {
            "images": merged.sample,
            "is_complete": merged.is_complete(),
            "looked_twice": merged.looked_twice,
            "probe_images": cell.probe_images,
            "left_out": LEFT_OUT,
        },
        "estimates": estimates.source,
        "truth": sums.accuracy(),
        "explanation": estimates.explanation,
        "adapted": {
            "estimates": estimates.adapted,
            "truth": cell.adapted_accuracy,
            "images": cell.probe_images,
        },
        "adaptation": cell.adaptation,
        "seconds": cell.seconds,
    })
}

fn to_text(merged: &Merged, shown: &Shown) -> String {
    let sums = &merged.sums;
    let images = sums.images as usize;
    let mut text = format!("{}: {} in {}", merged.data, counted(images, "image"), counted(merged.shards, "shard"));
    if merged.skipped > 0 {
        text += &format!(", {} unreadable", grouped(merged.skipped as usize));
    }
    let truth = sums.accuracy().map_or_else(String::new, |accuracy| format!("accuracy {}, ", percent(accuracy)));
    text += &format!(
        "\n  exact, over all images: {truth}mean confidence {}, mean entropy {:.3}\n",
        percent(sums.mean_confidence()),
        sums.mean_entropy()
    );
    text += &match merged.is_complete() {
        true => "  estimates: from the outputs of all images".to_owned(),
        false => format!(
            "  estimates: from a random sample of {} of them, whose size the intervals count",
            grouped(merged.sample)
        ),
    };
    text += &format!("; second look at {}", grouped(merged.looked_twice));
    if merged.cell.probe_images > 0 {
        text += &format!("; flips of {} of the first shard", grouped(merged.cell.probe_images));
    }
    text + &format!("\n  not joined: {}\n", LEFT_OUT.join(", "))
        + &tables(&merged.cell, &merged.estimates, shown)
        + "\n"
}
