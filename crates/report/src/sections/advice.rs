use super::Section;
use crate::Study;
use crate::table::{Table, TableCell};
use flipcast_record::results::{AdviceResult, TriedCandidate};

/// Whether to adapt, and how.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("advice", "Should the model be adapted?");
    if study.advice.is_empty() {
        return section;
    }
    section.say(
        "Ways to adapt were tried on the images, and their gains over the source model estimated without labels: all on the first quarter, the best on the \
         rest. While the gain grows, clusters tighten near the training classes; where it falls, they drift away from them.",
    );
    for entry in &study.advice {
        section.say(&format!("{}: {}", entry.subject.name, verdict(&entry.result)));
    }
    section.show(study, "advice");
    for (number, entry) in study.advice.iter().enumerate() {
        let points = |gain: Option<f64>| TableCell::number(gain.map(|gain| 100.0 * gain), 1);
        let table = Table::of(
            &format!("advice-{}", number + 1),
            &format!("{}: expected gains in points of accuracy", entry.subject.name),
            entry.result.advice.tried.iter(),
            &[
                ("way to adapt", &|way: &TriedCandidate| TableCell::text(&way.candidate.name)),
                (">images", &|way| TableCell::count(way.images)),
                (">gain", &|way| points(Some(way.gain))),
                (">from", &|way| points(Some(way.low))),
                (">to", &|way| points(Some(way.high))),
                (">risk", &|way| TableCell::percent(way.risk, 0)),
                (">flips", &|way| TableCell::percent(Some(way.flips), 1)),
                ("at the end", &|way| TableCell::text(way.phase.map_or("", |phase| phase.name()))),
                (">true gain", &|way| points(way.truth)),
            ],
        );
        section.add_or_fold(table, "ways to adapt");
    }
    section
}

/// What to do, in a sentence.
fn verdict(found: &AdviceResult) -> String {
    let advice = &found.advice;
    let source = match &found.source {
        Some(source) => format!("the source model is right on about {:.1}%", 100.0 * source.accuracy),
        None => "the source model's accuracy is not known".to_owned(),
    };
    let best = advice.tried.iter().find(|way| Some(&way.candidate) == advice.recommended.as_ref());
    let Some(best) = best else {
        if advice.tried.iter().any(|way| way.risk.is_none()) {
            return format!(
                "leave the model as it is; {source}, and the calibration's shifts are too few kinds to tell the risk of losing accuracy."
            );
        }
        return format!("leave the model as it is; {source}, and nothing is expected to gain half a point or more.");
    };
    let mut text = format!(
        "adapt with {}; {source}, and {:+.1} points are expected ({:+.1} to {:+.1})",
        best.candidate.name,
        100.0 * best.gain,
        100.0 * best.low,
        100.0 * best.high
    );
    if let Some(images) = advice.stop_after {
        text += &format!(", until the gain begins to fall after {images} images");
    }
    text.replace('-', "\u{2212}") + "."
}
