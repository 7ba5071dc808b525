//! Every estimator's score for what was seen of a dataset.

use crate::RunError;
use crate::basis::Basis;
use crate::cell::{Observation, Setting};
use crate::flips::STARVED;
use crate::head::aetta_of;
use flipcast_estimate::{
    AtcScore, CurveKind, Direction, EstimateError, Flag, ManoConfig, Outputs, Score, ac, atc, cot, cott, dispersion,
    doc, flips, im, mano, mde, measure_mismatch, nuclear_norm, weighted_flips,
};
use std::collections::BTreeMap;

/// Scores by name.
pub(crate) type Scores = BTreeMap<&'static str, Score>;

/// A score an estimator gives.
#[derive(Clone, Copy, Debug)]
pub struct ScoreInfo {
    /// Its name in tables and files.
    pub name: &'static str,
    /// One line for the reader.
    pub summary: &'static str,
    /// Whether it is an accuracy as it stands.
    pub is_accuracy: bool,
    /// Whether it counts flips; the protocol then chooses the curve.
    pub is_flips: bool,
    /// The curve that turns it into one, or corrects it.
    pub curve: CurveKind,
    /// Which way the curve runs.
    pub direction: Direction,
}

const fn accuracy(name: &'static str, summary: &'static str) -> ScoreInfo {
    ScoreInfo {
        name,
        summary,
        is_accuracy: true,
        is_flips: false,
        curve: CurveKind::Linear,
        direction: Direction::Increasing,
    }
}

const fn signal(name: &'static str, summary: &'static str, direction: Direction) -> ScoreInfo {
    ScoreInfo { name, summary, is_accuracy: false, is_flips: false, curve: CurveKind::Linear, direction }
}

const fn flip(name: &'static str, summary: &'static str) -> ScoreInfo {
    ScoreInfo {
        name,
        summary,
        is_accuracy: false,
        is_flips: true,
        curve: CurveKind::Monotone,
        direction: Direction::Decreasing,
    }
}

/// All scores, in the order of tables.
pub const SCORES: &[ScoreInfo] = &[
    flip("wf", "weighted flips from the source model's predictions to the adapted model's"),
    flip(
        "wf_batch",
        "weighted flips as published: from batch statistics, before to after adapting; with batch norms only",
    ),
    flip("wf_unweighted", "flips from the source model's predictions, all counted alike"),
    flip(
        "statistics_flips",
        "weighted flips from running to batch statistics, without adapting; with batch norms only",
    ),
    accuracy("ac", "average confidence"),
    accuracy("doc", "difference of confidence"),
    accuracy("im", "importance re-weighting by confidence"),
    accuracy("atc_mc", "average thresholded confidence, by maximum confidence"),
    accuracy("atc_ne", "average thresholded confidence, by negative entropy"),
    accuracy("cot", "confidence under optimal transport to the class shares"),
    accuracy("cott", "confidence under optimal transport, thresholded"),
    signal("nuclear_norm", "nuclear norm of the predictions", Direction::Increasing),
    signal("mano", "matrix norm of the normalised logits", Direction::Increasing),
    signal("mde", "meta-distribution energy", Direction::Increasing),
    signal("dispersion", "dispersion of the predicted classes' embeddings", Direction::Increasing),
    accuracy("aetta", "agreement under dropout"),
];

/// What is known about the score called `name`.
pub fn score_info(name: &str) -> Option<&'static ScoreInfo> {
    SCORES.iter().find(|info| info.name == name)
}

/// Scores for the accuracy of the source model.
pub(crate) fn score_source(look: &Observation, setting: &Setting, basis: &Basis) -> Result<Scores, RunError> {
    let outputs = &look.source.outputs;
    let mut scores = score_outputs(&basis.warm(outputs), basis)?;
    let predicted = outputs.classes_predicted();
    let embeddings = &look.source.embeddings;
    let seen = dispersion(embeddings, &predicted, outputs.classes());
    let seen = seen.map(|score| dispersion_of_a_thousand(score, outputs.images()));
    insert(&mut scores, "dispersion", seen)?;
    // A class space of its own has other alternatives than the head.
    if outputs.classes() == setting.model.num_classes()
        && let Some(score) = aetta_of(setting.model, embeddings)
    {
        insert(&mut scores, "aetta", score)?;
    }

    let rows = look.flips.rows_in(&look.source.indices)?;
    let confidences = outputs.confidences();
    let anchor: Vec<usize> = rows.iter().map(|&row| predicted[row]).collect();
    let confidence: Vec<f64> = rows.iter().map(|&row| confidences[row]).collect();
    let initial = look.flips.initial.classes_predicted();
    // Without running statistics the two anchors are one: no flips before the first step, and the same ones after the last.
    let has_statistics = setting.model.graph().has_batch_norm();
    if has_statistics {
        let step_0 = weighted_flips(&anchor, &confidence, &initial);
        insert(&mut scores, "statistics_flips", step_0)?;
    }
    let Some(stop) = look.flips.stops.last() else {
        return Ok(scores);
    };
    let adapted = stop.outputs.classes_predicted();
    insert(&mut scores, "wf", weighted_flips(&anchor, &confidence, &adapted))?;
    insert(&mut scores, "wf_unweighted", flips(&anchor, &adapted))?;
    if has_statistics {
        let published = look.batch_anchored(&initial, &adapted);
        insert(&mut scores, "wf_batch", published)?;
    } else {
        for name in ["wf", "wf_unweighted"] {
            if let Some(score) = scores.get_mut(name) {
                score.raise(Flag::NoRunningStatistics);
            }
        }
    }
    if setting.protocol.last_stop() > 0 && look.flips.adaptation.used_share() < STARVED {
        for name in ["wf", "wf_unweighted", "wf_batch"] {
            if let Some(score) = scores.get_mut(name) {
                score.raise(Flag::FilterStarved);
            }
        }
    }
    Ok(scores)
}

/// Scores that need no labelled images: batch-anchored flips, AC, and COT with uniform class shares.
pub(crate) fn score_without_basis(look: &Observation) -> Result<Scores, RunError> {
    let outputs = &look.source.outputs;
    let classes = outputs.classes();
    let mut scores = Scores::new();
    insert(&mut scores, "ac", ac(outputs))?;
    insert(&mut scores, "cot", cot(outputs, &vec![1.0 / classes as f64; classes]))?;
    if let Some(stop) = look.flips.stops.last() {
        let initial = look.flips.initial.classes_predicted();
        let mut flipped = look.batch_anchored(&initial, &stop.outputs.classes_predicted())?;
        if look.flips.adaptation.used_share() < STARVED {
            flipped.raise(Flag::FilterStarved);
        }
        insert(&mut scores, "wf_batch", Ok(flipped))?;
    }
    Ok(scores)
}

/// Scores for the accuracy of the adapted model, from its outputs on the probe.
pub(crate) fn score_adapted(look: &Observation, basis: &Basis) -> Result<Scores, RunError> {
    let Some(stop) = look.flips.stops.last() else {
        return Ok(Scores::new());
    };
    let mut scores = score_outputs(&basis.warm(&stop.outputs), basis)?;
    let initial = look.flips.initial.classes_predicted();
    let flipped = look.batch_anchored(&initial, &stop.outputs.classes_predicted());
    insert(&mut scores, "wf_batch", flipped)?;
    Ok(scores)
}

/// Scores that need nothing but outputs.
fn score_outputs(outputs: &Outputs, basis: &Basis) -> Result<Scores, RunError> {
    let (reference, marginal) = (&basis.reference, basis.shares(outputs)?);
    let mut scores = Scores::new();
    insert(&mut scores, "ac", ac(outputs))?;
    insert(&mut scores, "doc", doc(outputs, reference))?;
    insert(&mut scores, "im", im(outputs, reference))?;
    insert(&mut scores, "atc_mc", atc(outputs, reference, AtcScore::MaxConfidence))?;
    insert(&mut scores, "atc_ne", atc(outputs, reference, AtcScore::NegativeEntropy))?;
    let mut transported = cot(outputs, &marginal)?;
    let mismatch = measure_mismatch(outputs, &marginal, &basis.marginals.marginal)?;
    if let Some(flag) = mismatch.flag() {
        transported.raise(flag);
    }
    insert(&mut scores, "cot", Ok(transported))?;
    insert(&mut scores, "cott", cott(outputs, &marginal, basis.cott_threshold))?;
    insert(&mut scores, "nuclear_norm", nuclear_norm(outputs))?;
    insert(&mut scores, "mano", mano(outputs, &ManoConfig::published()))?;
    insert(&mut scores, "mde", mde(outputs, 1.0).map(|score| energy_of_a_thousand(score, outputs.images())))?;
    Ok(scores)
}

/// The published score grows with the number of images: it is `ln(ln n + excess)`. Here `n` is always taken as 1,000, so that
/// datasets of different sizes can be compared; the excess is the part that depends on the shift.
fn energy_of_a_thousand(mut score: Score, images: usize) -> Score {
    let excess = score.value.exp() - (images as f64).ln();
    score.value = (excess + 1000f64.ln()).max(f64::MIN_POSITIVE).ln();
    score
}

/// The published score is the logarithm of a sum over images; here of their mean, times 1,000.
fn dispersion_of_a_thousand(mut score: Score, images: usize) -> Score {
    score.value += (1000.0 / images as f64).ln();
    score
}

/// Keeps a score; one that is not defined for these images is left out, any other failure is passed on.
fn insert(scores: &mut Scores, name: &'static str, score: Result<Score, EstimateError>) -> Result<(), RunError> {
    match score {
        Ok(score) => {
            scores.insert(name, score);
            Ok(())
        }
        Err(EstimateError::TooFew { .. } | EstimateError::Undefined { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Observation {
    /// Flips of the probe from batch statistics before adapting, as published.
    fn batch_anchored(&self, initial: &[usize], adapted: &[usize]) -> Result<Score, EstimateError> {
        weighted_flips(initial, &self.flips.initial.confidences(), adapted)
    }
}
