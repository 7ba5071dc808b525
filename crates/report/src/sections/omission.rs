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
    let mut entries: Vec<_> = study.omissions.iter().collect();
    entries
        .sort_by_key(|entry| (&entry.subject.data, &entry.subject.method, &entry.subject.rule, entry.result.dropped));
    let accuracy = |point: Option<&CurvePoint>| TableCell::percent(point.and_then(|p| p.accuracy), 1);
    section.add(Table::of(
        "omission",
        "Runs with images left out: accuracies in percent, gain in points, entropies in nats",
        entries.into_iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("dataset", &|(subject, _)| TableCell::text(&subject.name)),
            ("method", &|(subject, _)| TableCell::text(subject.method_name())),
            ("rule", &|(subject, _)| TableCell::text(&subject.rule.replace('_', " "))),
            (">value", &|(subject, _)| {
                TableCell::number(subject.rule_value, if subject.rule == "top_k" { 0 } else { 2 })
            }),
            (">left out", &|(_, run)| TableCell::count(run.dropped)),
            (">their entropy", &|(_, run)| TableCell::number(run.dropped_entropy, 2)),
            (">mean entropy", &|(_, run)| TableCell::number(Some(run.mean_entropy), 2)),
            (">start", &|(_, run)| accuracy(run.curve.first())),
            (">end", &|(_, run)| accuracy(run.curve.last())),
            (">gain", &|(_, run)| TableCell::percent(run.gain(), 1)),
        ],
    ));
    section
}
