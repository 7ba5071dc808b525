use super::Shown;
use super::series::{Series, percent, points};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Panel};
use crate::study::{Entry, Estimates, Which, estimator_label, estimators_of, quality_of};
use std::collections::BTreeMap;

/// Estimators with a chart of their own, if they are there.
const SHOWN: [&str; 6] = ["combined", "wf", "cot", "atc_mc", "doc", "ac"];

/// Estimates of one model for one of the two numbers.
pub(crate) type Group<'a> = (String, Which, Vec<&'a Entry<Estimates>>);

/// Estimates by model and by what is estimated.
pub(crate) fn groups(study: &Study) -> Vec<Group<'_>> {
    let mut models: BTreeMap<&str, Vec<&Entry<Estimates>>> = BTreeMap::new();
    for entry in &study.estimates {
        models.entry(&entry.subject.model).or_default().push(entry);
    }
    let mut groups = Vec::new();
    for which in [Which::Source, Which::Adapted] {
        for (model, entries) in &models {
            let with = |entry: &&Entry<Estimates>| !which.guesses(&entry.result).is_empty();
            let entries: Vec<_> = entries.iter().copied().filter(with).collect();
            if !entries.is_empty() {
                groups.push(((*model).to_owned(), which, entries));
            }
        }
    }
    groups
}

/// The estimator a reader sees first: the combined one, whatever the truth turned out to be; else the best where truth
/// is known; else the first.
pub(crate) fn headline(entries: &[&Entry<Estimates>], which: Which) -> Option<String> {
    let names = estimators_of(entries.iter().copied(), which);
    if names.iter().any(|name| name == "combined") {
        return Some("combined".to_owned());
    }
    let mut best: Option<(f64, &String)> = None;
    for name in &names {
        let quality = quality_of(entries.iter().copied(), which, name);
        if let Some(quality) = quality
            && best.is_none_or(|(least, _)| quality.mae < least)
        {
            best = Some((quality.mae, name));
        }
    }
    best.map(|(_, name)| name).or(names.first()).cloned()
}

/// Per model, one chart for each of the main estimators.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (model, which, entries) in groups(study) {
        let known = |entry: &&&Entry<Estimates>| which.truth(&entry.result).is_some();
        let entries: Vec<_> = entries.iter().filter(known).copied().collect();
        let names = estimators_of(entries.iter().copied(), which);
        let Some(first) = headline(&entries, which) else {
            continue;
        };
        let others = SHOWN.iter().map(|name| (*name).to_owned());
        let others = others.filter(|name| *name != first && names.contains(name));
        let panels: Vec<Panel> =
            std::iter::once(first.clone()).chain(others).take(6).map(|name| panel(&entries, which, &name)).collect();
        let columns = panels.len().min(3);
        let figure =
            Figure { label: format!("Estimated against true accuracy of the {}", which.text()), panels, columns };
        shown.push(Shown::still(format!("{model}, {}", which.text()), figure));
    }
    shown
}

fn panel(entries: &[&Entry<Estimates>], which: Which, estimator: &str) -> Panel {
    let families = Series::of(entries.iter().map(|entry| entry.subject.family.as_str()));
    let mut marks = Vec::new();
    let mut values = Vec::new();
    for entry in entries {
        let guess = which.guesses(&entry.result).get(estimator);
        let (Some(guess), Some(truth)) = (guess, which.truth(&entry.result)) else {
            continue;
        };
        let mut title =
            format!("{}: true {}, estimated {}", entry.subject.name, percent(truth), percent(guess.accuracy));
        let series = families.number(&entry.subject.family);
        values.extend([truth, guess.accuracy]);
        if let Some((low, high)) = guess.interval {
            title += &format!(" ({} to {})", percent(low), percent(high));
        }
        let dot = Mark::dot((truth, guess.accuracy), series, title);
        marks.push(match guess.interval {
            Some((low, high)) => dot.with_interval(low, high),
            None => dot,
        });
    }
    let axis = |label: &str| Axis::spanning(label, AxisFormat::Percent, values.iter().copied());
    let (x, y) = (axis("true accuracy"), axis("estimate"));
    // Wide intervals end at the frame, so that they do not press the points together.
    for mark in &mut marks {
        for point in mark.points.iter_mut().skip(1) {
            point.1 = point.1.clamp(y.low, y.high);
        }
    }
    let label = estimator_label(estimator);
    let quality = quality_of(entries.iter().copied(), which, estimator);
    let off = quality
        .map_or(String::new(), |quality| format!(": {} points off", points(quality.mae).trim_start_matches('+')));
    let mut panel = Panel::new(
        &format!("{label}{off}"),
        &format!("{label}, estimate against truth for {} datasets", marks.len()),
        x.clone(),
        y,
    );
    panel.height = 420.0;
    panel.marks.push(Mark::guide(vec![(x.low, x.low), (x.high, x.high)], "on this line the estimate is the truth"));
    panel.marks.extend(marks);
    families.name_in(&mut panel);
    panel
}
