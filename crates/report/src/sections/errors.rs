use super::{Block, Section};
use crate::Study;
use crate::figures::groups;
use crate::study::{Entry, Estimates, Quality, Which, estimator_label, estimators_of, quality_of};
use crate::table::{Table, TableCell};
use std::collections::BTreeSet;

/// Mean absolute errors by family, and how every estimator does.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("errors", "How far off the estimators are");
    let groups = groups(study);
    let mut number = 0;
    for (model, which, entries) in &groups {
        let Some((families, quality)) = tables(model, *which, entries) else {
            continue;
        };
        if number == 0 {
            section.say(
                "Mean absolute error in percentage points, by kind of shift; a smaller number is better. In every column the best is bold and \
                 the second best underlined.",
            );
        }
        number += 1;
        let named = |mut table: Table| {
            table.name = format!("{}-{number}", table.name);
            table
        };
        section.add(named(families));
        let summary = format!("Table: bias, worst case and intervals, {model}, {}", which.text());
        section.blocks.push(Block::Folded(summary, named(quality)));
    }
    if number > 0 {
        section.show(study, "errors");
    }
    section
}

fn tables(model: &str, which: Which, entries: &[&Entry<Estimates>]) -> Option<(Table, Table)> {
    let mut ranked: Vec<(String, Quality)> = estimators_of(entries.iter().copied(), which)
        .into_iter()
        .filter_map(|name| {
            let quality = quality_of(entries.iter().copied(), which, &name)?;
            Some((name, quality))
        })
        .collect();
    if ranked.is_empty() {
        return None;
    }
    ranked.sort_by(|a, b| a.1.mae.total_cmp(&b.1.mae));
    let families: BTreeSet<&str> = entries
        .iter()
        .filter(|entry| which.truth(&entry.result).is_some())
        .map(|entry| entry.subject.family.as_str())
        .collect();
    let mut table =
        Table::new("mae", &format!("{model}, {}: mean absolute error in points", which.text()), &["estimator"]);
    let several = families.len() > 1;
    if several {
        for family in &families {
            let count = entries.iter().filter(|e| e.subject.family == *family).count();
            table.columns.push(format!(">{family} ({count})"));
        }
    }
    table.columns.push(format!(">all ({})", entries.len()));
    for (name, quality) in &ranked {
        let mut row = vec![TableCell::text(&estimator_label(name))];
        if several {
            for family in &families {
                let of_family = entries.iter().copied().filter(|e| e.subject.family == *family);
                let quality = quality_of(of_family, which, name);
                row.push(TableCell::percent(quality.map(|quality| quality.mae), 2));
            }
        }
        row.push(TableCell::percent(Some(quality.mae), 2));
        table.rows.push(row);
    }
    for column in 1..table.columns.len() {
        table.mark_least(column);
    }
    Some((table, quality_table(model, which, &ranked)))
}

fn quality_table(model: &str, which: Which, ranked: &[(String, Quality)]) -> Table {
    let held = |(held, intervals): (usize, usize)| (intervals > 0).then(|| held as f64 / intervals as f64);
    let mut table = Table::of(
        "quality",
        &format!("{model}, {}: errors and intervals in points", which.text()),
        ranked,
        &[
            ("estimator", &|(name, _)| TableCell::text(&estimator_label(name))),
            (">datasets", &|(_, quality)| TableCell::count(quality.datasets)),
            (">mean error", &|(_, quality)| TableCell::percent(Some(quality.mae), 2)),
            (">worst", &|(_, quality)| TableCell::percent(Some(quality.worst), 1)),
            (">bias", &|(_, quality)| TableCell::percent(Some(quality.bias), 2)),
            (">intervals that hold the truth, %", &|(_, quality)| TableCell::percent(held(quality.held), 0)),
            (">mean width", &|(_, quality)| TableCell::percent(quality.width, 1)),
        ],
    );
    table.mark_least(2);
    table.mark_least(3);
    table
}
