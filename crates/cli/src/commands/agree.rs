//! `flipcast agree`: how often do two models agree, and what does that say of their accuracy?

use super::estimate::tell_flags;
use super::inputs::{DataArgs, ModelArgs, PreprocessArgs};
use super::scoring::{ScoringArgs, check_level};
use super::thread_count;
use crate::failure::Advised;
use crate::table::{counted, grouped, percent, render};
use anyhow::{Context, Result};
use flipcast_estimate::{Estimate, normal_quantile};
use flipcast_models::Model;
use flipcast_run::{Agreement, Watcher, Witness, measure_agreement};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Estimate the accuracy of two models by how often they agree on images without labels.
///
/// Two models that were trained alike but for the seed agree about as often as one of them is right (GDE, Jiang et al. 2022). Needs
/// neither labels nor a calibration. The interval covers the chance in which images were drawn; whether the models are alike
/// enough it cannot know.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    /// The other model: a weight file; or, with --other-weights, a name
    #[arg(long, value_name = "MODEL")]
    other: String,
    /// The weight file of the other model, where --other is a name
    #[arg(long, value_name = "FILE")]
    other_weights: Option<PathBuf>,
    #[command(flatten)]
    images: DataArgs,
    /// Probability with which the interval is meant to hold the truth
    #[arg(long, default_value_t = 0.9)]
    level: f64,
    /// Print one JSON object per dataset
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scoring: ScoringArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let threads = thread_count(args.scoring.threads)?;
    let device = args.scoring.device.device(threads)?;
    args.scoring.end_on_interrupt()?;
    check_level(args.level)?;
    let other =
        ModelArgs { model: args.other.clone(), weights: args.other_weights.clone(), classes: args.model.classes };
    let progress = &args.scoring.progress;
    let models = [args.model.open(&args.preprocess, progress)?, other.open(&PreprocessArgs::default(), progress)?];
    check_different(&models)?;
    let mut ledger = args.scoring.ledger()?;
    let [one, two] = models.each_ref().map(|model| args.images.open_all(model, &args.scoring));
    let (one, two) = (one?, two?);
    let mut watcher = args.scoring.watcher("agree");
    for (number, ((spec, one), (_, two))) in one.iter().zip(&two).enumerate() {
        watcher.cell(spec, number, args.images.data.len());
        let requests = [args.scoring.request(one), args.scoring.request(two)];
        let witnesses = [0, 1].map(|at| Witness { model: &models[at], request: &requests[at] });
        let agreement = measure_agreement(witnesses, device, &mut ledger, &mut watcher);
        let agreement = agreement.with_context(|| format!("cannot compare the models on `{spec}`"))?;
        let estimate = estimate(&agreement, args.level);
        let text = if args.json {
            to_json(spec, &agreement, &estimate, args.level).to_string() + "\n"
        } else {
            to_text(spec, &agreement, &estimate, args.level)
        };
        watcher.print(&text)?;
    }
    Ok(())
}

/// Refuses a model beside itself, which it always agrees with.
fn check_different(models: &[Model; 2]) -> Result<()> {
    let [one, two] = models.each_ref().map(Model::weights_sha256);
    if one.is_none() || one != two {
        return Ok(());
    }
    Err(Advised {
        problem: "both models have the same weights, so they agree on every image".to_owned(),
        hint: "give a model that was trained in the same way with another seed".to_owned(),
    }
    .into())
}

fn estimate(agreement: &Agreement, level: f64) -> Estimate {
    let half_width = match agreement.gde.standard_error {
        Some(error) => normal_quantile(level) * error,
        None => 1.0,
    };
    Estimate::around(agreement.gde.value, half_width, agreement.flags.clone())
}

fn to_json(spec: &str, agreement: &Agreement, estimate: &Estimate, level: f64) -> Value {
    json!({
        "data": spec,
        "images": agreement.images,
        "skipped": agreement.skipped,
        "level": level,
        "estimates": {"gde": estimate},
        "truth": agreement.accuracies,
        "seconds": agreement.seconds,
    })
}

fn to_text(spec: &str, agreement: &Agreement, estimate: &Estimate, level: f64) -> String {
    let mut text = format!("{spec}: {}", counted(agreement.images, "image"));
    if agreement.skipped > 0 {
        text += &format!(", {} unreadable", grouped(agreement.skipped));
    }
    let truth = |at: usize| agreement.accuracies[at].map_or_else(|| "unknown".to_owned(), percent);
    let row = vec![
        "gde".to_owned(),
        percent(estimate.accuracy),
        format!("{} to {}", percent(estimate.low), percent(estimate.high)),
        truth(0),
        truth(1),
    ];
    let interval = format!(">{:.0}% interval", 100.0 * level);
    let header = ["estimator", ">accuracy", interval.as_str(), ">truth of --model", ">truth of --other"];
    text += &format!("\n\n{}", render(&header, &[row]));
    text + &tell_flags(estimate.flags.iter().copied()) + "\n"
}
