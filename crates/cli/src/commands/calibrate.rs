//! `flipcast calibrate`: labelled clean images become the artefact that estimates need.

use super::inputs::{DataArgs, ModelArgs};
use super::scoring::{ScoringArgs, check_writable, flip_protocol, parse_marginal};
use super::thread_count;
use crate::failure::Advised;
use crate::output::print;
use crate::table::{Align, counted, render};
use anyhow::{Context, Result};
use flipcast_record::write_atomically;
use flipcast_run::open::LabelRule;
use flipcast_run::{Calibration, CalibrationJob, FlipProtocol, ScoreOptions, Setting, calibrate};
use std::path::PathBuf;

/// Below this many images the errors of the fits are mostly chance.
const FEW_IMAGES: usize = 200;

/// Learn from labelled images how this model's accuracy shows in its outputs.
///
/// --data are clean images with labels. Looks at them and at four corruptions of them in five severities, made in memory, and fits what every
/// estimator needs. The result belongs to these weights, this preprocessing and this protocol.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    images: DataArgs,
    /// Where the artefact is written
    #[arg(long, value_name = "FILE", default_value = "calibration.json")]
    out: PathBuf,
    /// How flips are counted: flipcast, statistics, paper, code, limited-memory or limited-data
    #[arg(long, default_value = "flipcast")]
    protocol: String,
    /// Divide logits by a temperature fitted on the clean images
    #[arg(long)]
    temperature: bool,
    /// The classes' shares that transport assumes: uniform, em, bbse, subset:0,1,... or given:5,1,...
    #[arg(long, default_value = "uniform")]
    marginal: String,
    #[command(flatten)]
    scoring: ScoringArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let threads = thread_count(args.scoring.threads)?;
    let device = args.scoring.device.device(threads)?;
    args.scoring.end_on_interrupt()?;
    // A misspelt name should not wait for the weights.
    FlipProtocol::named(&args.protocol)?;
    check_writable(&args.out)?;
    let model = args.model.open()?;
    let protocol = flip_protocol(&args.protocol, &model, args.scoring.seed)?;
    if args.images.labels == LabelRule::None {
        return Err(Advised {
            problem: "a calibration compares predictions with labels, but `--labels none` ignores them".to_owned(),
            hint: "leave the option out, or match classes by number with `--labels index`".to_owned(),
        }
        .into());
    }
    let data = args.images.request(args.images.only()?, args.scoring.seed).open(&model)?;
    if data.spec.corruption.is_some() {
        return Err(Advised {
            problem: format!("--data is `{}`, with a corruption, but a calibration is made on clean images", data.spec),
            hint: "give the images alone; their corruptions are made while calibrating".to_owned(),
        }
        .into());
    }
    let job = CalibrationJob {
        setting: Setting { model: &model, protocol: &protocol, device },
        clean: args.scoring.request(&data),
        options: ScoreOptions {
            marginal: parse_marginal(&args.marginal, model.num_classes())?,
            temperature: args.temperature,
        },
    };
    let mut ledger = args.scoring.ledger()?;
    let calibration = calibrate(&job, &mut ledger, &mut args.scoring.watcher("calibrate"))
        .with_context(|| format!("cannot calibrate `{}` on `{}`", model.name(), data.spec))?;
    let text = calibration.to_json()?;
    write_atomically(&args.out, text.as_bytes())?;
    print(&summary(&calibration))?;
    if calibration.basis.reference.images < FEW_IMAGES {
        let images = counted(calibration.basis.reference.images, "clean image");
        print(&format!(
            "\nonly {images}: chance decides much of what was learned; {FEW_IMAGES} are few, a thousand a start\n"
        ))?;
    }
    if !model.graph().has_batch_norm() {
        print(
            "\nno batch norm, hence no running statistics: both anchors of flips coincide, and nothing flips before the first step\n",
        )?;
    }
    print(&format!("\nwritten to {}\n", args.out.display()))
}

/// What was learned, for a reader.
fn summary(calibration: &Calibration) -> String {
    let basis = &calibration.basis;
    let mut text = format!(
        "{}: {:.2}% of {} right, confidence {:.2}%, calibration error {:.2} points (temperature {:.3})\n\n",
        calibration.model.name,
        100.0 * basis.reference.accuracy,
        counted(basis.reference.images, "clean image"),
        100.0 * basis.reference.mean_confidence,
        100.0 * basis.reference.ece,
        basis.temperature.value,
    );
    let mut rows = Vec::new();
    let points = |x: f64| format!("{:.2}", 100.0 * x);
    for (name, fit) in &calibration.source.by_score {
        let direct = calibration.source.direct.get(name);
        rows.push(vec![
            name.clone(),
            direct.map_or_else(|| "-".to_owned(), |errors| points(errors.mae())),
            points(fit.errors.mae()),
            points(fit.errors.worst()),
        ]);
    }
    let combined = &calibration.source.combined.errors;
    rows.push(vec!["combined".to_owned(), "-".to_owned(), points(combined.mae()), points(combined.worst())]);
    text += "errors in points of accuracy on corruptions the fit had not seen\n";
    let header = ["estimator", "as it is", "calibrated", "worst"];
    let align = [Align::Left, Align::Right, Align::Right, Align::Right];
    text + &render(&header, &align, &rows)
}
