use super::Shown;
use super::estimates::{groups, headline};
use super::series::{Series, percent};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, MarkShape, Marker, Paint, Panel};
use crate::study::{Entry, Estimates, Which, estimator_label};

/// Most datasets in a chart.
const MOST: usize = 40;
/// Height of a row in pixels.
const ROW: f64 = 34.0;

/// Per model, the first estimator's interval for every dataset.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (model, which, entries) in groups(study) {
        let Some(estimator) = headline(&entries, which) else {
            continue;
        };
        let pages: Vec<_> = entries.chunks(MOST).collect();
        let panels: Vec<Panel> = pages.iter().map(|entries| panel(entries, which, &estimator)).collect();
        let figure = Figure {
            label: format!("Estimates for the {}, dataset by dataset", which.text()),
            columns: panels.len().min(2),
            panels,
        };
        shown.push(Shown::still(format!("{model}, {}", which.text()), figure));
    }
    shown
}

fn panel(entries: &[&Entry<Estimates>], which: Which, estimator: &str) -> Panel {
    let families = Series::of(entries.iter().map(|entry| entry.subject.family.as_str()));
    let mut values = Vec::new();
    for entry in entries {
        values.extend(which.truth(&entry.result));
        if let Some(guess) = which.guesses(&entry.result).get(estimator) {
            values.push(guess.accuracy);
            values.extend(guess.interval.iter().flat_map(|(low, high)| [*low, *high]));
        }
    }
    let label = estimator_label(estimator);
    let mut x = Axis::spanning("accuracy", AxisFormat::Percent, values);
    // Room for the names.
    x.low -= 0.25 * (x.high - x.low);
    let rows = entries.len() as f64;
    let y = Axis { label: String::new(), low: -rows, high: 0.2, format: AxisFormat::Hidden };
    let mut panel = Panel::new(
        &format!("{label}, {}", which.text()),
        &format!("{label} with interval for {} datasets", entries.len()),
        x,
        y,
    );
    panel.width = 620.0;
    panel.height = (90.0 + ROW * rows).max(180.0);
    let mut truths = false;
    for (row, entry) in entries.iter().enumerate() {
        let row = -(row as f64) - 0.65;
        let name = &entry.subject.name;
        let start = panel.x.low + 0.01 * (panel.x.high - panel.x.low);
        panel.marks.push(Mark::label((start, row + 0.32), name));
        if let Some(guess) = which.guesses(&entry.result).get(estimator) {
            let series = families.number(&entry.subject.family);
            let mut title = format!("{name}: estimated {}", percent(guess.accuracy));
            let mut dot = Mark::dot((guess.accuracy, row), series, String::new());
            if let Some((low, high)) = guess.interval {
                title += &format!(" ({} to {})", percent(low), percent(high));
                dot.points.extend([(low, row), (high, row)]);
            }
            dot.title = title;
            panel.marks.push(dot);
        }
        if let Some(truth) = which.truth(&entry.result) {
            truths = true;
            panel.marks.push(Mark {
                points: vec![(truth, row)],
                shape: MarkShape::Dot { marker: Marker::Plus, radius: 4.0, opacity: 1.0, moves: false },
                paint: Paint::Ink,
                title: format!("{name}: true {}", percent(truth)),
            });
        }
    }
    families.name_in(&mut panel);
    if truths {
        panel.legend.push(crate::chart::LegendEntry {
            text: "truth".to_owned(),
            paint: Paint::Ink,
            marker: Some(Marker::Plus),
        });
    }
    panel
}
