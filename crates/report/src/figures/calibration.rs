use super::Shown;
use super::series::{Series, percent, points};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Paint, Panel};
use crate::stats::mean;
use crate::study::{estimator_label, estimator_order};
use flipcast_estimate::Curve;
use flipcast_record::results::CalibrationResult;

/// Scores with a chart of their own, if they are there.
const SHOWN: [&str; 5] = ["wf", "cot", "wf_batch", "atc_mc", "ac"];

/// Per calibration, curves with the cells they were fitted to, and errors on corruptions left out.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for entry in &study.calibrations {
        let fits = &entry.result.source.by_score;
        let mut names: Vec<&str> = SHOWN.into_iter().filter(|name| fits.contains_key(*name)).collect();
        if names.is_empty() {
            names = fits.keys().map(String::as_str).take(SHOWN.len()).collect();
            names.sort_by_key(|name| estimator_order(name));
        }
        let mut panels: Vec<Panel> = names.iter().filter_map(|name| curve_panel(&entry.result, name)).collect();
        panels.extend(residual_panel(&entry.result, &names));
        if panels.is_empty() {
            continue;
        }
        let figure =
            Figure { label: "Calibration curves and their errors".to_owned(), columns: panels.len().min(3), panels };
        let subject = &entry.subject;
        shown.push(Shown::still(format!("{}, {}", subject.model, subject.name), figure));
    }
    shown
}

fn curve_panel(calibration: &CalibrationResult, name: &str) -> Option<Panel> {
    let fit = calibration.source.by_score.get(name)?;
    let groups = Series::of(calibration.cells.iter().map(|cell| cell.group.as_str()));
    let mut marks = Vec::new();
    for cell in &calibration.cells {
        let (Some(score), Some(truth)) = (cell.cell.source.get(name), cell.cell.accuracy) else {
            continue;
        };
        let title = format!("{}: score {:.4}, true {}", cell.name, score.value, percent(truth));
        marks.push(Mark::dot((score.value, truth), groups.number(&cell.group), title));
    }
    let curve = curve_points(&fit.curve);
    let places = || marks.iter().map(|mark| mark.points[0]).chain(curve.iter().copied());
    let x = Axis::spanning("score", AxisFormat::Plain, places().map(|p| p.0));
    let y = Axis::spanning("true accuracy", AxisFormat::Percent, places().map(|p| p.1));
    let label = estimator_label(name);
    let sizes: Vec<f64> = fit.errors.errors.iter().map(|error| error.abs()).collect();
    let off = mean(&sizes).map_or(String::new(), |mae| format!(": {} points off", points(mae).trim_start_matches('+')));
    let mut panel = Panel::new(
        &format!("{label}{off}"),
        &format!("{label}, true accuracy against score with the fitted curve"),
        x,
        y,
    );
    if curve.len() > 1 {
        let mut line = Mark::line(curve, 0, format!("fitted curve of {label}"));
        line.paint = Paint::Ink;
        panel.marks.push(line);
    }
    panel.marks.extend(marks);
    groups.name_in(&mut panel);
    Some(panel)
}

/// Errors of cells predicted without any severity of their corruption.
fn residual_panel(calibration: &CalibrationResult, names: &[&str]) -> Option<Panel> {
    let mut marks = Vec::new();
    let mut named = Vec::new();
    for (series, name) in names.iter().take(3).enumerate() {
        let fit = calibration.source.by_score.get(*name)?;
        if fit.errors.errors.len() != calibration.cells.len() {
            continue;
        }
        named.push((series, *name));
        for (cell, error) in calibration.cells.iter().zip(&fit.errors.errors) {
            let Some(truth) = cell.cell.accuracy else {
                continue;
            };
            let label = estimator_label(name);
            let title = format!("{label}, {}: {} points", cell.name, points(*error));
            marks.push(Mark::dot((truth, *error), series, title));
        }
    }
    if marks.is_empty() {
        return None;
    }
    let x = Axis::spanning("true accuracy", AxisFormat::Percent, marks.iter().map(|m| m.points[0].0));
    let y = Axis::spanning("error left out, in points", AxisFormat::Points, marks.iter().map(|m| m.points[0].1));
    let mut panel = Panel::new(
        "Errors on corruptions left out of the fit",
        "Leave-one-corruption-out errors against true accuracy",
        x.clone(),
        y,
    );
    panel.marks.push(Mark::guide(vec![(x.low, 0.0), (x.high, 0.0)], "no error"));
    panel.marks.extend(marks);
    for (series, name) in named {
        panel.name_points(series, &estimator_label(name));
    }
    Some(panel)
}

/// A curve over the scores it was fitted to, as points.
fn curve_points(curve: &Curve) -> Vec<(f64, f64)> {
    let [low, high] = curve.range;
    let place = |step: usize| low + (high - low) * step as f64 / 80.0;
    (0..=80).map(place).map(|score| (score, curve.predict(score).value)).collect()
}
