//! Calibration: clean labelled images and corruptions made from them become a [`Calibration`].

use crate::basis::{Basis, ScoreOptions};
use crate::calibration::{CALIBRATION_FORMAT, CLEAN, Calibration, CellFits, ModelIdentity, wants_early_look};
use crate::calibration_shifts::{CalibrationShift, check_kinds};
use crate::cell::{CellRequest, Samples, Setting};
use crate::cell_job::CellJob;
use crate::clean_images::CleanImages;
use crate::image_memory::ImageMemory;
use crate::ledger::{Ledger, cell_protocol};
use crate::pipeline::in_flight;
use crate::{RunError, Watcher};
use flipcast_corrupt::{CorruptionRequest, CorruptionStep, Storage, published_storage};
use flipcast_estimate::ShiftReference;
use flipcast_record::results::{CalibrationCell, Cell};
use serde::{Deserialize, Serialize};

/// What to calibrate on.
pub struct CalibrationJob<'a> {
    /// Model and flips.
    pub setting: Setting<'a>,
    /// Clean labelled images; its loader has no corruption.
    pub clean: CellRequest<'a>,
    /// What is done to them.
    pub shifts: Vec<CalibrationShift>,
    /// Other labelled images, each a kind of shift of its own.
    pub others: Vec<CellRequest<'a>>,
    /// Choices of the estimators.
    pub options: ScoreOptions,
    /// The storage step of the corruptions; `None` for that of their published set.
    pub storage: Option<Storage>,
}

impl<'a> CalibrationJob<'a> {
    /// The default calibration: flipcast's own family of shifts, stored as they are.
    pub fn new(setting: Setting<'a>, clean: CellRequest<'a>) -> Self {
        let shifts = CalibrationShift::family();
        Self { setting, clean, shifts, others: Vec::new(), options: ScoreOptions::default(), storage: None }
    }

    /// The images of `shift`.
    pub fn shifted(&self, shift: &CalibrationShift) -> Result<CellRequest<'a>, RunError> {
        match self.storage {
            Some(storage) => corrupted(&self.clean, &format!("{},storage={storage}", shift.name)),
            None => corrupted(&self.clean, &shift.name),
        }
    }

    /// A cell of the calibration: the truth must be known, and samples with other class shares and sizes are part of it.
    pub fn cell(&self, request: CellRequest<'a>, basis: &'a Basis) -> CellJob<'a> {
        CellJob { setting: self.setting, kind: "calibrate", request, basis: Some(basis), samples: Samples::Drawn }
    }

    /// Its cells but for the clean one, each with its name and its kind of shift. `basis` is what the clean images teach.
    pub fn further_cells(&self, basis: &'a Basis) -> Result<Vec<(&str, &str, CellJob<'a>)>, RunError> {
        let mut cells = Vec::new();
        for shift in &self.shifts {
            cells.push((shift.name.as_str(), shift.kind.as_str(), self.cell(self.shifted(shift)?, basis)));
        }
        for other in &self.others {
            cells.push((other.data.as_str(), other.data.as_str(), self.cell(other.clone(), basis)));
        }
        Ok(cells)
    }

    /// The storage step of its first corruption.
    pub fn first_storage(&self) -> Result<Storage, RunError> {
        let Some(first) = self.shifts.first() else {
            return Ok(Storage::None);
        };
        let request: CorruptionRequest = first.name.parse()?;
        let request = CorruptionRequest { storage: self.storage.or(request.storage), ..request };
        Ok(published_storage(&self.clean.config, &self.clean.dataset, request))
    }

    /// Refuses shifts of which no fit can be made, before any work.
    pub fn check(&self) -> Result<(), RunError> {
        check_kinds(&self.shifts, self.others.iter().map(|other| other.data.as_str()))
    }

    /// Cells of the calibration, the clean one included.
    pub fn cells(&self) -> usize {
        1 + self.shifts.len() + self.others.len()
    }
}

/// What the record of the clean cell holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanCell {
    /// What they teach the estimators.
    pub basis: Basis,
    /// Their cell.
    pub cell: Cell,
    /// What they look like to tests that watch a stream; a record of an earlier version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<ShiftReference>,
}

/// Looks at the clean images and at every shift of them, and fits what every estimator needs. Cells found in `ledger` are
/// taken from there.
pub fn calibrate(
    job: &CalibrationJob,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<Calibration, RunError> {
    job.check()?;
    let setting = &job.setting;
    let images = CleanImages::default();
    watcher.cell(CLEAN, 0, job.cells());
    let CleanCell { basis, cell, shift } = clean_cell(job, &images, ledger, watcher)?;
    let mut cells = vec![CalibrationCell { name: CLEAN.to_owned(), group: CLEAN.to_owned(), cell }];
    let further = job.further_cells(&basis)?;
    let memory = ImageMemory::new(job.clean.memory_limit);
    let (known, mut kept) = (ledger.clone(), ledger.clone());
    let made: Result<Vec<_>, RunError> = in_flight(
        further.into_iter().enumerate(),
        |(number, shifted)| {
            let prepared = shifted.2.prepare(&images, &memory, &known)?;
            Ok((number, shifted, prepared))
        },
        |(number, shifted, prepared)| {
            watcher.cell(shifted.0, 1 + number, job.cells());
            let observed = shifted.2.observe(prepared, watcher)?;
            Ok((shifted, observed))
        },
        |((name, group, cell), observed)| {
            let cell = cell.score(observed, &mut kept)?;
            Ok(CalibrationCell { name: name.to_owned(), group: group.to_owned(), cell })
        },
    );
    cells.extend(made?);
    let has_batch_norm = setting.model.graph().has_batch_norm();
    let CellFits { source, adapted, accuracy, adapted_accuracy } =
        CellFits::fit(&cells, setting.protocol, has_batch_norm)?;
    // Images to come get an early look only if it helped here.
    let basis = Basis { early_look: wants_early_look(accuracy.as_ref()), ..basis };
    Ok(Calibration {
        flipcast_calibration: CALIBRATION_FORMAT,
        made_by: Calibration::MADE_BY.to_owned(),
        model: ModelIdentity::of(setting.model),
        preprocess: job.clean.preprocess.clone(),
        class_space: job.clean.scope.name(),
        protocol: setting.protocol.clone(),
        data: job.clean.data.clone(),
        seed: job.clean.seed,
        storage: job.first_storage()?,
        accuracy,
        adapted_accuracy,
        shift,
        advice: None,
        basis,
        cells,
        source,
        adapted,
    })
}

/// The cell of the clean images and what they teach, from `ledger` or else made and kept there.
pub fn clean_cell(
    job: &CalibrationJob,
    images: &CleanImages,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<CleanCell, RunError> {
    let setting = &job.setting;
    let protocol = cell_protocol("calibrate", setting, &job.clean, &job.options)?;
    if let Some(found) = ledger.find(&protocol)? {
        return Ok(found);
    }
    let scope = job.clean.scope;
    let memory = ImageMemory::new(job.clean.memory_limit);
    let images = setting.open_images(&job.clean, images, &memory)?;
    let mut seen = setting.observe_images(&images, scope, watcher)?;
    let basis = Basis::fit(&seen.source, scope, setting.model, job.options.clone())?;
    seen.look_again(&images, &job.clean, setting, &basis, Samples::Drawn)?;
    let cell = seen.score(setting, scope, &basis)?;
    let warm = seen.source.outputs.scaled(basis.temperature.value);
    let shift = Some(ShiftReference::fit(&warm, seen.flips_by_batch)?);
    let clean = CleanCell { basis, cell, shift };
    ledger.keep(protocol, &clean, clean.cell.seconds.total())?;
    Ok(clean)
}

/// The images of `clean` with a corruption made in memory, such as `fog:3`, stored as published, or `fog:3,storage=none`.
pub fn corrupted<'a>(clean: &CellRequest<'a>, corruption: &str) -> Result<CellRequest<'a>, RunError> {
    let request: CorruptionRequest = corruption.parse()?;
    // The storage step is a field of its own in protocols.
    let named = CorruptionRequest { storage: None, ..request };
    Ok(CellRequest {
        data: format!("{}@{named}", clean.data),
        dataset: clean.dataset.clone(),
        config: CorruptionStep::join_published(clean.config.clone(), &clean.dataset, request, clean.seed),
        ..*clean
    })
}
