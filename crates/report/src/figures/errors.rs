use super::Shown;
use super::estimates::groups;
use super::series::{Series, percent, points};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, MarkShape, Paint, Panel};
use crate::study::{Entry, Estimates, Which, estimator_label, estimators_of, quality_of};

/// Height of a row in pixels.
const ROW: f64 = 34.0;

/// Per model, every estimator's errors in a row of its own, the best on top.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (model, which, entries) in groups(study) {
        let Some(panel) = panel(&entries, which) else {
            continue;
        };
        let figure = Figure {
            label: format!("Errors of every estimator for the {}", which.text()),
            panels: vec![panel],
            columns: 1,
        };
        shown.push(Shown::still(format!("{model}, {}", which.text()), figure));
    }
    shown
}

fn panel(entries: &[&Entry<Estimates>], which: Which) -> Option<Panel> {
    let families = Series::of(entries.iter().map(|entry| entry.subject.family.as_str()));
    let mut ranked: Vec<(f64, f64, String)> = estimators_of(entries.iter().copied(), which)
        .into_iter()
        .filter_map(|name| {
            let quality = quality_of(entries.iter().copied(), which, &name)?;
            Some((quality.mae, quality.bias, name))
        })
        .collect();
    // The names came in a total order, and sorting keeps it among equals.
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    if ranked.is_empty() {
        return None;
    }
    let mut marks = Vec::new();
    let mut errors = vec![0.0];
    for (row, (_, bias, name)) in ranked.iter().enumerate() {
        let row = -(row as f64) - 0.65;
        for entry in entries {
            let guess = which.guesses(&entry.result).get(name);
            let (Some(guess), Some(truth)) = (guess, which.truth(&entry.result)) else {
                continue;
            };
            let error = guess.accuracy - truth;
            errors.push(error);
            let title = format!(
                "{}, {}: {} points, true {}",
                estimator_label(name),
                entry.subject.name,
                points(error),
                percent(truth)
            );
            let series = families.number(&entry.subject.family);
            let mut dot = Mark::dot((error, row), series, title);
            if let MarkShape::Dot { radius, opacity, .. } = &mut dot.shape {
                (*radius, *opacity) = (3.2, 0.6);
            }
            marks.push(dot);
        }
        marks.push(Mark {
            points: vec![(*bias, row - 0.25), (*bias, row + 0.25)],
            shape: MarkShape::Line { width: 2.2, dashed: false },
            paint: Paint::Ink,
            title: format!("{}: {} points on average", estimator_label(name), points(*bias)),
        });
    }
    let mut x = Axis::spanning("estimate minus truth, in points", AxisFormat::Points, errors);
    // Room for the names.
    x.low -= 0.2 * (x.high - x.low);
    let rows = ranked.len() as f64;
    let y = Axis { label: String::new(), low: -rows, high: 0.2, format: AxisFormat::Hidden };
    let mut panel = Panel::new(
        &format!("Errors, {}", which.text()),
        &format!("Errors of {} estimators, best first", ranked.len()),
        x,
        y,
    );
    panel.width = 620.0;
    panel.height = 100.0 + ROW * rows;
    panel.marks.push(Mark::guide(vec![(0.0, -rows), (0.0, 0.2)], "here the estimate is the truth"));
    panel.marks.extend(marks);
    let start = panel.x.low + 0.01 * (panel.x.high - panel.x.low);
    for (row, (mae, _, name)) in ranked.iter().enumerate() {
        let text = format!("{}  {:.1}", estimator_label(name), 100.0 * mae);
        panel.marks.push(Mark::label((start, -(row as f64) - 0.33), &text));
    }
    families.name_in(&mut panel);
    panel.legend.push(crate::chart::LegendEntry { text: "mean".to_owned(), paint: Paint::Ink, marker: None });
    Some(panel)
}
