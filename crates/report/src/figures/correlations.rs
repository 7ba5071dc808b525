use super::Shown;
use super::series::{Series, points};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Panel};
use crate::study::{Entry, PAPER_PHASES};
use flipcast_estimate::{pearson, spearman};
use flipcast_record::results::{PhaseChange, Phases};
use std::collections::BTreeMap;

/// How two measures changed over a phase of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Of the silhouette or the shift distance.
    pub measure: f64,
    /// Of the accuracy.
    pub accuracy: f64,
}

/// Silhouette and accuracy from the start of a run to its best checkpoint.
pub(crate) fn phase_1(run: &Phases) -> Option<Change> {
    change(run.changes()[0], |phase| phase.silhouette)
}

/// Silhouette and accuracy from the best checkpoint of a run to its last.
pub(crate) fn phase_2_silhouette(run: &Phases) -> Option<Change> {
    change(run.changes()[1], |phase| phase.silhouette)
}

/// Shift distance and accuracy from the best checkpoint of a run to its last.
pub(crate) fn phase_2(run: &Phases) -> Option<Change> {
    change(run.changes()[1], |phase| phase.shift_distance)
}

fn change(phase: Option<PhaseChange>, measure: fn(&PhaseChange) -> Option<f64>) -> Option<Change> {
    let phase = phase?;
    Some(Change { measure: measure(&phase)?, accuracy: phase.accuracy })
}

/// A phase's title, what is compared with accuracy, how both changed, and the paper's correlation.
struct Phase {
    title: &'static str,
    measure: &'static str,
    of: fn(&Phases) -> Option<Change>,
    paper: f64,
}

/// Per network, one chart per phase, one point per run.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let phases: [Phase; 2] = [
        Phase { title: "Phase 1", measure: "change of silhouette", of: phase_1, paper: PAPER_PHASES.phase_1 },
        Phase { title: "Phase 2", measure: "change of shift distance", of: phase_2, paper: PAPER_PHASES.phase_2 },
    ];
    let mut networks: BTreeMap<&str, Vec<&Entry<Phases>>> = BTreeMap::new();
    for entry in &study.phases {
        networks.entry(&entry.subject.network).or_default().push(entry);
    }
    let several = networks.len() > 1;
    let mut shown = Vec::new();
    for (network, entries) in networks {
        let panels: Vec<Panel> = phases.iter().filter_map(|phase| panel(&entries, phase)).collect();
        if panels.is_empty() {
            continue;
        }
        let figure =
            Figure { label: "Changes of clusters and of accuracy in the two phases".to_owned(), columns: 2, panels };
        let title = if several { network.to_owned() } else { String::new() };
        shown.push(Shown::still(title, figure));
    }
    shown
}

fn panel(entries: &[&Entry<Phases>], phase: &Phase) -> Option<Panel> {
    let Phase { title, measure, of, paper } = *phase;
    let families = Series::of(entries.iter().map(|entry| entry.subject.family.as_str()));
    let mut marks = Vec::new();
    for entry in entries {
        let Some(change) = of(&entry.result) else {
            continue;
        };
        let subject = &entry.subject;
        let title = format!(
            "{}, {}: {measure} {:+.3}, accuracy {} points",
            subject.name,
            subject.method.as_deref().unwrap_or(&subject.model),
            change.measure,
            points(change.accuracy)
        );
        let series = families.number(&subject.family);
        marks.push(Mark::dot((change.measure, change.accuracy), series, title));
    }
    if marks.is_empty() {
        return None;
    }
    let pairs: Vec<(f64, f64)> = marks.iter().map(|mark| mark.points[0]).collect();
    let rho = match (pearson(&pairs), spearman(&pairs)) {
        (Some(r), Some(rho)) => format!(": r = {r:.2}, \u{3c1} = {rho:.2} (paper {paper:.2})").replace('-', "\u{2212}"),
        _ => String::new(),
    };
    let x = Axis::spanning(measure, AxisFormat::Plain, pairs.iter().map(|p| p.0).chain([0.0]));
    let y = Axis::spanning("change of accuracy, in points", AxisFormat::Points, pairs.iter().map(|p| p.1).chain([0.0]));
    let mut panel = Panel::new(
        &format!("{title}{rho}"),
        &format!("{title}: accuracy against {measure} over {} runs", pairs.len()),
        x.clone(),
        y.clone(),
    );
    panel.marks.push(Mark::guide(vec![(x.low, 0.0), (x.high, 0.0)], ""));
    panel.marks.push(Mark::guide(vec![(0.0, y.low), (0.0, y.high)], ""));
    panel.marks.extend(marks);
    families.name_in(&mut panel);
    Some(panel)
}
