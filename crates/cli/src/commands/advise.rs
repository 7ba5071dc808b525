//! `flipcast advise`: should this model be adapted to these images, how, and for how long?

use super::estimate::{check_calibration, note_sizing};
use super::files::Files;
use super::inputs::{DataArgs, ModelArgs, PreprocessArgs};
use super::scoring::{ScoringArgs, check_level};
use super::thread_count;
use crate::failure::Advised;
use crate::output::print;
use crate::table::{counted, grouped, percent, render};
use anyhow::{Context, Result};
use clap::ValueEnum;
use flipcast_ground::shell_word;
use flipcast_record::write_atomically;
use flipcast_run::advise::{
    ADVICE_IMAGES, AdviceOptions, AdviceOrder, AdviceResult, Candidate, Phase, TriedCandidate, advise_on,
};
use flipcast_run::{Calibration, Setting, Watcher};
use std::path::{Path, PathBuf};

/// Tell whether to adapt a model to these images, how, and for how long.
///
/// Tries about twenty ways to adapt, all on the first quarter of the images and the best on the rest, and tells without labels what each would gain over the
/// model as it is, with an interval and the risk of losing accuracy. The calibration must have been made with `--advise`. Where the images have labels the truth stands
/// beside it; no advice uses them.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    preprocess: PreprocessArgs,
    /// What `flipcast calibrate --advise` wrote for this model
    #[arg(long, value_name = "FILE")]
    calibration: PathBuf,
    #[command(flatten)]
    images: DataArgs,
    /// Images to try on, at most
    #[arg(long, value_name = "N", default_value_t = ADVICE_IMAGES)]
    trial_images: usize,
    /// The order in which the model will meet the images
    #[arg(long, value_enum, default_value_t = OrderChoice::Shuffled)]
    order: OrderChoice,
    /// Probability with which the intervals are meant to hold the truth
    #[arg(long, default_value_t = 0.9)]
    level: f64,
    /// Write the advice, settings of every candidate included, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object per dataset
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scoring: ScoringArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderChoice {
    /// Shuffled, but a stream as it is stored
    Shuffled,
    /// As stored: class after class in many folders, where the statistics of a batch mislead
    Stored,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let threads = thread_count(args.scoring.threads)?;
    let device = args.scoring.device.device(threads)?;
    args.scoring.end_on_interrupt()?;
    check_level(args.level)?;
    check_calibration(&args.calibration)?;
    if args.out.is_some() {
        args.images.only()?;
    }
    let files = Files::default().reads_model(&args.model).reads_data(&args.images.data);
    let files = files.reads("the calibration", Some(&args.calibration));
    let files = files.writes("--out", "advice.json", args.out.as_deref());
    files.writes("--record", "runs.jsonl", args.scoring.record.as_deref()).check()?;
    let calibration = Calibration::load(&args.calibration)?;
    let Some(fit) = &calibration.advice else {
        return Err(Advised {
            problem: format!("the calibration `{}` knows nothing of adapting", args.calibration.display()),
            hint: "make it with `flipcast calibrate --advise`, which takes cells that are kept from where they are"
                .to_owned(),
        }
        .into());
    };
    let model = args.model.open(&args.preprocess, &args.scoring.progress)?;
    let setting = Setting { model: &model, protocol: &calibration.protocol, device };
    let mut ledger = args.scoring.ledger()?;
    let options = AdviceOptions {
        order: match args.order {
            OrderChoice::Shuffled => AdviceOrder::Shuffled,
            OrderChoice::Stored => AdviceOrder::Stored,
        },
        limit: args.trial_images,
        level: args.level,
    };
    let mut watcher = args.scoring.watcher("advise");
    let datasets = args.images.open_all(&model, &args.scoring)?;
    for (number, (spec, data)) in datasets.iter().enumerate() {
        watcher.cell(spec, number, datasets.len());
        calibration.check_fits(&model, &data.preprocess, &data.scope)?;
        note_sizing(&calibration, &model, (spec, &data.preprocess), |note| args.scoring.progress.note(note));
        let request = args.scoring.request(data);
        let found = advise_on(&setting, (&calibration, fit), &request, options, &mut ledger, &mut watcher)
            .with_context(|| format!("cannot advise on `{spec}`"))?;
        let object = found.to_file(spec, args.level);
        if let Some(out) = &args.out {
            write_atomically(out, (object.to_string() + "\n").as_bytes())?;
        }
        let text = match args.json {
            true => object.to_string() + "\n",
            false => to_text(spec, &found, args)?,
        };
        watcher.print(&text)?;
    }
    drop(watcher);
    if let (Some(out), false) = (&args.out, args.json) {
        print(&format!("\nwritten to {}\n", out.display()))?;
    }
    Ok(())
}

fn to_text(spec: &str, found: &AdviceResult, args: &Args) -> Result<String> {
    let AdviceResult { source, accuracy, advice } = found;
    let mut text = format!("{spec}: tried on {}", counted(advice.images, "image"));
    if let Some(source) = source {
        text += &format!(
            "; the model as it is: about {} ({} to {})",
            percent(source.accuracy),
            percent(source.low),
            percent(source.high)
        );
    }
    if let Some(truth) = accuracy {
        text += &format!(", truth {}", percent(*truth));
    }
    text += "\n\n";
    let interval = format!(">{:.0}% interval", 100.0 * args.level);
    let header =
        ["way to adapt", ">images", ">gain", interval.as_str(), ">risk", ">flips", "along the images", ">truth"];
    let rows: Vec<Vec<String>> = advice.tried.iter().map(row).collect();
    text += &render(&header, &rows);
    text += "\n";
    text += &recommendation(found)?;
    text += &format!("the trials cost as much as {:.1} adaptations to these images\n", advice.adaptations);
    if advice.recommended.is_some() {
        text += &format!("\nto adapt: {}\n", command(spec, args));
    }
    Ok(text)
}

/// What to type to follow the advice.
fn command(spec: &str, args: &Args) -> String {
    let path = |path: &Path| shell_word(&path.display().to_string());
    let mut command = format!("flipcast adapt --method auto --model {}", shell_word(&args.model.model));
    if let Some(weights) = &args.model.weights {
        command += &format!(" --weights {}", path(weights));
    }
    if let Some(out) = &args.out {
        command += &format!(" --advice {}", path(out));
    }
    command += &format!(" --calibration {} --data {}", path(&args.calibration), shell_word(spec));
    command + if args.order == OrderChoice::Stored { " --order stored" } else { "" }
}

fn row(tried: &TriedCandidate) -> Vec<String> {
    let curve: Vec<String> = tried.curve.iter().map(|gain| points(*gain)).collect();
    let phase = match tried.phase {
        Some(phase @ (Phase::Growing | Phase::Falling)) => format!(", {}", phase.name()),
        Some(Phase::Level) | None => String::new(),
    };
    vec![
        tried.candidate.name.clone(),
        grouped(tried.images),
        points(tried.gain),
        format!("{} to {}", points(tried.low), points(tried.high)),
        tried.risk.map_or_else(|| "unknown".to_owned(), percent),
        percent(tried.flips),
        curve.join(" ") + &phase,
        tried.truth.map_or_else(String::new, points),
    ]
}

/// What to do, in a sentence or two.
fn recommendation(found: &AdviceResult) -> Result<String> {
    let advice = &found.advice;
    if advice.recommended.is_none() && advice.tried.iter().any(|tried| tried.risk.is_none()) {
        return Ok("leave the model as it is: the calibration's shifts are too few kinds to tell the risk of losing accuracy; \
                   the 18 that `flipcast calibrate --advise` takes by itself are enough\n"
            .to_owned());
    }
    let Some(chosen) = &advice.recommended else {
        return Ok("leave the model as it is: nothing is expected to gain half a point or more\n".to_owned());
    };
    let Some(best) = advice.tried.iter().find(|tried| tried.candidate == *chosen) else {
        return Ok(String::new());
    };
    let mut text = format!(
        "adapt with {}: {} points expected ({} to {}), {} risk of losing accuracy",
        Candidate::of_advised(chosen)?.describe(),
        points(best.gain),
        points(best.low),
        points(best.high),
        best.risk.map_or_else(|| "unknown".to_owned(), percent),
    );
    if let Some(source) = &found.source {
        text += &format!(", hence about {}", percent((source.accuracy + best.gain).clamp(0.0, 1.0)));
    }
    text += "\n";
    if let Some(images) = advice.stop_after {
        text += &format!(
            "stop, or go back to the source model, after {}: the gain falls from there on\n",
            counted(images, "image")
        );
    }
    Ok(text)
}

/// A gain in points, with its sign.
fn points(gain: f64) -> String {
    format!("{:+.1}", 100.0 * gain)
}
