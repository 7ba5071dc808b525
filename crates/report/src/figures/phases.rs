use super::Shown;
use super::series::{Series, percent};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, MarkShape, Marker, Paint, Panel};
use crate::study::{Checkpoint, Entry, Phases};
use std::collections::BTreeMap;

/// A curve over the steps of a run.
type Measure = (&'static str, AxisFormat, fn(&Checkpoint) -> Option<f64>);

const MEASURES: [Measure; 5] = [
    ("accuracy", AxisFormat::Percent, |c| c.accuracy),
    ("silhouette", AxisFormat::Plain, |c| c.silhouette),
    ("shift distance", AxisFormat::Plain, |c| c.shift_distance),
    ("mean entropy, in nats", AxisFormat::Plain, |c| c.entropy),
    ("predictions flipped", AxisFormat::Percent, |c| c.flips),
];

/// Per model and method, one chart per measure with a line per dataset.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Entry<Phases>>> = BTreeMap::new();
    for entry in &study.phases {
        let method = entry.subject.method.as_deref().unwrap_or("");
        groups
            .entry((&entry.subject.model, method))
            .or_default()
            .push(entry);
    }
    let mut shown = Vec::new();
    for ((model, method), entries) in groups {
        let panels: Vec<Panel> = MEASURES
            .iter()
            .filter_map(|measure| panel(&entries, measure))
            .collect();
        let figure = Figure {
            label: format!("{model} while it adapts with {method}"),
            columns: panels.len().min(2),
            panels,
        };
        if !figure.panels.is_empty() {
            shown.push(Shown::still(format!("{model}, {method}"), figure));
        }
    }
    shown
}

fn panel(entries: &[&Entry<Phases>], (label, format, of): &Measure) -> Option<Panel> {
    let names = Series::of(entries.iter().map(|entry| entry.subject.name.as_str()));
    let mut lines = Vec::new();
    let mut ends = Vec::new();
    for entry in entries {
        let checkpoints = &entry.result.checkpoints;
        let points: Vec<(f64, f64)> = checkpoints
            .iter()
            .filter_map(|checkpoint| Some((checkpoint.step, of(checkpoint)?)))
            .collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            continue;
        };
        let series = names.number(&entry.subject.name);
        let text = |value: f64| match format {
            AxisFormat::Percent => percent(value),
            _ => format!("{value:.3}"),
        };
        let title = format!(
            "{}: {label} from {} to {}",
            entry.subject.name,
            text(first.1),
            text(last.1)
        );
        let end = entry.result.phase_1_end;
        if let Some(place) = end.and_then(|end| points.iter().position(|p| p.0 == end)) {
            let at = points[place];
            ends.push(Mark {
                points: vec![at],
                shape: MarkShape::Dot {
                    marker: Marker::Star,
                    radius: 5.0,
                    opacity: 1.0,
                    moves: false,
                },
                paint: Paint::Series(series),
                title: format!(
                    "{}: phase 1 ends at step {}, {label} {}",
                    entry.subject.name,
                    at.0,
                    text(at.1)
                ),
            });
        }
        lines.push(Mark::line(points, series, title));
    }
    if lines.is_empty() {
        return None;
    }
    let places = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::steps("step", places().map(|p| p.0));
    let y = Axis::spanning(label, *format, places().map(|p| p.1));
    let mut panel = Panel::new(
        &capitalised(label),
        &format!(
            "{} against step for {} runs",
            capitalised(label),
            lines.len()
        ),
        x,
        y.clone(),
    );
    // One run has one boundary; of several, stars tell.
    if let [end] = ends.as_slice() {
        let step = end.points[0].0;
        panel.marks.push(Mark::guide(
            vec![(step, y.low), (step, y.high)],
            &format!("phase 1 ends at step {step}"),
        ));
    }
    let stars = !ends.is_empty();
    panel.marks.extend(lines);
    panel.marks.extend(ends);
    if entries.len() <= crate::chart::SERIES {
        for entry in entries {
            let name = &entry.subject.name;
            panel.name_line(Paint::Series(names.number(name)), name);
        }
    }
    if stars {
        panel.legend.push(crate::chart::LegendEntry {
            text: "end of phase 1".to_owned(),
            paint: Paint::Muted,
            marker: Some(Marker::Star),
        });
    }
    Some(panel)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
