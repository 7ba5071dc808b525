use super::Section;
use crate::Study;
use crate::stats::{deviation, mean};
use crate::study::{Entry, Estimates, Which, estimator_label, estimator_order, paper_transfer, row_error};
use crate::table::{Table, TableCell};
use flipcast_record::results::{Refit, SubsetErrors, Transfer};
use std::collections::{BTreeMap, BTreeSet};

/// A model and the place of an estimator in tables, whose last part is its name.
type Row<'a> = (&'a str, (usize, bool, &'a str));

/// Curves in the order of the table.
const CURVES: [&str; 4] = ["linear", "quadratic", "cubic", "monotone"];

/// Curves fitted again from cells that were there: other curves, other cells, another model's cells.
pub(super) fn build(study: &Study) -> Section {
    let mut section = Section::new("refits", "Curves fitted again");
    if study.refits.is_empty() && study.transfers.is_empty() && study.subsets.is_empty() {
        return section;
    }
    section.say(
        "A curve turns a score into an accuracy. Here it is fitted again to cells that were already there, so that no network ran. Errors are mean \
         absolute errors in points; every row of the plan counts alike.",
    );
    let transfers = transfers(study);
    if !transfers.rows.is_empty() {
        section.say(
            "Must a curve be fitted anew for another model? `before` is the error with the curve of the model it was fitted on, `after` the error \
             with a curve fitted to the tested model's own calibration cells.",
        );
        section.add(transfers);
    }
    section.add(curves(study));
    section.show(study, "curves");
    let subsets = subsets(study);
    if !subsets.rows.is_empty() {
        section.say(
            "Does it matter what a curve is fitted to? Groups of cells are drawn at random, the curve is fitted to them and tested on the others; \
             the spread is the standard deviation over the draws.",
        );
        section.add(subsets);
    }
    let every = every_subset(study);
    if !every.rows.is_empty() {
        section.say(
            "The same with every choice of so many groups instead of some drawn at random; images as they are belong to every fit, and every group \
             that is tested counts alike.",
        );
        section.add(every);
        section.show(study, "subsets");
        section.add_or_fold(groups_that_fit(study), "kinds of shift");
    }
    section
}

/// How errors spread over all choices of groups.
fn every_subset(study: &Study) -> Table {
    let percentile = |errors: &SubsetErrors, share: usize| {
        let place = share * errors.percentiles.len().saturating_sub(1) / 100;
        TableCell::percent(errors.percentiles.get(place).copied(), 2)
    };
    Table::of(
        "every-subset",
        "Curves fitted to every choice of groups and tested on the others: errors in points",
        study.subsets.iter().map(|entry| (&entry.subject, &entry.result)),
        &[
            ("model", &|(subject, _)| TableCell::text(&subject.model)),
            ("score", &|(_, errors)| TableCell::text(&estimator_label(&errors.estimator))),
            ("curve", &|(_, errors)| TableCell::text(errors.curve.name())),
            (">groups", &|(_, errors)| TableCell::count(errors.with_group.len())),
            (">fitted to", &|(_, errors)| TableCell::count(errors.fitted_to)),
            (">choices", &|(_, errors)| TableCell::count(errors.subsets)),
            (">mean", &|(_, errors)| TableCell::percent(Some(errors.mean), 2)),
            (">least", &|(_, errors)| percentile(errors, 0)),
            (">median", &|(_, errors)| percentile(errors, 50)),
            (">95% have at most", &|(_, errors)| percentile(errors, 95)),
            (">most", &|(_, errors)| percentile(errors, 100)),
            ("best choice", &|(_, errors)| TableCell::text(&errors.best.join(", "))),
            ("worst choice", &|(_, errors)| TableCell::text(&errors.worst.join(", "))),
        ],
    )
}

/// What every group is worth to a fit: the mean error of the choices that hold it.
fn groups_that_fit(study: &Study) -> Table {
    let groups: BTreeSet<&str> =
        study.subsets.iter().flat_map(|entry| entry.result.with_group.keys().map(String::as_str)).collect();
    let mut table = Table::new(
        "groups-that-fit",
        "Mean error in points of the choices that hold a kind of shift: what is worth fitting to",
        &["kind"],
    );
    let columns = study.subsets.iter().map(|entry| {
        let score = estimator_label(&entry.result.estimator);
        format!(">{}, {score}", entry.subject.model)
    });
    table.columns.extend(columns);
    for group in groups {
        let mut row = vec![TableCell::text(group)];
        let errors = study.subsets.iter().map(|entry| entry.result.with_group.get(group).copied());
        row.extend(errors.map(|error| TableCell::percent(error, 2)));
        table.rows.push(row);
    }
    for column in 1..table.columns.len() {
        table.mark_least(column);
    }
    table
}

/// The error of a score with the calibration cells of its own model.
fn own_error(study: &Study, model: &str, estimator: &str, curve: &str) -> Option<f64> {
    let refitted = study.refits.iter().find(|entry| {
        let refit = &entry.result;
        entry.subject.model == model
            && refit.estimator == estimator
            && refit.draw.is_none()
            && refit.curve.name() == curve
    });
    if let Some(entry) = refitted {
        return Some(entry.result.mae);
    }
    let entries: Vec<&Entry<Estimates>> = study.estimates.iter().filter(|entry| entry.subject.model == model).collect();
    // Scores that are accuracies as they stand have a second, calibrated form.
    let calibrated = format!("{estimator}_calibrated");
    let error =
        row_error(&entries, Which::Source, &calibrated).or_else(|| row_error(&entries, Which::Source, estimator));
    error.map(|(error, _)| error)
}

fn transfers(study: &Study) -> Table {
    let mut table = Table::new(
        "transfers",
        "Curves of one model tested on another: errors in points",
        &["tested on", "fitted on", "score", "curve", ">cells", ">before", ">worst before", ">after"],
    );
    let published = |entry: &Entry<Transfer>| paper_transfer(&entry.subject.data, &entry.result.estimator);
    let any = study.transfers.iter().any(|entry| published(entry).is_some());
    if any {
        table.columns.push(">paper, before".to_owned());
        table.columns.push(">paper, after".to_owned());
    }
    let mut entries: Vec<_> = study.transfers.iter().collect();
    entries.sort_by_key(|entry| {
        let (subject, result) = (&entry.subject, &entry.result);
        (&subject.model, &result.from, estimator_order(&result.estimator))
    });
    for entry in entries {
        let (model, result) = (&entry.subject.model, &entry.result);
        let curve = result.curve.name();
        let mut row = vec![
            TableCell::text(model),
            TableCell::text(&result.from),
            TableCell::text(&estimator_label(&result.estimator)),
            TableCell::text(curve),
            TableCell::count(result.cells),
            TableCell::percent(Some(result.mae), 2),
            TableCell::percent(Some(result.worst), 1),
            TableCell::percent(own_error(study, model, &result.estimator, curve), 2),
        ];
        if any {
            let paper = published(entry);
            row.push(TableCell::percent(paper.map(|paper| paper.0), 2));
            row.push(TableCell::percent(paper.map(|paper| paper.1), 2));
        }
        table.rows.push(row);
    }
    // Two plans may have asked the same of the same cells.
    table.rows.dedup();
    table
}

/// Every curve of every score, fitted to the calibration cells.
fn curves(study: &Study) -> Table {
    let fitted = || study.refits.iter().filter(|entry| entry.result.draw.is_none());
    let mut names: BTreeSet<(usize, &str)> = BTreeSet::new();
    let mut rows: BTreeMap<Row, BTreeMap<&str, f64>> = BTreeMap::new();
    for entry in fitted() {
        let refit = &entry.result;
        let name = refit.curve.name();
        let place = CURVES.iter().position(|known| *known == name);
        names.insert((place.unwrap_or(CURVES.len()), name));
        let row = (entry.subject.model.as_str(), estimator_order(&refit.estimator));
        rows.entry(row).or_default().insert(name, refit.mae);
    }
    let mut table = Table::new(
        "curves",
        "Other curves, fitted to the calibration cells and tested on the study's cells: errors in points",
        &["model", "score"],
    );
    let columns = names.iter().map(|(_, name)| format!(">{name}"));
    table.columns.extend(columns);
    for ((model, (.., estimator)), errors) in rows {
        let mut row = vec![TableCell::text(model), TableCell::text(&estimator_label(estimator))];
        let cells = names.iter().map(|(_, name)| errors.get(name).copied());
        row.extend(cells.map(|error| TableCell::percent(error, 2)));
        table.rows.push(row);
    }
    for column in 2..table.columns.len() {
        table.mark_least(column);
    }
    table
}

/// Draws of groups, summed up.
fn subsets(study: &Study) -> Table {
    let mut draws: BTreeMap<(Row, &str), Vec<&Entry<Refit>>> = BTreeMap::new();
    for entry in study.refits.iter().filter(|entry| entry.result.draw.is_some()) {
        let refit = &entry.result;
        let row = (entry.subject.model.as_str(), estimator_order(&refit.estimator));
        let place = (row, refit.curve.name());
        draws.entry(place).or_default().push(entry);
    }
    let mut table = Table::new(
        "fitting-subsets",
        "Curves fitted to groups drawn at random and tested on the others: errors in points",
        &[
            "model",
            "score",
            "curve",
            "groups are",
            ">fitted to",
            ">draws",
            ">mean",
            ">spread",
            ">least",
            ">most",
            ">fitted to calibration cells",
        ],
    );
    for (((model, (.., estimator)), curve), draws) in draws {
        let errors: Vec<f64> = draws.iter().map(|entry| entry.result.mae).collect();
        let ends = |pick: fn(f64, f64) -> f64| errors.iter().copied().reduce(pick);
        let first = draws.first().map(|entry| &entry.subject);
        table.rows.push(vec![
            TableCell::text(model),
            TableCell::text(&estimator_label(estimator)),
            TableCell::text(curve),
            TableCell::text(first.map_or("", |subject| subject.grouped_by.as_str())),
            TableCell::count(first.map_or(0, |subject| subject.groups)),
            TableCell::count(draws.len()),
            TableCell::percent(mean(&errors), 2),
            TableCell::percent(deviation(&errors), 2),
            TableCell::percent(ends(f64::min), 2),
            TableCell::percent(ends(f64::max), 2),
            TableCell::percent(own_error(study, model, estimator, curve), 2),
        ]);
    }
    table
}
