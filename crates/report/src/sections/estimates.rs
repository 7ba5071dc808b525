use super::section::LONG;
use super::{Block, Section};
use crate::Study;
use crate::figures::groups;
use crate::study::{Which, estimator_label, estimators_of};
use crate::table::{Table, TableCell};

/// Estimators with a column of their own; all are in the section on errors.
const COLUMNS: usize = 6;

/// Estimates beside the truth, chart and table.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("estimates", "Estimates and the truth");
    if study.estimates.is_empty() {
        return section;
    }
    let known = study.estimates.iter().filter(|e| e.result.accuracy.is_some()).count();
    if known > 0 {
        section.say(
            "Every point is a dataset. On the dashed line the estimate equals the truth; the thin line through a point is its \
             interval. Labels are used for the truth and for nothing else.",
        );
        section.show(study, "estimates");
    }
    // Dataset by dataset where that is the only way, or a short one.
    if known < study.estimates.len() || study.estimates.len() <= 16 {
        section.show(study, "intervals");
    }
    for (number, (model, which, entries)) in groups(study).into_iter().enumerate() {
        let names = estimators_of(entries.iter().copied(), which);
        let names: Vec<String> = names.into_iter().take(COLUMNS).collect();
        let mut table = Table::new(
            &format!("estimates-{}", number + 1),
            &format!("{model}, {}: accuracy in percent, dataset by dataset", which.text()),
            &["dataset", "family", ">images", ">true"],
        );
        for (place, name) in names.iter().enumerate() {
            table.columns.push(format!(">{}", estimator_label(name)));
            if place == 0 {
                table.columns.extend([">low".to_owned(), ">high".to_owned()]);
            }
        }
        table.columns.push("flags".to_owned());
        for entry in entries {
            let guesses = which.guesses(&entry.result);
            let mut row = vec![
                TableCell::text(&entry.subject.name),
                TableCell::text(&entry.subject.family),
                TableCell::count(entry.result.images),
                TableCell::percent(which.truth(&entry.result), 1),
            ];
            for (place, name) in names.iter().enumerate() {
                let guess = guesses.get(name);
                row.push(TableCell::percent(guess.map(|guess| guess.accuracy), 1));
                if place == 0 {
                    row.push(TableCell::percent(guess.and_then(|guess| Some(guess.interval?.0)), 1));
                    row.push(TableCell::percent(guess.and_then(|guess| Some(guess.interval?.1)), 1));
                }
            }
            let flags = names.first().and_then(|name| guesses.get(name));
            let flags: Vec<&str> = flags.iter().flat_map(|guess| &guess.flags).map(|flag| flag.name()).collect();
            row.push(TableCell::text(&flags.join(", ")));
            table.rows.push(row);
        }
        let fold = table.rows.len() > LONG || which == Which::Adapted;
        if fold {
            let summary = format!("Table: {model}, {}, {} datasets", which.text(), table.rows.len());
            section.blocks.push(Block::Folded(summary, table));
        } else {
            section.add(table);
        }
    }
    explain(study, &mut section);
    section
}

/// Why each estimate is what it is, in the words that were stored with it.
fn explain(study: &Study, section: &mut Section) {
    let explained: Vec<_> = study.estimates.iter().filter(|entry| !entry.result.explanation.is_empty()).collect();
    if explained.is_empty() {
        return;
    }
    let mut table = Table::new("explanations", "What the estimates rest on", &["dataset", "in words"]);
    for entry in &explained {
        let words = entry.result.explanation.join(" ");
        table.rows.push(vec![TableCell::text(&entry.subject.name), TableCell::text(&words)]);
    }
    section.add_or_fold(table, "estimates in words");
}
