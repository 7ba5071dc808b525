//! What a calibration will cost, measured on one batch before it begins.

use crate::calibrate::{CalibrationJob, CleanCell};
use crate::ledger::{Ledger, cell_protocol, scored_protocol};
use crate::second_look::expected_looks;
use crate::{Cell, CellRequest, FlipProtocol, Images, RunError, Unwatched, collect_flips, run_source};
use std::time::Instant;

/// Images of the batch that is measured.
const MEASURED: usize = 64;

/// What a calibration has to do, and how long that takes on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationCost {
    /// Cells that have to be made.
    pub cells: usize,
    /// Cells that are known from an earlier run.
    pub known: usize,
    /// Images of one cell.
    pub images: usize,
    /// Predictions of single images, those of the probe included.
    pub predictions: usize,
    /// Adaptation steps.
    pub steps: usize,
    /// Images of one step.
    pub step_images: usize,
    /// Seconds for all of it, at the pace of one batch and one step.
    pub seconds: f64,
}

/// Measures one batch of the source pass and one adaptation step of `job`, and counts what is to be done beside the cells
/// that `ledger` holds. Nothing is measured when every cell is known.
pub fn measure_cost(job: &CalibrationJob, ledger: &Ledger) -> Result<CalibrationCost, RunError> {
    let protocol = job.setting.protocol;
    let limits = [job.clean.config.limit, protocol.image_limit];
    let images = limits.into_iter().flatten().fold(job.clean.dataset.len(), usize::min);
    if images == 0 {
        return Err(RunError::NoImages);
    }
    let known = known_cells(job, ledger)?;
    let cells = job.cells() - known;
    // The probe is predicted before the first step and at every stop behind it.
    let probes = 1 + protocol.stops.iter().filter(|&&stop| stop > 0).count();
    let probed = probes * protocol.probe_images.min(images);
    let looks = expected_looks(job.setting.model, job.clean.scope.num_classes(), images);
    let step_images = protocol.batch_size.min(images);
    let steps = protocol.last_stop();
    let mut seconds = 0.0;
    if cells > 0 {
        let pace = measure_pace(job)?;
        let (read, passed) = (images as f64, (images + probed) as f64 + looks.passes);
        let adapted = (steps * step_images) as f64;
        seconds = cells as f64 * (read * pace.load + passed * pace.predict + adapted * pace.adapt);
    }
    let predictions = cells * (images + probed + looks.predictions);
    Ok(CalibrationCost { cells, known, images, predictions, steps: cells * steps, step_images, seconds })
}

/// Seconds per image.
struct Pace {
    load: f64,
    predict: f64,
    adapt: f64,
}

fn measure_pace(job: &CalibrationJob) -> Result<Pace, RunError> {
    let (setting, scope) = (&job.setting, job.clean.scope);
    let mut config = job.clean.config.clone();
    config.limit = Some(config.limit.unwrap_or(usize::MAX).min(MEASURED.max(setting.protocol.batch_size)));
    let started = Instant::now();
    let images = Images::open(job.clean.dataset.clone(), config, job.clean.memory_limit)?;
    let load = started.elapsed().as_secs_f64() / images.len().max(1) as f64;
    let one_step = FlipProtocol { stops: vec![1], probe_images: 2, ..setting.protocol.clone() };
    let measure = || -> Result<Pace, RunError> {
        let started = Instant::now();
        run_source(setting.model, &images, scope, setting.device, &mut Unwatched)?;
        let predict = started.elapsed().as_secs_f64() / images.len().max(1) as f64;
        if setting.protocol.last_stop() == 0 {
            return Ok(Pace { load, predict, adapt: 0.0 });
        }
        let started = Instant::now();
        let flips = collect_flips(setting.model, &images, scope, &one_step, setting.device, &mut Unwatched)?;
        Ok(Pace { load, predict, adapt: started.elapsed().as_secs_f64() / flips.adaptation.seen.max(1) as f64 })
    };
    // The first network is made and touches its memory for the first time; on a GPU it also compiles kernels and chooses algorithms.
    measure()?;
    measure()
}

/// How many of the cells that every calibration has are in `ledger`.
fn known_cells(job: &CalibrationJob, ledger: &Ledger) -> Result<usize, RunError> {
    let protocol = cell_protocol("calibrate", &job.setting, &job.clean, &job.options)?;
    let Some(clean) = ledger.find::<CleanCell>(&protocol)? else {
        return Ok(0);
    };
    let mut known = 1;
    let mut count = |request: &CellRequest| -> Result<(), RunError> {
        let protocol = scored_protocol("calibrate", &job.setting, request, &clean.basis)?;
        known += usize::from(ledger.find::<Cell>(&protocol)?.is_some());
        Ok(())
    };
    for shift in &job.shifts {
        count(&job.shifted(shift)?)?;
    }
    job.others.iter().try_for_each(count)?;
    Ok(known)
}
