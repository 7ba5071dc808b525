use super::Shown;
use super::rows::{DotRow, RowDots};
use crate::Study;
use crate::chart::{AxisFormat, Figure};
use crate::study::{estimator_label, estimator_order};
use std::collections::BTreeMap;

/// Shapes of curves, from the stiffest.
const SHAPES: [&str; 4] = ["linear", "quadratic", "cubic", "monotone"];

/// Errors of curves of every shape, a row for each model and score.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut rows = BTreeMap::new();
    for entry in study.refits.iter().filter(|entry| entry.result.draw.is_none()) {
        let refit = &entry.result;
        if let Some(shape) = SHAPES.iter().position(|shape| *shape == refit.curve.name()) {
            let row = (entry.subject.model.as_str(), estimator_order(&refit.estimator));
            rows.entry(row).or_insert([None; SHAPES.len()])[shape] = Some(refit.mae);
        }
    }
    let dots = RowDots {
        title: "Shapes of the curve".to_owned(),
        measure: "mean absolute error".to_owned(),
        format: AxisFormat::Percent,
        series: SHAPES.map(str::to_owned).to_vec(),
        rows: rows
            .into_iter()
            .map(|((model, (.., estimator)), errors)| DotRow {
                name: format!("{model}: {}", estimator_label(estimator)),
                values: errors.to_vec(),
            })
            .collect(),
    };
    let panel = dots.panel(|error| format!("{:.2} points", 100.0 * error));
    let label = "Errors of curves of other shapes".to_owned();
    let figure = panel.map(|panel| Figure { label, panels: vec![panel], columns: 1 });
    figure.into_iter().map(|figure| Shown::still(String::new(), figure)).collect()
}
