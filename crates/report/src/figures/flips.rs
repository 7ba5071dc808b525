use super::Shown;
use super::phases::by_model_and_method;
use super::series::{Series, percent};
use crate::Study;
use crate::chart::{Axis, AxisFormat, Figure, Mark, Panel};
use crate::study::Entry;
use flipcast_estimate::{pearson, spearman};
use flipcast_record::results::FlipPoint;

/// A number of a record and how its axis reads.
type Measure = (&'static str, AxisFormat, fn(&FlipPoint) -> Option<f64>);

const FLIPS: Measure = ("predictions flipped", AxisFormat::Percent, |f| Some(f.flips));
const SILHOUETTE: Measure = ("silhouette before adapting", AxisFormat::Plain, |f| f.silhouette);
const ACCURACY: Measure = ("accuracy", AxisFormat::Percent, |f| f.accuracy);

/// Per model and method: flips, silhouette and accuracy in pairs, one point per dataset.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let groups = by_model_and_method(&study.flips);
    let several = groups.len() > 1;
    let mut shown = Vec::new();
    for ((model, method), entries) in groups {
        let pairs = [
            ("Silhouette and flips", SILHOUETTE, FLIPS),
            ("Flips and accuracy", FLIPS, ACCURACY),
            ("Silhouette and accuracy", SILHOUETTE, ACCURACY),
        ];
        let panels: Vec<Panel> = pairs.into_iter().filter_map(|(title, x, y)| panel(&entries, title, x, y)).collect();
        if panels.is_empty() {
            continue;
        }
        let figure =
            Figure { label: "Flips, silhouette and accuracy".to_owned(), columns: panels.len().min(3), panels };
        let name = if several { format!("{model}, {method}") } else { String::new() };
        shown.push(Shown::still(name, figure));
    }
    shown
}

fn panel(entries: &[&Entry<FlipPoint>], title: &str, x: Measure, y: Measure) -> Option<Panel> {
    let families = Series::of(entries.iter().map(|entry| entry.subject.family.as_str()));
    let text = |(label, format, _): &Measure, value: f64| match format {
        AxisFormat::Percent => format!("{label} {}", percent(value)),
        _ => format!("{label} {value:.3}"),
    };
    let mut marks = Vec::new();
    for entry in entries {
        let (Some(a), Some(b)) = (x.2(&entry.result), y.2(&entry.result)) else {
            continue;
        };
        let title = format!("{}: {}, {}", entry.subject.name, text(&x, a), text(&y, b));
        marks.push(Mark::dot((a, b), families.number(&entry.subject.family), title));
    }
    if marks.is_empty() {
        return None;
    }
    let pairs: Vec<(f64, f64)> = marks.iter().map(|mark| mark.points[0]).collect();
    let rho = match (pearson(&pairs), spearman(&pairs)) {
        (Some(r), Some(rho)) => format!(": r = {r:.2}, \u{3c1} = {rho:.2}").replace('-', "\u{2212}"),
        _ => String::new(),
    };
    let mut panel = Panel::new(
        &format!("{title}{rho}"),
        &format!("{title} of {} datasets", pairs.len()),
        Axis::spanning(x.0, x.1, pairs.iter().map(|p| p.0)),
        Axis::spanning(y.0, y.1, pairs.iter().map(|p| p.1)),
    );
    panel.marks = marks;
    families.name_in(&mut panel);
    Some(panel)
}
