use super::Section;
use crate::Study;
use crate::table::{Table, TableCell};
use flipcast_record::results::{AdaptSummary, Ending};

/// What adaptation runs did to the images they met.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("adaptations", "Models that adapted");
    if study.adaptations.is_empty() {
        return section;
    }
    section.say(
        "Every run predicts its images while it adapts to them. Accuracies are known where labels are; a flip is a prediction that differs from \
         the source model's. Entropies are means over the first and the last batch, in nats.",
    );
    section.add(Table::of(
        "adaptations",
        "Adaptation runs: shares in percent",
        study.adaptations.iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("dataset", &|(subject, _)| TableCell::text(&subject.name)),
            ("model", &|(subject, _)| TableCell::text(&subject.model)),
            ("method", &|(subject, _)| TableCell::text(subject.method_name())),
            (">images", &|(_, run)| TableCell::count(run.images)),
            (">steps", &|(_, run)| TableCell::count(run.steps)),
            (">source accuracy", &|(_, run)| TableCell::percent(run.source_accuracy, 1)),
            (">accuracy", &|(_, run)| TableCell::percent(run.accuracy, 1)),
            (">flips", &|(_, run)| TableCell::percent(run.flip_rate, 1)),
            (">images used", &|(_, run)| TableCell::percent(Some(run.used_share), 1)),
            (">first entropy", &|(_, run)| TableCell::number(Some(run.first_entropy), 3)),
            (">last entropy", &|(_, run)| TableCell::number(Some(run.last_entropy), 3)),
            ("what happened", &|(_, run)| TableCell::text(&story(run))),
        ],
    ));
    section
}

/// How a run ended and what was noticed on the way.
fn story(run: &AdaptSummary) -> String {
    let mut parts = Vec::new();
    match run.ending {
        Ending::Complete => {}
        Ending::Interrupted => parts.push("interrupted".to_owned()),
        Ending::Collapsed => parts.push("stopped by the guard".to_owned()),
    }
    if run.starved {
        parts.push("almost no image passed the filters".to_owned());
    }
    if run.resets > 0 {
        parts.push(format!("{} resets", run.resets));
    }
    if !run.guard_events.is_empty() {
        parts.push(format!("{} events of the guard", run.guard_events.len()));
    }
    if let Some(batch) = run.source_since {
        parts.push(format!("the source model predicts from batch {batch} on"));
    }
    parts.join(", ")
}
