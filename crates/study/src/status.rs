//! What a folder of records has of a plan.

use crate::estimates::unit_of;
use crate::{Plan, Unit};
use flipcast_record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// How far one dataset is with one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The model, as the plan calls it.
    pub model: String,
    /// The dataset, as the plan calls it.
    pub dataset: String,
    /// Cells in all.
    pub cells: usize,
    /// Cells whose estimates are there.
    pub done: usize,
    /// Cells that the last run could not make.
    pub failed: usize,
    /// Cells whose data are not there.
    pub waiting: usize,
    /// Mean seconds of a cell of this model, where there is one.
    pub seconds: Option<f64>,
}

impl Row {
    /// Cells still to be made.
    pub fn left(&self) -> usize {
        self.cells - self.done - self.waiting
    }
}

/// One row per model and dataset. `lacking` tells which units have no data, `failed` holds the keys of units that failed.
pub fn read_status(
    plan: &Plan,
    units: &[Unit],
    lacking: &[bool],
    failed: &BTreeSet<String>,
    records: &[RunRecord],
) -> Vec<Row> {
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for record in records {
        if let Some(unit) = unit_of(record) {
            seconds.insert(unit, record.seconds);
        }
    }
    let mut pace: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for unit in units {
        if let Some(seconds) = seconds.get(unit.key.as_str()) {
            let (sum, count) = pace.entry(unit.model).or_default();
            *sum += seconds;
            *count += 1;
        }
    }
    let mut rows: BTreeMap<(usize, usize), Row> = BTreeMap::new();
    for (unit, &lacks) in units.iter().zip(lacking) {
        let row = rows.entry((unit.model, unit.dataset)).or_insert_with(|| Row {
            model: plan.models[unit.model].name.clone(),
            dataset: plan.datasets[unit.dataset].name.clone(),
            cells: 0,
            done: 0,
            failed: 0,
            waiting: 0,
            seconds: pace.get(&unit.model).map(|(sum, n)| sum / *n as f64),
        });
        row.cells += 1;
        if seconds.contains_key(unit.key.as_str()) {
            row.done += 1;
        } else if lacks {
            row.waiting += 1;
        } else if failed.contains(&unit.key) {
            row.failed += 1;
        }
    }
    rows.into_values().collect()
}
