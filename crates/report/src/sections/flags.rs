use super::Section;
use crate::Study;
use crate::study::{Which, estimator_label, flag_text};
use crate::table::{Table, TableCell};
use std::collections::{BTreeMap, BTreeSet};

/// Most names listed in a row.
const MOST: usize = 8;

/// Reasons for doubt: which, where, what they mean.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("flags", "What was flagged");
    let mut raised: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>, usize)> = BTreeMap::new();
    for entry in &study.estimates {
        for which in [Which::Source, Which::Adapted] {
            for (name, guess) in which.guesses(&entry.result) {
                for flag in &guess.flags {
                    let (datasets, estimators, count) = raised.entry(flag).or_default();
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
    for (flag, (datasets, estimators, count)) in raised {
        let estimators = estimators.into_iter().map(estimator_label).collect();
        let datasets = datasets.into_iter().map(str::to_owned).collect();
        table.rows.push(vec![
            TableCell::text(flag),
            TableCell::text(flag_text(flag)),
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
