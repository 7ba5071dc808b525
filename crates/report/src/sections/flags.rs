use super::Section;
use crate::Study;
use crate::study::{Which, estimator_label};
use crate::table::{Table, TableCell};
use flipcast_estimate::Flag;
use std::collections::{BTreeMap, BTreeSet};

/// Most names listed in a row.
const MOST: usize = 8;

/// Reasons for doubt: which, where, what they mean.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("flags", "What was flagged");
    let mut raised: BTreeMap<Flag, (BTreeSet<&str>, BTreeSet<&str>, usize)> = BTreeMap::new();
    for entry in &study.estimates {
        for which in [Which::Source, Which::Adapted] {
            for (name, guess) in which.guesses(&entry.result) {
                for flag in &guess.flags {
                    let (datasets, estimators, count) = raised.entry(*flag).or_default();
                    datasets.insert(&entry.subject.name);
                    estimators.insert(name);
                    *count += 1;
                }
            }
        }
    }
    if raised.is_empty() {
        if !study.estimates.is_empty() {
            section.say("No estimate raised a flag.");
        }
        return section;
    }
    section.say("A flag is a reason to doubt an estimate, found without labels.");
    let mut table = Table::new(
        "flags",
        "Flags raised by estimates",
        &["flag", "what it means", ">estimates", "datasets", "estimators"],
    );
    let mut raised: Vec<_> = raised.into_iter().collect();
    raised.sort_by_key(|(flag, _)| flag.name());
    for (flag, (datasets, estimators, count)) in raised {
        let estimators = estimators.into_iter().map(estimator_label).collect();
        let datasets = datasets.into_iter().map(str::to_owned).collect();
        table.rows.push(vec![
            TableCell::text(flag.name()),
            TableCell::text(flag.text()),
            TableCell::count(count),
            TableCell::text(&listed(datasets)),
            TableCell::text(&listed(estimators)),
        ]);
    }
    section.add(table);
    section
}

fn listed(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MOST);
    let mut text = names.into_iter().take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}
