use super::Shown;
use super::series::percent;
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, LegendEntry, Mark, MarkShape, Marker, Paint, Panel, SERIES};
use flipcast_record::results::Frame;

/// One moving figure per record.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for entry in &study.maps {
        let map = &entry.result;
        let subject = &entry.subject;
        let class = |number: usize| match map.class_names.get(number) {
            Some(name) => name.clone(),
            None => format!("class {number}"),
        };
        let frames: Vec<Plane> = map.frames.iter().map(Plane::of).collect();
        let figures = draw(&frames, &map.labels, &class, &subject.name);
        let captions = map.frames.iter().map(|frame| {
            let accuracy = frame.accuracy.map(|accuracy| format!(", accuracy {}", percent(accuracy)));
            format!("step {}{}", frame.step, accuracy.unwrap_or_default())
        });
        let method = subject.method_name();
        if !figures.is_empty() {
            shown.push(Shown {
                title: format!("{}, {}, {method}", subject.model, subject.name),
                captions: captions.collect(),
                frames: figures
                    .into_iter()
                    .map(|panel| Figure { label: panel.label.clone(), panels: vec![panel], columns: 1 })
                    .collect(),
            });
        }
    }
    shown
}

/// Points and class means of one frame.
pub(super) struct Plane {
    pub points: Vec<[f64; 2]>,
    pub means: Vec<[f64; 2]>,
}

impl Plane {
    fn of(frame: &Frame) -> Self {
        Self { points: frame.points.clone(), means: frame.class_means.clone() }
    }
}

/// One chart per frame, all with the same marks and the same axes. What a frame lacks lies in
/// the middle.
pub(super) fn draw(
    frames: &[Plane],
    labels: &[Option<usize>],
    class: &dyn Fn(usize) -> String,
    title: &str,
) -> Vec<Panel> {
    let Some(first) = frames.first() else {
        return Vec::new();
    };
    let (points, means) = (first.points.len(), first.means.len());
    let all = || {
        let means = |frame: &Plane| frame.means.clone();
        frames.iter().flat_map(move |frame| {
            let points = frame.points.iter().copied();
            points.chain(means(frame)).collect::<Vec<_>>()
        })
    };
    let x = Axis::spanning("", AxisFormat::Hidden, all().map(|p| p[0]));
    let y = Axis::spanning("", AxisFormat::Hidden, all().map(|p| p[1]));
    let origin = [0.5 * (x.low + x.high), 0.5 * (y.low + y.high)];
    // A mark that were left out would shift all that follow.
    let place = |point: Option<&[f64; 2]>| {
        let inside = |[px, py]: &&[f64; 2]| (x.low..=x.high).contains(px) && (y.low..=y.high).contains(py);
        point.filter(inside).copied().unwrap_or(origin)
    };
    // Many points are small.
    let radius = if points > 600 { 2.2 } else { 3.2 };
    let classes = labels.iter().flatten().max().map_or(means, |most| means.max(most.saturating_add(1)));
    let frame = |frame: &Plane| {
        let label = format!("{points} images in the plane, {classes} classes");
        let mut panel = Panel::new(title, &label, x.clone(), y.clone());
        (panel.width, panel.height) = (560.0, 540.0);
        for number in 0..points {
            let [px, py] = place(frame.points.get(number));
            let label = labels.get(number).copied().flatten();
            panel.marks.push(Mark {
                points: vec![(px, py)],
                shape: MarkShape::Dot { marker: Marker::Circle, radius, opacity: 0.7, moves: true },
                paint: label.map_or(Paint::Muted, Paint::Series),
                title: label.map_or_else(|| "no label".to_owned(), class),
            });
        }
        for number in 0..means {
            let [px, py] = place(frame.means.get(number));
            // A ground of ink keeps the star visible among its own class.
            for (radius, paint) in [(9.5, Paint::Ink), (7.0, Paint::Series(number))] {
                panel.marks.push(Mark {
                    points: vec![(px, py)],
                    shape: MarkShape::Dot { marker: Marker::Star, radius, opacity: 1.0, moves: true },
                    paint,
                    title: format!("mean of {}", class(number)),
                });
            }
        }
        if (1..=SERIES).contains(&classes) {
            for number in 0..classes {
                panel.legend.push(LegendEntry {
                    text: class(number),
                    paint: Paint::Series(number),
                    marker: Some(Marker::Circle),
                });
            }
        }
        panel
    };
    frames.iter().map(frame).collect()
}
