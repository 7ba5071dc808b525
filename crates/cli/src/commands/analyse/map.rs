use super::subject::{CleanArgs, RestrictionArgs, SubjectArgs, number, percent};
use crate::table::render;
use anyhow::Result;
use flipcast_run::analysis::{Clean, EmbeddingMap, MapJob, TsneConfig};

/// A map of the embeddings at several steps of adaptation.
///
/// Each frame is a t-SNE map that starts from the one before it, so that motion in the picture is motion of the embeddings; the
/// source model's class means on --clean images are drawn along. The record and --json hold the coordinates.
///
/// Example: flipcast analyse map --model m.safetensors --data 'D@gaussian_noise:3' --clean D --steps 1000 --record map.jsonl
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    clean: CleanArgs,
    #[command(flatten)]
    restriction: RestrictionArgs,
    /// Steps of the frames; 0, 1, 2, 5, 10, ... if not given
    #[arg(long, value_name = "STEP,...", value_delimiter = ',')]
    frames: Vec<usize>,
    /// Images that are drawn
    #[arg(long, value_name = "N", default_value_t = 1000)]
    points: usize,
    /// Classes that are drawn, spread over those there are; clusters where labels are unknown
    #[arg(long, value_name = "N", default_value_t = 16)]
    shown_classes: usize,
    /// About how many neighbours a point has
    #[arg(long, value_name = "X", default_value_t = 30.0)]
    perplexity: f64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let subject = &args.subject;
    let adapted = subject.adapted("tent")?;
    let frames = subject.looks("--frames", &args.frames)?;
    let restriction = args.restriction.choose(&adapted);
    let images = args.clean.open(subject, &adapted)?;
    let clean: Option<Clean> = images.as_ref().map(|images| args.clean.means(subject, &adapted, images, restriction));
    let data = subject.open(&adapted)?;
    let seed = subject.scoring.seed;
    let job = |subject| MapJob {
        subject,
        clean: clean.as_ref(),
        frames: frames.clone(),
        points: args.points,
        classes: args.shown_classes,
        restriction,
        tsne: TsneConfig { perplexity: args.perplexity, seed, ..TsneConfig::default() },
    };
    subject.analyse("map", &adapted, &data, job, to_text)?;
    Ok(())
}

fn to_text(spec: &str, map: &EmbeddingMap) -> String {
    let mut before: Option<&[[f64; 2]]> = None;
    let mut rows = Vec::new();
    for frame in &map.frames {
        let moved = before.map(|before| {
            let pairs = before.iter().zip(&frame.points);
            let moved = pairs.map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1]));
            moved.sum::<f64>() / frame.points.len() as f64
        });
        rows.push(vec![frame.step.to_string(), percent(frame.accuracy), number(moved, 2), number(Some(frame.kl), 4)]);
        before = Some(&frame.points);
    }
    let header = [">step", ">accuracy", ">moved", ">divergence"];
    format!("{spec}: {} images of {} classes\n{}\n", map.labels.len(), map.class_names.len(), render(&header, &rows))
}
