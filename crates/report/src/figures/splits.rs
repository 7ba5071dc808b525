use super::Shown;
use super::phases::{
    ACCURACY, Group, Measure, SILHOUETTE, by_model_and_method, capitalised, points, text, worst_and_best,
};
use crate::Study;
use crate::chart::{Axis, Figure, Mark, MarkShape, Paint, Panel, Trim};
use flipcast_record::results::Phases;

/// Charts in a row.
const COLUMNS: usize = 8;

/// Per model and method, a small chart of every run's accuracy; all have the same axes.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    figures(study, &ACCURACY)
}

/// The same of the silhouette.
pub(super) fn build_silhouettes(study: &Study) -> Vec<Shown> {
    figures(study, &SILHOUETTE)
}

fn figures(study: &Study, measure: &Measure) -> Vec<Shown> {
    by_model_and_method(&study.phases).iter().filter_map(|group| figure(group, measure)).collect()
}

fn figure(((model, method), entries): &Group<'_, Phases>, measure: &Measure) -> Option<Shown> {
    let lines: Vec<Vec<(f64, f64)>> = entries.iter().map(|entry| points(&entry.result, measure)).collect();
    let places = || lines.iter().flatten();
    places().next()?;
    let x = Axis::log_steps("step", places().map(|p| p.0));
    let y = Axis::spanning(measure.0, measure.1, places().map(|p| p.1));
    let ends = worst_and_best(entries);
    let mut panels = Vec::new();
    for (number, (entry, line)) in entries.iter().zip(lines).enumerate() {
        let (Some(first), Some(last)) = (line.first(), line.last()) else {
            continue;
        };
        let name = &entry.subject.name;
        let (title, paint) = match ends {
            Some((worst, _)) if worst == number => (format!("worst: {name}"), Paint::Series(1)),
            Some((_, best)) if best == number => (format!("best: {name}"), Paint::Series(2)),
            _ => (name.clone(), Paint::Series(0)),
        };
        let said = format!("{name}: {} from {} to {}", measure.0, text(measure, first.1), text(measure, last.1));
        let mut panel = Panel::new(&title, &said, x.clone(), y.clone());
        (panel.width, panel.height, panel.trim) = (152.0, 118.0, Trim::Small);
        if let Some(end) = entry.result.phase_1_end.map(|end| end as f64) {
            panel
                .marks
                .push(Mark::guide(vec![(end, y.low), (end, y.high)], &format!("{name}: phase 1 ends at step {end}")));
        }
        panel.marks.push(Mark {
            points: line,
            shape: MarkShape::Line { width: 1.4, dashed: false },
            paint,
            title: said,
        });
        panels.push(panel);
    }
    let label = format!(
        "{} against step in {} runs of {model} with {method}, on the same axes",
        capitalised(measure.0),
        panels.len()
    );
    let title = format!("{model}, {method}: {} split by split", measure.0);
    Some(Shown::still(title, Figure { label, panels, columns: COLUMNS }))
}
