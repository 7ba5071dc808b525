//! Learning what candidates gain, on labelled calibration cells.

use super::trial::{Trial, TrialSetting, start_trials};
use super::{Anchors, Candidate, TRIAL_BATCH, candidates, models_of};
use crate::images::Images;
use crate::ledger::{Ledger, cell_protocol};
use crate::{Basis, CalibrationJob, CellRequest, RunError, Watcher};
use flipcast_estimate::{
    ArbiterFit, ClassShares, DisputeTally, Disputes, GainFit, GainSample, GainSignals, Lineup, Outputs,
};
use flipcast_ground::SplitMix64;
use flipcast_images::dataset::{Dataset, Subset};
use flipcast_images::loader::Order;
use flipcast_models::Model;
use flipcast_record::Protocol;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Images of a cell on which candidates are tried.
pub const ADVICE_IMAGES: usize = 2048;
/// The first images of a trial, on which all candidates are tried, are one of so many parts.
pub(super) const SCREENING_PARTS: usize = 4;
/// Raised whenever trials change for the same protocol.
const TRIALS_VERSION: u32 = 2;

/// What [`advise`](super::advise) needs beside the model and the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceFit {
    /// What is tried, in this order.
    pub candidates: Vec<Candidate>,
    /// Where batch norms are anchored.
    pub anchors: Option<Anchors>,
    /// Gains on the first part of the images.
    pub screening: GainFit,
    /// Gains on all of them.
    pub whole: GainFit,
    /// Gains on as many images as the first part has, where a candidate runs alone.
    pub alone: GainFit,
    /// The candidate that gained most on the calibration's cells, each cell on which it lost counted as one on which nothing was done; none in a fit of an earlier version.
    #[serde(default)]
    pub standby: Option<String>,
    /// Whose answer counts where it differs from the source model's, for every candidate by its name; none in a fit of an earlier version.
    #[serde(default)]
    pub arbiters: BTreeMap<String, ArbiterFit>,
}

/// How images of a calibration cell come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Arrival {
    /// In random order.
    Random,
    /// A few classes have most of them, in random order.
    Skewed,
    /// Class after class.
    Sorted,
}

/// All candidates on one calibration cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellTrials {
    /// One for every candidate but the source model.
    pub trials: Vec<TrialSample>,
}

/// A candidate on a calibration cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSample {
    /// The candidate.
    pub candidate: String,
    /// Signals of the first part.
    pub screening: GainSignals,
    /// Its gain there.
    pub screening_gain: f64,
    /// Signals of all images.
    pub whole: GainSignals,
    /// Its gain there.
    pub gain: f64,
    /// Where its answers differ from the source model's.
    pub disputes: DisputeTally,
}

/// Tries every candidate on the clean images and on every shift of `job`. Shifts come in random order, and once more skewed or sorted by class, in turn. Trials
/// found in `ledger` are taken from there.
///
/// # Errors
/// When images have no labels, cannot be read, or show too few kinds of shift.
pub fn learn_advice(
    job: &CalibrationJob,
    basis: &Basis,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<AdviceFit, RunError> {
    let setting = &job.setting;
    let tried = candidates(setting.model, TRIAL_BATCH)?;
    let clean = draw(&job.clean, Arrival::Random)?;
    let images = Images::open(clean.dataset.clone(), clean.config.clone(), clean.memory_limit)?;
    let anchors = Anchors::gather(setting.model, &images, job.clean.seed, watcher)?;
    drop(images);
    let models = models_of(setting.model, anchors.as_ref(), &tried)?;
    let mut cells = vec![(0, clean), (0, draw(&job.clean, Arrival::Skewed)?), (0, draw(&job.clean, Arrival::Sorted)?)];
    let mut kinds = vec![crate::calibration::CLEAN];
    for (number, shift) in job.shifts.iter().enumerate() {
        let kind = kinds.iter().position(|kind| *kind == shift.kind).unwrap_or_else(|| {
            kinds.push(&shift.kind);
            kinds.len() - 1
        });
        let shifted = job.shifted(shift)?;
        let second = if number % 2 == 0 { Arrival::Skewed } else { Arrival::Sorted };
        for arrival in [Arrival::Random, second] {
            cells.push((kind, draw(&shifted, arrival)?));
        }
    }
    for other in &job.others {
        kinds.push(&other.data);
        cells.push((kinds.len() - 1, draw(other, Arrival::Random)?));
    }
    let (mut screening, mut whole) = (Vec::new(), Vec::new());
    let mut disputes: BTreeMap<String, Vec<DisputeTally>> = BTreeMap::new();
    let mut won = vec![0.0; tried.len()];
    let total = cells.len();
    for (number, (kind, request)) in cells.into_iter().enumerate() {
        watcher.cell(&request.data, number, total);
        let protocol = protocol(job, &request, basis, &tried)?;
        let trials: CellTrials = match ledger.find(&protocol)? {
            Some(found) => found,
            None => {
                let started = Instant::now();
                let made = try_all(job, &request, basis, &tried, &models, watcher)?;
                ledger.keep(protocol, &made, started.elapsed().as_secs_f64())?;
                made
            }
        };
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for trial in trials.trials {
            let place = tried.iter().position(|candidate| candidate.name == trial.candidate);
            won[place.unwrap_or(0)] += trial.gain.max(0.0);
            first.push(GainSample { signals: trial.screening, gain: trial.screening_gain, kind });
            all.push(GainSample { signals: trial.whole, gain: trial.gain, kind });
            disputes.entry(trial.candidate).or_default().push(trial.disputes);
        }
        screening.push(first);
        whole.push(all);
    }
    let standby = (1..tried.len()).max_by(|&a, &b| won[a].total_cmp(&won[b])).map(|place| tried[place].name.clone());
    let arbiter = |(name, cells): (String, Vec<DisputeTally>)| Ok((name, ArbiterFit::fit(&cells)?));
    Ok(AdviceFit {
        standby,
        arbiters: disputes.into_iter().map(arbiter).collect::<Result<_, RunError>>()?,
        candidates: tried,
        anchors,
        screening: GainFit::fit(&screening)?,
        whole: GainFit::fit(&whole)?,
        alone: GainFit::fit_alone(&screening.concat())?,
    })
}

/// What defines the trials of a cell.
fn protocol(
    job: &CalibrationJob,
    request: &CellRequest,
    basis: &Basis,
    tried: &[Candidate],
) -> Result<Protocol, RunError> {
    Ok(cell_protocol("trials", &job.setting, request, &basis.options)?
        .with("trials", &TRIALS_VERSION)?
        .with("temperature", &basis.temperature.value)?
        .with("candidates", &tried)?)
}

/// Some of the labelled images of `request`, as they arrive.
fn draw<'a>(request: &CellRequest<'a>, arrival: Arrival) -> Result<CellRequest<'a>, RunError> {
    let all = request.dataset.len().min(request.config.limit.unwrap_or(usize::MAX));
    let mut labels = Vec::with_capacity(all);
    for index in 0..all {
        let label = request.dataset.label(index)?;
        let classes = request.scope.num_classes();
        let Some(class) = request.scope.alternative(&label) else {
            return Err(match label.is_known() {
                true => RunError::OutsideClassSpace { index, classes },
                false => RunError::Unlabelled { unlabelled: 1, images: all },
            });
        };
        labels.push(class);
    }
    let classes = request.scope.num_classes();
    let seed = SplitMix64::mix(request.seed ^ SplitMix64::hash_text(&format!("{}/{arrival:?}", request.data)));
    let mut rows = match arrival {
        // A class that is used up gives no more images, so that more are asked for.
        Arrival::Skewed => ClassShares::Dirichlet01.draw(&labels, classes, 2 * ADVICE_IMAGES, seed)?,
        Arrival::Random | Arrival::Sorted => ClassShares::Sample.draw(&labels, classes, ADVICE_IMAGES, seed)?,
    };
    rows.truncate(ADVICE_IMAGES);
    if arrival == Arrival::Sorted {
        rows.sort_by_key(|&row| labels[row]);
    }
    let name = match arrival {
        Arrival::Random => String::new(),
        Arrival::Skewed => " skewed".to_owned(),
        Arrival::Sorted => " sorted".to_owned(),
    };
    let dataset: Arc<dyn Dataset> = Arc::new(Subset::new(request.dataset.clone(), rows)?);
    let config = flipcast_images::loader::LoaderConfig { limit: None, ..request.config.clone() };
    Ok(CellRequest { data: format!("{}{name}", request.data), dataset, config, ..*request })
}

/// Runs every candidate on the images of `request`, in their order.
fn try_all(
    job: &CalibrationJob,
    request: &CellRequest,
    basis: &Basis,
    tried: &[Candidate],
    models: &[Model],
    watcher: &mut dyn Watcher,
) -> Result<CellTrials, RunError> {
    let setting = TrialSetting {
        model: job.setting.model,
        scope: request.scope,
        device: job.setting.device,
        temperature: basis.temperature.value,
        seed: job.clean.seed,
    };
    let images = Images::open(request.dataset.clone(), request.config.clone(), request.memory_limit)?;
    let trial = start_trials(&setting, &images, Order::Stored, images.len())?;
    let mut outputs = Vec::with_capacity(tried.len());
    for (number, (candidate, model)) in tried.iter().zip(models).enumerate() {
        watcher.step(number + 1, tried.len());
        outputs.push(if number == 0 { trial.source.clone() } else { trial.run(candidate, model, trial.len())? });
    }
    let first = screening_images(&trial);
    let lineup = Lineup::new(&trial.source, outputs.iter().collect(), trial.batch())?;
    let right = right_answers(&trial, &outputs)?;
    let gain = |place: usize, count: usize| {
        let share = |of: &[bool]| of[..count].iter().filter(|right| **right).count() as f64 / count as f64;
        share(&right[place]) - share(&right[0])
    };
    let trials = (1..tried.len()).map(|place| -> Result<TrialSample, RunError> {
        Ok(TrialSample {
            candidate: tried[place].name.clone(),
            screening: lineup.signals(place, 0..first),
            screening_gain: gain(place, first),
            whole: lineup.signals(place, 0..trial.len()),
            gain: gain(place, trial.len()),
            disputes: disputes_of(&trial, &outputs[place], (&right[0], &right[place]))?,
        })
    });
    Ok(CellTrials { trials: trials.collect::<Result<_, _>>()? })
}

/// Where `outputs` answer otherwise than the source model; which answers are right, of the source model and of the candidate.
fn disputes_of(
    trial: &Trial,
    outputs: &Outputs,
    (source_right, right): (&[bool], &[bool]),
) -> Result<DisputeTally, RunError> {
    let mut tally = DisputeTally::default();
    let mut disputes = Disputes::new(outputs.classes());
    for first in (0..trial.len()).step_by(trial.batch()) {
        let batch = first..(first + trial.batch()).min(trial.len());
        let found = disputes.next(&trial.source, outputs, batch.clone())?;
        for (image, dispute) in batch.zip(&found) {
            if let Some(dispute) = dispute {
                tally.add(dispute, source_right[image], right[image]);
            }
        }
    }
    Ok(tally)
}

/// Images on which every candidate is tried: a part of all, in full batches.
pub(super) fn screening_images(trial: &Trial) -> usize {
    let batches = trial.len() / trial.batch();
    (batches / SCREENING_PARTS).max(2).min(batches) * trial.batch()
}

/// Which answers are right, for every candidate.
fn right_answers(trial: &Trial, outputs: &[Outputs]) -> Result<Vec<Vec<bool>>, RunError> {
    let of = |outputs: &Outputs| {
        let rows = outputs.rows().zip(&trial.labels);
        let right = rows.map(|(row, label)| trial.is_right(row, label));
        right.collect::<Option<Vec<bool>>>()
    };
    let unlabelled = trial.labels.iter().filter(|label| !label.is_known()).count();
    let all: Option<Vec<Vec<bool>>> = outputs.iter().map(of).collect();
    all.ok_or(RunError::Unlabelled { unlabelled, images: trial.len() })
}
