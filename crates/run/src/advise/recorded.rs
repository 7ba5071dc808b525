//! Advice on the images of a request, made once.

use super::race::{AdviceJob, AdviceOrder, advise};
use super::{ADVICE_IMAGES, AdviceFit};
use crate::estimate::{EstimateSource, estimates_protocol};
use crate::{Calibration, CellRequest, Images, Ledger, RunError, Setting, Watcher};
use flipcast_record::results::AdviceResult;
use std::time::Instant;

/// Raised whenever advice changes for the same calibration and images.
const ADVICE_VERSION: u32 = 1;

/// How images are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdviceOptions {
    /// In which order they come.
    pub order: AdviceOrder,
    /// How many are tried, at most.
    pub limit: usize,
    /// Probability with which intervals are meant to hold the truth.
    pub level: f64,
}

impl Default for AdviceOptions {
    fn default() -> Self {
        Self { order: AdviceOrder::Shuffled, limit: ADVICE_IMAGES, level: 0.9 }
    }
}

/// Advises on the images of `request` with `fit`, the advice of `calibration`: beside the gains, what the source model does on all of them. From `ledger`, or
/// else made and kept there.
///
/// # Errors
/// When images cannot be read, or the fit is that of another model.
pub fn advise_on(
    setting: &Setting,
    (calibration, fit): (&Calibration, &AdviceFit),
    request: &CellRequest,
    options: AdviceOptions,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<AdviceResult, RunError> {
    let protocol = estimates_protocol("advice", setting, request)?
        .with("advice_version", &ADVICE_VERSION)?
        .with("calibration", &calibration.key()?)?
        .with("order", &options.order)?
        .with("limit", &options.limit)?
        .with("level", &options.level)?;
    if let Some(known) = ledger.find(&protocol)? {
        return Ok(known);
    }
    let started = Instant::now();
    let with = EstimateSource::Calibration(calibration, None);
    let (cell, mut estimates) = setting.estimate(with, request, options.level, ledger, watcher)?;
    let images = Images::open(request.dataset.clone(), request.config.clone(), request.memory_limit)?;
    let job = AdviceJob {
        model: setting.model,
        device: setting.device,
        images: &images,
        scope: request.scope,
        fit,
        temperature: calibration.basis.temperature.value,
        order: options.order,
        limit: options.limit,
        seed: request.seed,
        level: options.level,
    };
    let result = AdviceResult {
        source: estimates.source.remove("combined"),
        accuracy: cell.accuracy,
        advice: advise(&job, watcher)?,
    };
    ledger.keep(protocol, &result, started.elapsed().as_secs_f64())?;
    Ok(result)
}
