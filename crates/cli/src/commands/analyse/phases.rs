use super::subject::{CleanArgs, ClusterArgs, RestrictionArgs, SubjectArgs, number, percent};
use crate::output::print;
use crate::table::render;
use anyhow::Result;
use flipcast_run::analysis::{Clean, Correlation, PhaseCorrelations, Phases, PhasesJob, phase_correlations};
use serde_json::json;

/// When adaptation helps and when it begins to hurt.
///
/// Adapts for --steps steps with Tent and looks at the embeddings of the same images again and again: how tight their clusters
/// are (silhouette), and how far they lie from the class means of clean images (shift distance). With labels, phase 1 ends at the
/// highest accuracy. With several --data, prints how the changes in each phase correlate.
///
/// Example: flipcast analyse phases --model m.safetensors --data 'D@gaussian_noise:3' --data 'D@fog:3' --clean D
///          --steps 1000 --record phases.jsonl
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    clean: CleanArgs,
    #[command(flatten)]
    restriction: RestrictionArgs,
    #[command(flatten)]
    clusters: ClusterArgs,
    /// Steps at which the embeddings are looked at; 0, 1, 2, 5, 10, ... if not given
    #[arg(long, value_name = "STEP,...", value_delimiter = ',')]
    checkpoints: Vec<usize>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let subject = &args.subject;
    let adapted = subject.adapted("tent")?;
    let checkpoints = subject.looks("--checkpoints", &args.checkpoints)?;
    let restriction = args.restriction.choose(&adapted);
    let images = args.clean.open(subject, &adapted)?;
    let clean: Option<Clean> = images.as_ref().map(|images| args.clean.means(subject, &adapted, images, restriction));
    let data = subject.open(&adapted)?;
    let job = |subject| PhasesJob {
        subject,
        clean: clean.as_ref(),
        checkpoints: checkpoints.clone(),
        embedding: args.clusters.settings(restriction),
    };
    let found = subject.analyse("phases", &adapted, &data, job, to_text)?;
    if found.len() > 1 {
        let correlations = phase_correlations(found.iter().map(|(_, phases)| phases));
        if subject.json {
            print(&(json!({ "correlations": correlations }).to_string() + "\n"))?;
        } else {
            print(&summary(&found, &correlations))?;
        }
    }
    Ok(())
}

fn to_text(spec: &str, phases: &Phases) -> String {
    let rows: Vec<Vec<String>> = phases
        .checkpoints
        .iter()
        .map(|found| {
            vec![
                found.step.to_string(),
                percent(found.accuracy),
                number(Some(found.entropy), 3),
                percent(Some(found.flips)),
                number(found.silhouette, 4),
                number(found.shift_distance, 3),
            ]
        })
        .collect();
    let header = [">step", ">accuracy", ">entropy", ">flips", ">silhouette", ">shift"];
    let end = match phases.phase_1_end {
        Some(step) => format!("phase 1 ends at step {step}"),
        None => "without labels the end of phase 1 is unknown".to_owned(),
    };
    format!("{spec}: {} images, {} clusters\n{}{end}\n\n", phases.images, phases.clusters, render(&header, &rows))
}

/// The changes of all splits, and how they go together.
fn summary(found: &[(&str, Phases)], correlations: &PhaseCorrelations) -> String {
    let mut rows = Vec::new();
    for (spec, phases) in found {
        let mut row = vec![(*spec).to_owned()];
        for change in phases.changes() {
            let points = change.map(|change| 100.0 * change.accuracy);
            row.push(points.map_or_else(|| "-".to_owned(), |points| format!("{points:+.1}")));
            row.push(number(change.and_then(|change| change.silhouette), 4));
            row.push(number(change.and_then(|change| change.shift_distance), 3));
        }
        rows.push(row);
    }
    let header = ["data", ">1: accuracy", ">silhouette", ">shift", ">2: accuracy", ">silhouette", ">shift"];
    let line = |what: &str, found: &Option<Correlation>| match found {
        None => format!("{what}: too few splits\n"),
        Some(found) => format!(
            "{what}: Pearson {:+.2}, Spearman {:+.2} over {} splits (5% level: {:.2})\n",
            found.pearson, found.spearman, found.splits, found.threshold
        ),
    };
    let [first, second] = correlations.silhouette_rises.map(percent);
    format!(
        "changes in phase 1 and phase 2\n{}\n{}{}silhouette rises in {first} of splits in phase 1, in {second} in phase 2\n",
        render(&header, &rows),
        line("phase 1, silhouette and accuracy", &correlations.silhouette_accuracy),
        line("phase 2, shift and accuracy", &correlations.shift_accuracy),
    )
}
