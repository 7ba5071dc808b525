//! `flipcast agree`: how often do two models agree, and what does that say of their accuracy?

use super::estimate::tell_flags;
use super::inputs::{DataArgs, ModelArgs, OpenedData, open_data, open_model};
use super::scoring::{ScoringArgs, check_level};
use super::thread_count;
use crate::failure::Advised;
use crate::output::print;
use crate::table::{Align, counted, grouped, render};
use anyhow::{Context, Result};
use flipcast_estimate::{Estimate, normal_quantile};
use flipcast_models::Model;
use flipcast_run::{Agreement, Scope, Watcher, Witness, measure_agreement};
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
    let models = [open_model(&args.model)?, open_model(&other)?];
    check_different(&models)?;
    let mut ledger = args.scoring.ledger()?;
    let mut watcher = args.scoring.watcher();
    for (number, spec) in args.images.data.iter().enumerate() {
        watcher.cell(spec, number, args.images.data.len());
        let open = |model: &Model| -> Result<(OpenedData, Scope)> {
            let data = open_data(args.images.request(spec, args.scoring.seed), model)?;
            let scope = Scope::new(model.num_classes(), data.class_space.clone());
            Ok((data, scope))
        };
        let [one, two] = [open(&models[0])?, open(&models[1])?];
        let requests = [args.scoring.request(&one.0, &one.1)?, args.scoring.request(&two.0, &two.1)?];
        let witnesses = [0, 1].map(|at| Witness { model: &models[at], request: &requests[at] });
        let agreement = measure_agreement(witnesses, device, &mut ledger, &mut watcher);
        let agreement = agreement.with_context(|| format!("cannot compare the models on `{spec}`"))?;
        watcher.clear();
        let estimate = estimate(&agreement, args.level);
        if args.json {
            print(&(to_json(spec, &agreement, &estimate, args.level).to_string() + "\n"))?;
        } else {
            print(&to_text(spec, &agreement, &estimate, args.level))?;
        }
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
    let percent = |x: f64| format!("{:.1}%", 100.0 * x);
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
    let interval = format!("{:.0}% interval", 100.0 * level);
    let header = ["estimator", "accuracy", interval.as_str(), "truth of --model", "truth of --other"];
    let align = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right];
    text += &format!("\n\n{}", render(&header, &align, &[row]));
    text + &tell_flags(estimate.flags.iter().copied()) + "\n"
}
