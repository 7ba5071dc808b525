use super::Shown;
use super::series::{Series, percent};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, LegendEntry, Mark, MarkShape, Marker, Paint, Panel, SERIES};
use crate::stats::median;
use crate::study::Entry;
use flipcast_record::results::{Checkpoint, Phases};
use std::collections::{BTreeMap, BTreeSet};

/// A curve over the steps of a run.
pub(super) type Measure = (&'static str, AxisFormat, fn(&Checkpoint) -> Option<f64>);

pub(super) const ACCURACY: Measure = ("accuracy", AxisFormat::Percent, |c| c.accuracy);
pub(super) const SILHOUETTE: Measure = ("silhouette", AxisFormat::Plain, |c| c.silhouette);

const MEASURES: [Measure; 5] = [
    ACCURACY,
    SILHOUETTE,
    ("shift distance", AxisFormat::Plain, |c| c.shift_distance),
    ("mean entropy, in nats", AxisFormat::Plain, |c| Some(c.entropy)),
    ("predictions flipped", AxisFormat::Percent, |c| Some(c.flips)),
];

/// Entries of one model and method.
pub(super) type Group<'a, R> = ((&'a str, &'a str), Vec<&'a Entry<R>>);

/// Entries by model and method.
pub(super) fn by_model_and_method<R>(entries: &[Entry<R>]) -> Vec<Group<'_, R>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Entry<R>>> = BTreeMap::new();
    for entry in entries {
        groups.entry((&entry.subject.model, entry.subject.method_name())).or_default().push(entry);
    }
    groups.into_iter().collect()
}

/// Per model and method, one chart per measure with a line per dataset.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for ((model, method), entries) in by_model_and_method(&study.phases) {
        let panels: Vec<Panel> = MEASURES.iter().filter_map(|measure| panel(&entries, measure)).collect();
        let figure =
            Figure { label: format!("{model} while it adapts with {method}"), columns: panels.len().min(2), panels };
        if !figure.panels.is_empty() {
            shown.push(Shown::still(format!("{model}, {method}"), figure));
        }
    }
    shown
}

/// The steps and values of a run that are known.
pub(super) fn points(run: &Phases, measure: &Measure) -> Vec<(f64, f64)> {
    let known = |c: &Checkpoint| Some((c.step as f64, measure.2(c)?));
    run.checkpoints.iter().filter_map(known).collect()
}

/// A value of a measure as text.
pub(super) fn text(measure: &Measure, value: f64) -> String {
    match measure.1 {
        AxisFormat::Percent => percent(value),
        _ => format!("{value:.3}"),
    }
}

/// The runs that lose most and gain most accuracy from start to end, by number; none of fewer than two runs.
pub(super) fn worst_and_best(entries: &[&Entry<Phases>]) -> Option<(usize, usize)> {
    let gain = |entry: &&Entry<Phases>| {
        let run = &entry.result;
        Some(run.checkpoints.last()?.accuracy? - run.checkpoints.first()?.accuracy?)
    };
    let mut gains: Vec<(f64, usize)> =
        entries.iter().enumerate().filter_map(|(number, entry)| Some((gain(entry)?, number))).collect();
    gains.sort_by(|a, b| a.0.total_cmp(&b.0));
    match gains.as_slice() {
        [worst, .., best] => Some((worst.1, best.1)),
        _ => None,
    }
}

/// Where phase 1 of a run ends, as a star on its curve.
fn boundary(name: &str, run: &Phases, points: &[(f64, f64)], measure: &Measure) -> Option<Mark> {
    let end = run.phase_1_end? as f64;
    let at = *points.iter().find(|point| point.0 == end)?;
    Some(Mark {
        points: vec![at],
        shape: MarkShape::Dot { marker: Marker::Star, radius: 5.0, opacity: 1.0, moves: false },
        paint: Paint::Ink,
        title: format!("{name}: phase 1 ends at step {}, {} {}", at.0, measure.0, text(measure, at.1)),
    })
}

fn panel(entries: &[&Entry<Phases>], measure: &Measure) -> Option<Panel> {
    let (label, format, _) = *measure;
    let names = Series::of(entries.iter().map(|entry| entry.subject.name.as_str()));
    // Lines of many runs cannot be told apart by colour: two of them are named, and all have a median.
    let many = entries.len() > SERIES;
    let ends = worst_and_best(entries).filter(|_| many);
    let mut lines = Vec::new();
    let mut named = Vec::new();
    let mut stars = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let points = points(&entry.result, measure);
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            continue;
        };
        let name = &entry.subject.name;
        let (role, paint) = match ends {
            Some((worst, _)) if worst == number => ("worst: ", Paint::Series(1)),
            Some((_, best)) if best == number => ("best: ", Paint::Series(0)),
            _ if many => ("", Paint::Muted),
            _ => ("", Paint::Series(names.number(name))),
        };
        let title = format!("{role}{name}: {label} from {} to {}", text(measure, first.1), text(measure, last.1));
        let plain = many && role.is_empty();
        if !plain {
            let star = boundary(name, &entry.result, &points, measure);
            stars.extend(star.map(|star| Mark { paint, ..star }));
        }
        let mut line = Mark::line(points, 0, title);
        line.paint = paint;
        if plain {
            line.shape = MarkShape::Line { width: 0.7, dashed: false };
            lines.push(line);
        } else {
            named.push((line, format!("{role}{name}"), paint));
        }
    }
    let median = if many { median_line(entries, measure) } else { None };
    let drawn = || lines.iter().chain(named.iter().map(|(line, ..)| line));
    let places: Vec<(f64, f64)> = drawn().flat_map(|line| line.points.clone()).collect();
    if places.is_empty() {
        return None;
    }
    let x = Axis::log_steps("step", places.iter().map(|p| p.0));
    let y = Axis::spanning(label, format, places.iter().map(|p| p.1));
    let title = capitalised(label);
    let said = format!("{title} against step for {} runs", drawn().count());
    let mut panel = Panel::new(&title, &said, x, y);
    guide_boundary(&mut panel, entries);
    panel.marks.extend(lines);
    if let Some(line) = median {
        panel.name_line(Paint::Ink, "median");
        panel.marks.push(line);
    }
    let mut listed = BTreeSet::new();
    for (line, name, paint) in named {
        panel.marks.push(line);
        if listed.insert(name.clone()) {
            panel.name_line(paint, &name);
        }
    }
    if !stars.is_empty() {
        panel.legend.push(LegendEntry {
            text: "end of phase 1".to_owned(),
            paint: Paint::Muted,
            marker: Some(Marker::Star),
        });
    }
    panel.marks.extend(stars);
    Some(panel)
}

/// A line where phase 1 of the runs ends; of several runs, at the median.
fn guide_boundary(panel: &mut Panel, entries: &[&Entry<Phases>]) {
    let ends: Vec<f64> = entries.iter().filter_map(|e| Some(e.result.phase_1_end? as f64)).collect();
    let Some(step) = median(&ends) else {
        return;
    };
    let title = match ends.len() {
        1 => format!("phase 1 ends at step {step}"),
        runs => format!("phase 1 ends at step {step}, the median of {runs} runs"),
    };
    let ends = vec![(step, panel.y.low), (step, panel.y.high)];
    panel.marks.push(Mark::guide(ends, &title));
}

/// The median over the runs at every step that most of them have.
fn median_line(entries: &[&Entry<Phases>], measure: &Measure) -> Option<Mark> {
    let mut steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for entry in entries {
        for (step, value) in points(&entry.result, measure) {
            if step >= 0.0 && value.is_finite() {
                steps.entry(step as u64).or_default().push(value);
            }
        }
    }
    let common = steps.iter().filter(|(_, values)| values.len() * 2 > entries.len());
    let line: Vec<(f64, f64)> = common.filter_map(|(step, values)| Some((*step as f64, median(values)?))).collect();
    let (first, last) = (line.first()?.1, line.last()?.1);
    let title = format!(
        "median of {} runs: {} from {} to {}",
        entries.len(),
        measure.0,
        text(measure, first),
        text(measure, last)
    );
    let mut mark = Mark::line(line, 0, title);
    mark.paint = Paint::Ink;
    Some(mark)
}

pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
