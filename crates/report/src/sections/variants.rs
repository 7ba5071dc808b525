use super::Section;
use crate::Study;
use crate::study::{Entry, Estimates, Which, estimator_label, paper_variant, row_error};
use crate::table::{Table, TableCell};
use std::collections::{BTreeMap, BTreeSet};

/// Estimators that are compared.
const COMPARED: [&str; 7] = ["wf_batch", "wf", "combined", "cot", "atc_mc", "doc", "ac"];

/// One model under several counts of flips: other methods, stopping steps, probes, fewer images.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("variants", "What the count of flips depends on");
    let mut networks: BTreeMap<&str, BTreeMap<&str, Vec<&Entry<Estimates>>>> = BTreeMap::new();
    for entry in &study.estimates {
        let subject = &entry.subject;
        if which_truth(entry) {
            let ways = networks.entry(&subject.network).or_default();
            ways.entry(&subject.model).or_default().push(entry);
        }
    }
    let mut beside_paper = false;
    for (number, (network, ways)) in networks.into_iter().enumerate() {
        let published =
            ways.values().flatten().any(|entry| COMPARED.iter().any(|name| published(entry, name).is_some()));
        beside_paper |= published;
        if ways.len() > 1 || published {
            let mut table = table(network, &ways);
            table.name = format!("variants-{}", number + 1);
            section.add(table);
        }
    }
    if !section.blocks.is_empty() {
        let mut words = "The same model with flips counted in other ways. A row of the plan counts as one, however many splits it has."
            .to_owned();
        if beside_paper {
            words += " Numbers in brackets are the paper's, over its own choice of datasets.";
        }
        section.say(&words);
        section.blocks.rotate_right(1);
    }
    section
}

fn which_truth(entry: &Entry<Estimates>) -> bool {
    Which::Source.truth(&entry.result).is_some()
}

fn published(entry: &Entry<Estimates>, estimator: &str) -> Option<f64> {
    let subject = &entry.subject;
    let variant = subject.variant.as_deref()?;
    paper_variant(&subject.network, variant, subject.paper_fit.as_deref(), estimator)
}

fn table(network: &str, ways: &BTreeMap<&str, Vec<&Entry<Estimates>>>) -> Table {
    let mut table = Table::new(
        "variants",
        &format!("{network}: mean absolute error for the source model in points"),
        &["flips counted", "curve", ">datasets", ">rows"],
    );
    let there: Vec<&str> = COMPARED
        .into_iter()
        .filter(|name| {
            let known = |entry: &&&Entry<Estimates>| entry.result.source.contains_key(*name);
            ways.values().flatten().any(|entry| known(&entry))
        })
        .collect();
    let columns = there.iter().map(|name| format!(">{}", estimator_label(name)));
    table.columns.extend(columns);
    let mut sorted: Vec<_> = ways.values().collect();
    sorted.sort_by_key(|entries| {
        let subject = entries.first().map(|entry| &entry.subject);
        let variant = subject.and_then(|s| s.variant.clone()).unwrap_or_default();
        (crate::study::natural(&variant), subject.and_then(|s| s.paper_fit.clone()))
    });
    for entries in sorted {
        let Some(first) = entries.first() else {
            continue;
        };
        let rows: BTreeSet<&str> =
            entries.iter().map(|entry| entry.subject.row.as_deref().unwrap_or(&entry.subject.data)).collect();
        let mut row = vec![
            TableCell::text(first.subject.variant.as_deref().unwrap_or("\u{2013}")),
            TableCell::text(first.subject.paper_fit.as_deref().unwrap_or("own")),
            TableCell::count(entries.len()),
            TableCell::count(rows.len()),
        ];
        for name in &there {
            let error = row_error(entries, Which::Source, name).map(|(error, _)| error);
            let mut cell = TableCell::percent(error, 2);
            if let Some(paper) = published(first, name) {
                cell.text += &format!(" ({:.2})", 100.0 * paper);
            }
            row.push(cell);
        }
        table.rows.push(row);
    }
    table
}
