//! Calibration: clean labelled images and corruptions made from them become a [`Calibration`].

use crate::basis::{Basis, ScoreOptions};
use crate::calibration::{CALIBRATION_FORMAT, Calibration, ModelIdentity, fit_scores};
use crate::cell::{CellRequest, Setting};
use crate::clean_images::CleanImages;
use crate::ledger::{Ledger, cell_protocol};
use crate::{RunError, Watcher};
use flipcast_corrupt::{CorruptionRequest, CorruptionStep, Storage, published_storage};
use flipcast_record::results::{CalibrationCell, Cell};
use serde::{Deserialize, Serialize};

/// The corruptions that ImageNet-C keeps apart for such uses, each at severities 1 to 5.
pub const HELD_OUT: [&str; 4] = ["speckle_noise", "gaussian_blur", "spatter", "saturate"];

/// What to calibrate on.
pub struct CalibrationJob<'a> {
    /// Model and flips.
    pub setting: Setting<'a>,
    /// Clean labelled images; its loader has no corruption.
    pub clean: CellRequest<'a>,
    /// Choices of the estimators.
    pub options: ScoreOptions,
    /// The storage step of the corruptions; `None` for that of the published set that suits the images' size.
    pub storage: Option<Storage>,
}

impl CalibrationJob<'_> {
    /// The storage step of all its corruptions. Those with stronger constants than the images' size asks for have it too.
    pub fn storage(&self) -> Result<Storage, RunError> {
        let first: CorruptionRequest = format!("{}:1", HELD_OUT[0]).parse()?;
        let first = CorruptionRequest { storage: self.storage, ..first };
        Ok(published_storage(&self.clean.config, &self.clean.dataset, first))
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
}

/// Looks at the clean images and at every held-out corruption, and fits what every estimator needs. Cells found in
/// `ledger` are taken from there.
pub fn calibrate(
    job: &CalibrationJob,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<Calibration, RunError> {
    let setting = &job.setting;
    let mut cells = Vec::new();

    let images = CleanImages::default();
    watcher.cell("clean", 0, 1 + 5 * HELD_OUT.len());
    let clean = clean_cell(job, &images, ledger, watcher)?;
    let basis = clean.basis;
    cells.push(CalibrationCell { name: "clean".to_owned(), group: "clean".to_owned(), cell: clean.cell });
    let storage = job.storage()?;
    let mut plan = standard_cells("");
    let mut next = 0;
    while let Some((name, group)) = plan.get(next).cloned() {
        watcher.cell(&name, cells.len(), 1 + plan.len());
        let request = corrupted(&job.clean, &format!("{name},storage={storage}"))?;
        let cell = setting.cell_sharing("calibrate", &request, &basis, &images, ledger, watcher)?;
        cells.push(CalibrationCell { name, group, cell });
        next += 1;
        if next == 5 * HELD_OUT.len() && spans_too_little(&cells, job.clean.scope.num_classes()) {
            plan.extend(standard_cells("imagenet-c/"));
        }
    }
    let source =
        fit_scores(&cells, setting.protocol, ["cot", "wf"], |cell| (&cell.source, cell.accuracy, cell.images))?;
    let adapted = fit_scores(&cells, setting.protocol, ["cot", "wf_batch"], |cell| {
        (&cell.adapted, cell.adapted_accuracy, cell.probe_images)
    })?;
    Ok(Calibration {
        flipcast_calibration: CALIBRATION_FORMAT,
        made_by: format!("flipcast {}", env!("CARGO_PKG_VERSION")),
        model: ModelIdentity::of(setting.model),
        preprocess: job.clean.preprocess.clone(),
        class_space: job.clean.scope.name(),
        protocol: setting.protocol.clone(),
        data: job.clean.data.clone(),
        seed: job.clean.seed,
        storage,
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
    let seen = setting.observe_sharing(&job.clean, images, watcher)?;
    let basis = Basis::fit(&seen.source, scope, job.options.clone())?;
    let cell = seen.score(scope, setting, &basis)?;
    let clean = CleanCell { basis, cell };
    ledger.keep(protocol, &clean, clean.cell.seconds.total())?;
    Ok(clean)
}

/// The held-out corruptions at all severities, with the constants of a set: names and groups.
pub fn standard_cells(set: &str) -> Vec<(String, String)> {
    let severities = |corruption: &str| {
        let corruption = corruption.to_owned();
        (1..=5).map(move |s| (format!("{set}{corruption}:{s}"), corruption.clone()))
    };
    HELD_OUT.into_iter().flat_map(severities).collect()
}

/// Whether no cell is nearer to guessing than to the clean accuracy. A curve fitted to such cells would have to be
/// continued far beyond them, so the stronger constants of ImageNet-C are looked at too.
fn spans_too_little(cells: &[CalibrationCell], num_classes: usize) -> bool {
    let accuracies = || cells.iter().filter_map(|cell| cell.cell.accuracy);
    let clean = accuracies().next().unwrap_or(0.0);
    let lowest = accuracies().fold(1.0, f64::min);
    lowest > 0.5 * (clean + 1.0 / num_classes as f64)
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
