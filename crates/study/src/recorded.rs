//! Cells of a plan as records have them, whichever version of the program made them.

use crate::{Plan, ProtocolEntry, StudyError, Unit};
use flipcast_corrupt::Storage;
use flipcast_record::{Protocol, RunRecord};
use flipcast_run::{Cell, FlipProtocol, RunError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds of the records that hold cells.
const TESTED: &str = "estimate";
const CALIBRATING: &str = "calibrate";

/// A cell and where it was recorded.
pub(crate) struct RecordedCell<'a> {
    pub record: &'a RunRecord,
    pub cell: Cell,
}

/// Records of cells, by what they are about. Scores of a cell mean the same in every version of it, so that all versions count.
pub(crate) struct RecordedCells<'a> {
    /// By model and images.
    tested: BTreeMap<(&'a str, &'a str), Vec<&'a RunRecord>>,
    /// By model.
    calibrating: BTreeMap<&'a str, Vec<&'a RunRecord>>,
}

impl<'a> RecordedCells<'a> {
    pub fn new(records: &'a [RunRecord]) -> Self {
        let mut cells = Self { tested: BTreeMap::new(), calibrating: BTreeMap::new() };
        for record in records {
            let Some(model) = model_name(record) else {
                continue;
            };
            match (record.kind.as_str(), record.data()) {
                (TESTED, Some(data)) => cells.tested.entry((model, data)).or_default().push(record),
                (CALIBRATING, Some(_)) => cells.calibrating.entry(model).or_default().push(record),
                _ => {}
            }
        }
        cells
    }

    /// The cell of `unit`: of several, the one of the latest version that is the youngest.
    pub fn of(&self, plan: &Plan, unit: &Unit) -> Result<Option<RecordedCell<'a>>, StudyError> {
        let model = plan.models[unit.model].name.as_str();
        let plain = unit.data.name();
        let sample = unit.data.limit.map(|images| unit.data.sample_name(images, unit.seed));
        let names = [Some(plain), sample];
        let found = names.iter().flatten().filter_map(|name| self.tested.get(&(model, name.as_str()))).flatten();
        let protocol = &plan.protocols[unit.protocol];
        let same = |record: &&&RunRecord| {
            is_seed(record, unit.seed)
                && is_stored(record, unit.data.storage)
                && is_under(record, protocol, unit.seed)
                && has_options(record, plan, unit)
        };
        let Some(record) = found.filter(same).copied().max_by_key(|record| age(record)) else {
            return Ok(None);
        };
        Ok(Some(RecordedCell { record, cell: read(record, &record.result)? }))
    }

    /// The calibration cells that the scores of a tested cell rest on, the clean one first; none where it rests on none.
    pub fn calibration_of(&self, plan: &Plan, unit: &Unit, tested: &RunRecord) -> Result<Vec<Cell>, StudyError> {
        let (Some(basis), Some(model)) = (tested.protocol.get("basis").and_then(Value::as_str), model_name(tested))
        else {
            return Ok(Vec::new());
        };
        let shifts = plan.calibrations[unit.calibration].shifts()?;
        let known = self.calibrating.get(model).into_iter().flatten();
        let alike = known.filter(|record| {
            ["flips", "arithmetic"].iter().all(|field| record.protocol.get(field) == tested.protocol.get(field))
        });
        let mut cells: BTreeMap<usize, (Age, Cell)> = BTreeMap::new();
        for record in alike {
            let (place, result) = match record.protocol.get("basis").and_then(Value::as_str) {
                Some(own) if own == basis => {
                    let shift = record.data().and_then(|data| data.rsplit_once('@')).map(|(_, shift)| shift);
                    match shifts.iter().position(|known| Some(known.name.as_str()) == shift) {
                        Some(place) => (place + 1, &record.result),
                        None => continue,
                    }
                }
                None if is_basis(&record.result, basis)? => (0, &record.result["cell"]),
                _ => continue,
            };
            let age = age(record);
            if cells.get(&place).is_none_or(|(known, _)| *known < age) {
                cells.insert(place, (age, read(record, result)?));
            }
        }
        Ok(cells.into_values().map(|(_, cell)| cell).collect())
    }
}

/// Version and time of a record.
type Age = (u64, u64);

fn age(record: &RunRecord) -> Age {
    (record.protocol.get("version").and_then(Value::as_u64).unwrap_or(0), record.created)
}

fn model_name(record: &RunRecord) -> Option<&str> {
    record.protocol.get("model")?.get("name")?.as_str()
}

fn is_seed(record: &RunRecord, seed: u64) -> bool {
    record.protocol.get("seed").and_then(Value::as_u64) == Some(seed)
}

/// Whether corruptions made in memory were stored as the plan says; where it leaves that to the published sets, however they were.
fn is_stored(record: &RunRecord, asked: Option<Storage>) -> bool {
    let Some(asked) = asked else {
        return true;
    };
    match record.protocol.get("storage") {
        Some(found) => serde_json::to_value(asked).is_ok_and(|asked| asked == *found),
        None => asked == Storage::None,
    }
}

/// Whether flips were counted as `protocol` says. What `flipcast` means depends on the network, which is not at hand here.
fn is_under(record: &RunRecord, protocol: &ProtocolEntry, seed: u64) -> bool {
    let Some(found) = record.protocol.get("flips").and_then(|flips| FlipProtocol::deserialize(flips).ok()) else {
        return false;
    };
    let depends = protocol.is_plain() && protocol.base == "flipcast";
    match depends {
        true => found.name == protocol.base && found.seed == seed,
        false => protocol.resolve(seed).is_ok_and(|asked| asked == found),
    }
}

fn has_options(record: &RunRecord, plan: &Plan, unit: &Unit) -> bool {
    let calibration = &plan.calibrations[unit.calibration];
    let Some(options) = record.protocol.get("options") else {
        return true;
    };
    let marginal = serde_json::to_value(&calibration.marginal).unwrap_or_default();
    options.get("marginal") == Some(&marginal)
        && options.get("temperature").and_then(Value::as_bool) == Some(calibration.temperature)
}

/// Whether a clean calibration cell's result holds the basis that has this key.
fn is_basis(result: &Value, key: &str) -> Result<bool, StudyError> {
    match result.get("basis") {
        Some(basis) => Ok(Protocol::new("basis").with("basis", basis)?.key() == key),
        None => Ok(false),
    }
}

fn read(record: &RunRecord, result: &Value) -> Result<Cell, StudyError> {
    let cell = Cell::deserialize(result);
    Ok(cell.map_err(|source| RunError::Record { key: record.key.clone(), source })?)
}
