use super::subject::{ClusterArgs, RestrictionArgs, SubjectArgs, number, percent};
use crate::output::print;
use crate::table::render;
use anyhow::Result;
use flipcast_run::analysis::{FlipPoint, FlipsJob, correlate};

/// Flips against the silhouette of embeddings and the accuracy.
///
/// For every --data: the silhouette of the unadapted model's embeddings of a probe, the share of the probe's predictions that change
/// in --steps steps of RDumb, and the accuracy of the source model.
///
/// Example: flipcast analyse flips --model m.safetensors --data 'D@fog:1' --data 'D@fog:5' --record flips.jsonl
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    clusters: ClusterArgs,
    #[command(flatten)]
    restriction: RestrictionArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let subject = &args.subject;
    let adapted = subject.adapted("rdumb")?;
    let restriction = args.restriction.choose(&adapted);
    let data = subject.open(&adapted)?;
    let (steps, embedding) = (subject.steps, args.clusters.settings(restriction));
    let job = |subject| FlipsJob { subject, steps, embedding };
    let found = subject.analyse("flips", &adapted, &data, job, |_, _| String::new())?;
    if subject.json {
        return Ok(());
    }
    print(&to_text(&found))
}

fn to_text(found: &[(&str, FlipPoint)]) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(spec, point)| {
            vec![
                (*spec).to_owned(),
                number(point.silhouette, 4),
                percent(Some(point.flips)),
                percent(Some(point.weighted_flips)),
                percent(point.accuracy),
            ]
        })
        .collect();
    let mut text = render(&["data", ">silhouette", ">flips", ">weighted", ">accuracy"], &rows);
    let lines =
        [("silhouette", pairs(found, |point| point.silhouette)), ("accuracy", pairs(found, |point| point.accuracy))];
    for (what, pairs) in lines {
        if let Some(found) = correlate(&pairs) {
            text += &format!(
                "flips and {what}: Pearson {:+.2}, Spearman {:+.2} over {} splits\n",
                found.pearson, found.spearman, found.splits
            );
        }
    }
    text
}

fn pairs(found: &[(&str, FlipPoint)], of: fn(&FlipPoint) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = found.iter();
    points.filter_map(|(_, point)| Some((of(point)?, point.flips))).collect()
}
