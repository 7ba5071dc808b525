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
    let mut table = Table::new(
        "adaptations",
        "Adaptation runs: shares in percent",
        &[
            "dataset",
            "model",
            "method",
            ">images",
            ">steps",
            ">source accuracy",
            ">accuracy",
            ">flips",
            ">images used",
            ">first entropy",
            ">last entropy",
            "what happened",
        ],
    );
    for entry in &study.adaptations {
        let (subject, run) = (&entry.subject, &entry.result);
        table.rows.push(vec![
            TableCell::text(&subject.name),
            TableCell::text(&subject.model),
            TableCell::text(subject.method.as_deref().unwrap_or("")),
            TableCell::count(run.images),
            TableCell::count(run.steps),
            TableCell::percent(run.source_accuracy, 1),
            TableCell::percent(run.accuracy, 1),
            TableCell::percent(run.flip_rate, 1),
            TableCell::percent(Some(run.used_share), 1),
            TableCell::number(Some(run.first_entropy), 3),
            TableCell::number(Some(run.last_entropy), 3),
            TableCell::text(&story(run)),
        ]);
    }
    section.add(table);
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
