//! Records of calibrations and estimates.

use crate::analyse::UNIT;
use crate::{Plan, StudyError, Unit};
use flipcast_record::{Protocol, RunRecord};
use flipcast_run::{Calibration, Cell, CellEstimates, CellRequest, Device, Estimates, ModelIdentity, Seconds, Setting};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Raised whenever fits or estimates change for the same cells.
const ESTIMATES_VERSION: u32 = 2;
/// The kinds of these records.
pub(crate) const CALIBRATION: &str = "calibration";
pub(crate) const ESTIMATES: &str = "estimates";

/// What the record of a unit holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EstimatesResult {
    /// Key of the cell's record.
    pub cell: String,
    pub images: usize,
    pub accuracy: Option<f64>,
    pub adapted_accuracy: Option<f64>,
    pub source: Estimates,
    pub adapted: Estimates,
    pub seconds: Seconds,
}

impl EstimatesResult {
    pub(crate) fn new(cell_key: String, cell: &Cell, estimates: CellEstimates) -> Self {
        Self {
            cell: cell_key,
            images: cell.images,
            accuracy: cell.accuracy,
            adapted_accuracy: cell.adapted_accuracy,
            source: estimates.source,
            adapted: estimates.adapted,
            seconds: cell.seconds,
        }
    }
}

/// What both kinds have in common.
fn base(kind: &str, setting: &Setting, request: &CellRequest) -> Result<Protocol, StudyError> {
    let limit = request.config.limit.unwrap_or(usize::MAX);
    let protocol = Protocol::new(kind)
        .with("version", &ESTIMATES_VERSION)?
        .with("model", &ModelIdentity::of(setting.model))?
        .with("preprocess", request.preprocess)?
        .with("class_space", &request.scope.name())?
        .with("data", &request.data)?
        .with("images", &request.dataset.len().min(limit))?
        .with("seed", &request.seed)?
        .with("flips", setting.protocol)?;
    Ok(setting.device.describe(protocol)?)
}

/// What defines a calibration made from `clean`.
pub(crate) fn calibration_protocol(
    setting: &Setting,
    clean: &CellRequest,
    made: &Calibration,
) -> Result<Protocol, StudyError> {
    Ok(base(CALIBRATION, setting, clean)?.with("options", &made.basis.options)?)
}

/// What defines the estimates of a unit.
pub(crate) fn estimates_protocol(
    plan: &Plan,
    unit: &Unit,
    setting: &Setting,
    request: &CellRequest,
    calibration: &str,
) -> Result<Protocol, StudyError> {
    Ok(base(ESTIMATES, setting, request)?
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
    current.then(|| record.protocol.get("unit"))?.and_then(Value::as_str)
}
