use super::Section;
use crate::Study;
use crate::table::{Table, TableCell};
use flipcast_record::results::CurvePoint;

/// What adapting gains when images are left out.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("omission", "Adapting without some of the images");
    if study.omissions.is_empty() {
        return section;
    }
    section.say(
        "Some images are left out of adapting, and accuracy is measured on others that adapting never sees. The gain is accuracy at the end minus \
         accuracy at the start.",
    );
    section.show(study, "omission");
    let mut table = Table::new(
        "omission",
        "Runs with images left out: accuracies in percent, gain in points, entropies in nats",
        &[
            "dataset",
            "method",
            "rule",
            ">value",
            ">left out",
            ">their entropy",
            ">mean entropy",
            ">start",
            ">end",
            ">gain",
        ],
    );
    let mut entries: Vec<_> = study.omissions.iter().collect();
    entries
        .sort_by_key(|entry| (&entry.subject.data, &entry.subject.method, &entry.subject.rule, entry.result.dropped));
    for entry in entries {
        let run = &entry.result;
        let accuracy = |point: Option<&CurvePoint>| point.and_then(|p| p.accuracy);
        table.rows.push(vec![
            TableCell::text(&entry.subject.name),
            TableCell::text(entry.subject.method.as_deref().unwrap_or("")),
            TableCell::text(&entry.subject.rule.replace('_', " ")),
            TableCell::number(entry.subject.rule_value, if entry.subject.rule == "top_k" { 0 } else { 2 }),
            TableCell::count(run.dropped),
            TableCell::number(run.dropped_entropy, 2),
            TableCell::number(Some(run.mean_entropy), 2),
            TableCell::percent(accuracy(run.curve.first()), 1),
            TableCell::percent(accuracy(run.curve.last()), 1),
            TableCell::percent(run.gain(), 1),
        ]);
    }
    section.add(table);
    section
}
