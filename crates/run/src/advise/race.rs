//! The race: all candidates on some of the images, the best on all.

use super::learn::screening_images;
use super::trial::{TrialSetting, start_trials};
use super::{AdviceFit, Candidate, models_of};
use crate::images::Images;
use crate::{Device, RunError, Scope, Watcher};
use flipcast_estimate::{GainFit, GainSignals, Lineup, Outputs};
use flipcast_images::loader::Order;
use flipcast_models::Model;
use flipcast_record::results::{Advice, Phase, TriedCandidate};
use serde::{Deserialize, Serialize};

/// Candidates that are tried on all images, beside those that only predict.
pub const FINALISTS: usize = 4;
/// A candidate is recommended if it is expected to gain at least this much, and the risk of losing accuracy is known.
pub const LEAST_GAIN: f64 = 0.005;
/// Parts of the images by which gains are followed.
const PARTS: usize = 4;
/// A gain that falls by less than this is level, however many images speak for it.
const LEVEL: f64 = 0.01;

/// What to advise on.
pub struct AdviceJob<'a> {
    /// The source model.
    pub model: &'a Model,
    /// Where networks run.
    pub device: Device,
    /// The images, which need no labels.
    pub images: &'a Images,
    /// Which outputs count.
    pub scope: &'a Scope,
    /// What was learned on labelled images.
    pub fit: &'a AdviceFit,
    /// The temperature of clean images.
    pub temperature: f64,
    /// In which order images come.
    pub order: AdviceOrder,
    /// Images at most.
    pub limit: usize,
    /// Seed of the order and of methods that draw random numbers.
    pub seed: u64,
    /// Probability with which intervals are meant to hold the truth.
    pub level: f64,
}

/// In which order images come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceOrder {
    /// Shuffled, as is right for images that are all at hand; streams keep their order.
    Shuffled,
    /// As they are stored, as a deployed model would meet them.
    Stored,
}

/// Tries the candidates on images nobody labelled: all of them on the first part, those that only predict and the best [`FINALISTS`] on the rest.
///
/// # Errors
/// When images cannot be read, or the fit is that of another model.
pub fn advise(job: &AdviceJob, watcher: &mut dyn Watcher) -> Result<Advice, RunError> {
    let fit = job.fit;
    let setting = TrialSetting {
        model: job.model,
        scope: job.scope,
        device: job.device,
        temperature: job.temperature,
        seed: job.seed,
    };
    let order = match job.order {
        AdviceOrder::Shuffled => Order::Shuffled { seed: job.seed },
        AdviceOrder::Stored => Order::Stored,
    };
    let trial = start_trials(&setting, job.images, order, job.limit)?;
    let models = models_of(job.model, fit.anchors.as_ref(), &fit.candidates)?;
    let first = screening_images(&trial);
    let forward: Vec<bool> = fit.candidates.iter().map(Candidate::is_forward_only).collect();
    let mut cost = 0.0;
    let mut screened: Vec<Outputs> = Vec::with_capacity(models.len());
    let total = fit.candidates.len() + FINALISTS;
    for (place, (candidate, model)) in fit.candidates.iter().zip(&models).enumerate() {
        watcher.step(place + 1, total);
        // What only predicts is tried on everything at once.
        let count = if forward[place] { trial.len() } else { first };
        screened.push(if place == 0 { trial.source.clone() } else { trial.run(candidate, model, count)? });
        cost += count as f64 * if forward[place] { FORWARD_COST } else { 1.0 };
    }
    let source_first = trial.source_of(first)?;
    let cut: Vec<Outputs> = screened.iter().map(|outputs| first_rows(outputs, first)).collect::<Result<_, _>>()?;
    let lineup = Lineup::new(&source_first, cut.iter().collect(), trial.batch())?;
    let screening: Vec<GainSignals> = (0..cut.len()).map(|place| lineup.signals(place, 0..first)).collect();
    let mut ranked: Vec<usize> = (1..cut.len()).filter(|&place| !forward[place]).collect();
    ranked.sort_by(|&a, &b| fit.screening.gain(&screening[b]).total_cmp(&fit.screening.gain(&screening[a])));
    ranked.truncate(FINALISTS);
    let mut finalists: Vec<usize> = (1..cut.len()).filter(|&place| forward[place]).collect();
    for (number, &place) in ranked.iter().enumerate() {
        watcher.step(fit.candidates.len() + number + 1, total);
        screened[place] = trial.run(&fit.candidates[place], &models[place], trial.len())?;
        cost += trial.len() as f64;
        finalists.push(place);
    }
    let outputs: Vec<&Outputs> = std::iter::once(0).chain(finalists.iter().copied()).map(|p| &screened[p]).collect();
    let lineup = Lineup::new(&trial.source, outputs, trial.batch())?;
    let source_accuracy = trial.accuracy(&trial.source, trial.len());
    let mut tried = Vec::with_capacity(cut.len());
    for (number, &place) in finalists.iter().enumerate() {
        let signals = lineup.signals(number + 1, 0..trial.len());
        let part = trial.len() / trial.batch() / PARTS * trial.batch();
        let span = |part_number: usize| {
            part_number * part..if part_number + 1 == PARTS { trial.len() } else { (part_number + 1) * part }
        };
        let curve: Vec<f64> = match part {
            0 => Vec::new(),
            _ => (0..PARTS).map(|p| fit.screening.gain(&lineup.signals(number + 1, span(p)))).collect(),
        };
        let truth =
            trial.accuracy(&screened[place], trial.len()).zip(source_accuracy).map(|(own, source)| own - source);
        // By chance alone, gains of two parts differ by about this much.
        let chance = (2.0 * signals.flips / part.max(1) as f64).sqrt();
        let phase = phase_of(&curve, chance.max(LEVEL));
        tried.push(judge(&fit.candidates[place], &fit.whole, &signals, job.level, (curve, phase, truth)));
    }
    let rest = (1..cut.len()).filter(|place| !finalists.contains(place));
    let source_truth = trial.accuracy(&source_first, first);
    let others: Vec<TriedCandidate> = rest
        .map(|place| {
            let truth = trial.accuracy(&cut[place], first).zip(source_truth).map(|(own, source)| own - source);
            judge(&fit.candidates[place], &fit.screening, &screening[place], job.level, (Vec::new(), None, truth))
        })
        .collect();
    tried.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    let best = tried.first().filter(|best| best.gain >= LEAST_GAIN && best.risk.is_some());
    let recommended = best.map(|best| best.candidate.clone());
    let stop_after = best.filter(|best| best.phase == Some(Phase::Falling)).map(|best| {
        let peak = (0..best.curve.len()).max_by(|&a, &b| best.curve[a].total_cmp(&best.curve[b])).unwrap_or(0);
        (peak + 1) * (trial.len() / trial.batch() / PARTS * trial.batch())
    });
    let mut others = others;
    others.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    tried.extend(others);
    let adaptations = cost / trial.len() as f64;
    Ok(Advice { images: trial.len(), batch_size: trial.batch(), tried, recommended, stop_after, adaptations })
}

/// What a forward pass costs of a step, which goes forward once and back twice.
const FORWARD_COST: f64 = 1.0 / 3.0;

type Seen = (Vec<f64>, Option<Phase>, Option<f64>);

fn judge(candidate: &Candidate, fit: &GainFit, signals: &GainSignals, level: f64, seen: Seen) -> TriedCandidate {
    let (gain, half) = (fit.gain(signals), fit.half_width(signals, level));
    let (curve, phase, truth) = seen;
    TriedCandidate {
        candidate: candidate.to_advised(),
        images: signals.images,
        gain,
        low: (gain - half).max(-1.0),
        high: (gain + half).min(1.0),
        risk: fit.risk(signals),
        flips: signals.flips,
        curve,
        phase,
        truth,
    }
}

/// Where a run with this `curve` is at its end, differences below `level` aside.
fn phase_of(curve: &[f64], level: f64) -> Option<Phase> {
    let (&last, before) = curve.split_last()?;
    let (best, first) = (before.iter().copied().fold(f64::NEG_INFINITY, f64::max), before.first().copied()?);
    Some(if last < best - level {
        Phase::Falling
    } else if last > first + level {
        Phase::Growing
    } else {
        Phase::Level
    })
}

fn first_rows(outputs: &Outputs, count: usize) -> Result<Outputs, RunError> {
    let classes = outputs.classes();
    Ok(Outputs::new(outputs.logits()[..count * classes].to_vec(), classes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_told_by_the_end_of_the_curve() {
        assert_eq!(phase_of(&[0.01, 0.03, 0.05, 0.06], 0.01), Some(Phase::Growing));
        assert_eq!(phase_of(&[0.05, 0.055, 0.05, 0.052], 0.01), Some(Phase::Level));
        assert_eq!(phase_of(&[0.02, 0.06, 0.05, 0.01], 0.01), Some(Phase::Falling));
        assert_eq!(phase_of(&[0.02, 0.06, 0.05, 0.01], 0.06), Some(Phase::Level));
        assert_eq!(phase_of(&[0.01], 0.01), None);
        assert_eq!(phase_of(&[], 0.01), None);
    }
}
