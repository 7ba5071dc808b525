use super::Shown;
use super::series::points;
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Paint, Panel, SERIES};
use flipcast_record::results::{AdviceResult, TriedCandidate};

/// Per set of images, the gains expected of the ways that were tried on all of them, along the images.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let shown = study.advice.iter().filter_map(|entry| {
        let name = format!("{}, {}", entry.subject.model, entry.subject.name);
        let panel = panel(&name, &entry.result)?;
        let label = format!("Gains expected of adapting {name}");
        Some(Shown::still(name, Figure { label, columns: 1, panels: vec![panel] }))
    });
    shown.collect()
}

fn panel(name: &str, found: &AdviceResult) -> Option<Panel> {
    let advice = &found.advice;
    let followed: Vec<&TriedCandidate> = advice.tried.iter().filter(|way| !way.curve.is_empty()).take(SERIES).collect();
    let gains = || followed.iter().flat_map(|way| way.curve.iter().copied());
    gains().next()?;
    let place = |part: usize, parts: usize| (part as f64 + 0.5) * advice.images as f64 / parts as f64;
    let x = Axis { label: "images".to_owned(), low: 0.0, high: advice.images as f64, format: AxisFormat::Plain };
    let y = Axis::spanning("expected gain", AxisFormat::Points, gains().chain([0.0]));
    let mut panel = Panel::new("Expected gain", &format!("Expected gain along the images of {name}"), x, y);
    panel.marks.push(Mark::guide(vec![(0.0, 0.0), (advice.images as f64, 0.0)], "the source model"));
    if let Some(images) = advice.stop_after {
        let at = images as f64;
        let ends = vec![(at, panel.y.low), (at, panel.y.high)];
        panel.marks.push(Mark::guide(ends, &format!("the best gain falls after {images} images")));
    }
    for (series, way) in followed.iter().enumerate() {
        let line = way.curve.iter().enumerate().map(|(part, gain)| (place(part, way.curve.len()), *gain)).collect();
        let phase = way.phase.map_or("", |phase| phase.name());
        let said = format!("{}: {} points over all images, {phase} at the end", way.candidate.name, points(way.gain));
        panel.marks.push(Mark::line(line, series, said));
        panel.name_line(Paint::Series(series), &way.candidate.name);
    }
    Some(panel)
}
