use super::{Block, Section};
use crate::Study;
use crate::chart::SERIES;
use crate::figures::{Change, phase_1, phase_2, phase_2_silhouette};
use crate::html::escape;
use crate::study::PAPER_PHASES;
use crate::table::{Table, TableCell};
use flipcast_estimate::{pearson, spearman};
use flipcast_record::results::{Checkpoint, Phases};

/// Adaptation curves and what moves with accuracy.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("phases", "The two phases of adapting");
    if study.phases.is_empty() {
        return section;
    }
    section.say(
        "Phase 1 lasts until the accuracy is at its best, phase 2 from there on. The silhouette tells how well the embeddings form clusters, the \
         shift distance how far they have moved from where they were. Steps are on a logarithmic scale, with the unadapted model, step 0, at the left edge.",
    );
    section.show(study, "phases");
    if study.phases.len() > SERIES {
        section.say("The same run by run, on shared axes. Phase 1 ends at the dashed line; the runs that lose most and gain most are named.");
        section.show(study, "splits");
        section.show(study, "silhouettes");
    }
    let findings = findings(study);
    if !findings.is_empty() {
        let items: String = findings.iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
        section.blocks.push(Block::Html(format!("<ul>{items}</ul>")));
    }
    section.show(study, "correlations");
    section.add_or_fold(table(study), "runs");
    section
}

/// What the runs have in common, in sentences.
fn findings(study: &Study) -> Vec<String> {
    let mut findings = Vec::new();
    let of = |phase: fn(&Phases) -> Option<Change>| -> Vec<(f64, f64)> {
        let changes = study.phases.iter().filter_map(|entry| phase(&entry.result));
        changes.map(|change| (change.measure, change.accuracy)).collect()
    };
    let first = of(phase_1);
    if !first.is_empty() {
        findings.push(format!(
            "In phase 1 the silhouette rises in {} (in the paper in more than {:.0}%, in either phase){}.",
            share(&first),
            100.0 * PAPER_PHASES.rises,
            correlation(&first, "silhouette", PAPER_PHASES.phase_1)
        ));
    }
    let second = of(phase_2);
    if !second.is_empty() {
        findings.push(format!(
            "In phase 2 the silhouette rises in {} and the shift distance grows in {}{}.",
            share(&of(phase_2_silhouette)),
            share(&second),
            correlation(&second, "shift distance", PAPER_PHASES.phase_2)
        ));
    }
    findings
}

/// In how many runs the first of two numbers rises.
fn share(pairs: &[(f64, f64)]) -> String {
    let rises = pairs.iter().filter(|(measure, _)| *measure > 0.0).count();
    format!("{rises} of {} runs", pairs.len())
}

fn correlation(pairs: &[(f64, f64)], measure: &str, paper: f64) -> String {
    match (pearson(pairs), spearman(pairs)) {
        (Some(r), Some(rho)) => format!(
            "; the changes of {measure} and accuracy correlate with Pearson's r = {r:.2} and Spearman's \u{3c1} = {rho:.2} (the paper's: {paper:.2})"
        )
        .replace('-', "\u{2212}"),
        _ => format!("; for a correlation of {measure} and accuracy there are too few"),
    }
}

fn table(study: &Study) -> Table {
    let accuracy = |point: Option<&Checkpoint>| TableCell::percent(point.and_then(|c| c.accuracy), 1);
    let change = |change: Option<Change>| TableCell::number(change.map(|change| change.measure), 3);
    Table::of(
        "phases",
        "Runs: accuracy in percent at the start, at its best and at the end, and what changed in the phases",
        study.phases.iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("dataset", &|(subject, _)| TableCell::text(&subject.name)),
            ("model", &|(subject, _)| TableCell::text(&subject.model)),
            ("method", &|(subject, _)| TableCell::text(subject.method_name())),
            (">start", &|(_, run)| accuracy(run.checkpoints.first())),
            (">best", &|(_, run)| accuracy(run.checkpoints.iter().find(|c| Some(c.step) == run.phase_1_end))),
            (">at step", &|(_, run)| TableCell::number(run.phase_1_end.map(|end| end as f64), 0)),
            (">end", &|(_, run)| accuracy(run.checkpoints.last())),
            (">\u{394} silhouette, phase 1", &|(_, run)| change(phase_1(run))),
            (">\u{394} shift distance, phase 2", &|(_, run)| change(phase_2(run))),
        ],
    )
}
