//! Records of calibrations and estimates.

use crate::analyse::UNIT;
use crate::{Plan, StudyError, Unit};
use flipcast_record::{Protocol, RunRecord};
use flipcast_run::{CalibrationJob, CalibrationShift, CellRequest, Device, ESTIMATES_VERSION, ModelIdentity, Setting};
use serde_json::Value;
use std::collections::BTreeSet;

/// The kinds of these records.
pub(crate) const CALIBRATION: &str = "calibration";
pub(crate) const ESTIMATES: &str = "estimates";

/// What defines the calibration that `job` makes.
pub(crate) fn calibration_protocol(job: &CalibrationJob) -> Result<Protocol, StudyError> {
    let protocol = flipcast_run::estimates_protocol(CALIBRATION, &job.setting, &job.clean)?;
    let mut protocol = protocol.with("options", &job.options)?;
    let shifts: Vec<&str> = job.shifts.iter().map(|shift| shift.name.as_str()).collect();
    let published = CalibrationShift::held_out();
    if !shifts.iter().copied().eq(published.iter().map(|shift| shift.name.as_str())) {
        protocol = protocol.with("shifts", &shifts)?;
    }
    let storage = job.first_storage()?;
    if storage.is_none() {
        return Ok(protocol);
    }
    Ok(protocol.with("storage", &storage)?)
}

/// What defines the estimates of a unit.
pub(crate) fn estimates_protocol(
    plan: &Plan,
    unit: &Unit,
    setting: &Setting,
    request: &CellRequest,
    calibration: &str,
) -> Result<Protocol, StudyError> {
    Ok(flipcast_run::estimates_protocol(ESTIMATES, setting, request)?
        .with("calibration", &calibration)?
        .with("level", &plan.study.level)?
        .with("row", &plan.datasets[unit.dataset].name)?
        .with("group", &unit.group)?
        .with("variant", &plan.protocols[unit.protocol].name)?)
}

/// Keys of the units that `records` know, made with these weights on a device like this.
pub(crate) fn done_units(
    records: &[RunRecord],
    model: &ModelIdentity,
    device: Device,
) -> Result<BTreeSet<String>, StudyError> {
    let here = device.describe(Protocol::new(ESTIMATES))?.with("model", model)?;
    let same =
        |record: &&RunRecord| ["model", "arithmetic"].iter().all(|field| record.protocol.get(field) == here.get(field));
    Ok(records.iter().filter(same).filter_map(unit_of).map(str::to_owned).collect())
}

/// The unit an `estimates` record of this version, or the mark of an analysis, belongs to.
pub(crate) fn unit_of(record: &RunRecord) -> Option<&str> {
    let version = record.protocol.get("version").and_then(Value::as_u64);
    let estimates = record.kind == ESTIMATES && version == Some(u64::from(ESTIMATES_VERSION));
    let current = estimates || record.kind == UNIT;
    current.then(|| unit_key(record))?
}

/// The unit that a record of any version says it belongs to.
pub(crate) fn unit_key(record: &RunRecord) -> Option<&str> {
    record.protocol.get("unit").and_then(Value::as_str)
}
