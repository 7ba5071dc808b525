//! Cells of a plan as records have them, whichever version of the program made them.

use crate::estimates::{ESTIMATES, unit_key};
use crate::{StudyError, Unit};
use flipcast_record::RunRecord;
use flipcast_run::{CalibrationCell, Cell, RunError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A cell with its record, and that of the estimates made of it.
pub(crate) struct RecordedCell<'a> {
    pub record: &'a RunRecord,
    pub cell: Cell,
    estimates: &'a RunRecord,
}

/// Records of cells. Scores of a cell mean the same in every version of it, so that all versions count.
pub(crate) struct RecordedCells<'a> {
    by_key: BTreeMap<&'a str, &'a RunRecord>,
    /// Estimates by unit: of several, those of the latest version that are the youngest.
    estimates: BTreeMap<&'a str, &'a RunRecord>,
}

impl<'a> RecordedCells<'a> {
    pub fn new(records: &'a [RunRecord]) -> Self {
        let by_key = records.iter().map(|record| (record.key.as_str(), record)).collect();
        let mut estimates: BTreeMap<&str, &RunRecord> = BTreeMap::new();
        for record in records.iter().filter(|record| record.kind == ESTIMATES) {
            if let Some(unit) = unit_key(record)
                && estimates.get(unit).is_none_or(|known| age(known) < age(record))
            {
                estimates.insert(unit, record);
            }
        }
        Self { by_key, estimates }
    }

    /// The cell that the estimates of `unit` were made of.
    pub fn of(&self, unit: &Unit) -> Result<Option<RecordedCell<'a>>, StudyError> {
        let Some(&estimates) = self.estimates.get(unit.key.as_str()) else {
            return Ok(None);
        };
        let key = estimates.result.get("cell").and_then(Value::as_str);
        let Some(&record) = key.and_then(|key| self.by_key.get(key)) else {
            return Ok(None);
        };
        Ok(Some(RecordedCell { record, cell: read(record, &record.result)?, estimates }))
    }

    /// The cells of the calibration that the estimates of a cell rest on; none where they rest on the paper's fit.
    pub fn calibration_of(&self, found: &RecordedCell) -> Result<Vec<CalibrationCell>, StudyError> {
        let key = found.estimates.protocol.get("calibration").and_then(Value::as_str);
        match key.and_then(|key| self.by_key.get(key)) {
            Some(record) => read(record, record.result.get("cells").unwrap_or(&Value::Null)),
            None => Ok(Vec::new()),
        }
    }
}

/// Version and time of a record.
pub(crate) fn age(record: &RunRecord) -> (u64, u64) {
    (record.protocol.get("version").and_then(Value::as_u64).unwrap_or(0), record.created)
}

pub(crate) fn read<'de, T: Deserialize<'de>>(record: &RunRecord, result: &'de Value) -> Result<T, StudyError> {
    let read = T::deserialize(result);
    Ok(read.map_err(|source| RunError::Record { key: record.key.clone(), source })?)
}
