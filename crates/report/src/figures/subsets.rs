use super::Shown;
use super::series::Series;
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Paint, Panel};
use crate::study::{Entry, estimator_label, estimator_order};
use flipcast_record::results::SubsetErrors;
use std::collections::BTreeMap;

/// Per score, how the error spreads over all choices of what a curve is fitted to, a line for each model.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut scores: BTreeMap<(usize, bool, &str), Vec<&Entry<SubsetErrors>>> = BTreeMap::new();
    for entry in &study.subsets {
        scores.entry(estimator_order(&entry.result.estimator)).or_default().push(entry);
    }
    let panels: Vec<Panel> =
        scores.into_iter().filter_map(|((.., estimator), entries)| panel(estimator, &entries)).collect();
    if panels.is_empty() {
        return Vec::new();
    }
    let label = "Errors over all choices of what a curve is fitted to".to_owned();
    vec![Shown::still(String::new(), Figure { label, columns: panels.len().min(2), panels })]
}

fn panel(estimator: &str, entries: &[&Entry<SubsetErrors>]) -> Option<Panel> {
    let models = Series::of(entries.iter().map(|entry| entry.subject.model.as_str()));
    let values = || entries.iter().flat_map(|entry| entry.result.percentiles.iter().copied());
    values().next()?;
    let x = Axis::spanning("mean absolute error", AxisFormat::Percent, values());
    let y = Axis {
        label: "choices with at most this error".to_owned(),
        low: -0.02,
        high: 1.02,
        format: AxisFormat::Percent,
    };
    let title = estimator_label(estimator);
    let mut panel = Panel::new(&title, &format!("Errors of {title} over all choices"), x, y);
    for entry in entries {
        let (model, errors) = (&entry.subject.model, &entry.result);
        let steps = errors.percentiles.len().saturating_sub(1).max(1) as f64;
        let points = errors.percentiles.iter().enumerate().map(|(step, error)| (*error, step as f64 / steps));
        let ends = |value: Option<&f64>| format!("{:.2}", 100.0 * value.copied().unwrap_or_default());
        let said = format!(
            "{model}: {} to {} points over {} choices of {}",
            ends(errors.percentiles.first()),
            ends(errors.percentiles.last()),
            errors.subsets,
            errors.fitted_to
        );
        let series = models.number(model);
        panel.marks.push(Mark::line(points.collect(), series, said));
        if let Some(median) = errors.percentiles.get(errors.percentiles.len() / 2) {
            let said = format!("{model}: half of the choices have at most {:.2} points", 100.0 * median);
            panel.marks.push(Mark::dot((*median, 0.5), series, said));
        }
        panel.name_line(Paint::Series(series), model);
    }
    Some(panel)
}
