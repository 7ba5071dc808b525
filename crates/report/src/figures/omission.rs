use super::Shown;
use super::series::{Series, percent, points};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Paint, Panel};
use crate::study::Entry;
use flipcast_record::results::Omission;
use std::collections::BTreeMap;

/// Most curves in one chart; of more, those in equal distances are drawn.
const MOST_CURVES: usize = 6;

/// Per model, data and method: what is gained against how much is left out, and accuracy over the steps.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Entry<Omission>>> = BTreeMap::new();
    for entry in &study.omissions {
        let subject = &entry.subject;
        let group = (subject.model.as_str(), subject.data.as_str(), subject.method_name());
        groups.entry(group).or_default().push(entry);
    }
    let mut shown = Vec::new();
    for ((model, _, method), mut entries) in groups {
        entries.sort_by(|a, b| a.result.share().total_cmp(&b.result.share()).then(a.subject.rule.cmp(&b.subject.rule)));
        let name = entries[0].subject.name.clone();
        let panels: Vec<Panel> = [gains(&entries), curves(&entries)].into_iter().flatten().collect();
        let figure = Figure { label: format!("Images left out of adapting {model} to {name}"), columns: 2, panels };
        if !figure.panels.is_empty() {
            shown.push(Shown::still(format!("{model}, {name}, {method}"), figure));
        }
    }
    shown
}

fn gains(entries: &[&Entry<Omission>]) -> Option<Panel> {
    let rules = Series::of(entries.iter().map(|entry| entry.subject.rule.as_str()));
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut dots = Vec::new();
    for entry in entries {
        let Some(gain) = entry.result.gain() else {
            continue;
        };
        let at = (entry.result.share(), gain);
        let rule = &entry.subject.rule;
        lines.entry(rule).or_default().push(at);
        let title = format!("{}: {} points", describe(entry), points(gain));
        dots.push(Mark::dot(at, rules.number(rule), title));
    }
    if dots.is_empty() {
        return None;
    }
    let x = Axis::spanning("images left out", AxisFormat::Percent, dots.iter().map(|d| d.points[0].0));
    let y = Axis::spanning("accuracy gained, in points", AxisFormat::Points, dots.iter().map(|d| d.points[0].1));
    let mut panel = Panel::new(
        "What adapting gains without them",
        &format!("Accuracy gained against images left out in {} runs", dots.len()),
        x,
        y,
    );
    for (rule, points) in lines {
        let mut line = Mark::line(points, rules.number(rule), String::new());
        line.shape = crate::chart::MarkShape::Line { width: 1.4, dashed: false };
        panel.marks.push(line);
    }
    panel.marks.extend(dots);
    rules.name_in(&mut panel);
    Some(panel)
}

fn curves(entries: &[&Entry<Omission>]) -> Option<Panel> {
    let step = entries.len().div_ceil(MOST_CURVES).max(1);
    let chosen: Vec<&Entry<Omission>> = entries.iter().copied().step_by(step).collect();
    let mut panel_lines = Vec::new();
    for (series, entry) in chosen.iter().enumerate() {
        let curve = entry.result.curve.iter();
        let points: Vec<(f64, f64)> = curve.filter_map(|p| Some((p.step as f64, p.accuracy?))).collect();
        let Some(last) = points.last() else {
            continue;
        };
        let title = format!("{}: {} at step {}", describe(entry), percent(last.1), last.0);
        panel_lines.push((series, describe(entry), Mark::line(points, series, title)));
    }
    if panel_lines.is_empty() {
        return None;
    }
    let places = || panel_lines.iter().flat_map(|(_, _, line)| line.points.iter().copied());
    let x = Axis::steps("step", places().map(|p| p.0));
    let y = Axis::spanning("accuracy on held-out images", AxisFormat::Percent, places().map(|p| p.1));
    let mut panel = Panel::new("Accuracy while adapting", "Held-out accuracy against step", x, y);
    for (series, name, line) in panel_lines {
        panel.name_line(Paint::Series(series), &name);
        panel.marks.push(line);
    }
    Some(panel)
}

fn describe(entry: &Entry<Omission>) -> String {
    let value = entry.subject.rule_value.map_or(String::new(), |value| format!(" {value}"));
    match entry.result.dropped {
        0 => "nothing left out".to_owned(),
        dropped => format!("{}{value}: {dropped} left out", entry.subject.rule.replace('_', " ")),
    }
}
