//! The calibration artefact: everything an estimate needs beside the model and the images.

use crate::advise::AdviceFit;
use crate::basis::Basis;
use crate::error::RunError;
use crate::flip_protocol::FlipProtocol;
use flipcast_corrupt::Storage;
use flipcast_estimate::{
    AccuracyFit, AdaptedFit, ClassShares, Combination, CurveKind, EstimateError, FitPoint, SCORES, ScoreFit,
    ShiftReference, SignalSample, Signals, StepsSample, direct_errors,
};
use flipcast_exec::NormMode;
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use flipcast_record::Protocol;
use flipcast_record::results::{CalibrationCell, Cell, Fits, ScoreSummary, Steps};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format this version writes.
pub const CALIBRATION_FORMAT: u32 = 8;
/// The cell of images as they are, and its group.
pub(crate) const CLEAN: &str = "clean";

/// Which weights an artefact belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// The model's name.
    pub name: String,
    /// SHA-256 of the weight file.
    pub weights_sha256: Option<String>,
    /// Outputs of the network.
    pub num_classes: usize,
}

impl ModelIdentity {
    /// Of `model`.
    pub fn of(model: &Model) -> Self {
        Self {
            name: model.name().to_owned(),
            weights_sha256: model.weights_sha256().map(str::to_owned),
            num_classes: model.num_classes(),
        }
    }
}

/// What `flipcast calibrate` writes. Bound to weights, preprocessing, class space and protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Format version.
    pub flipcast_calibration: u32,
    /// The program's version.
    pub made_by: String,
    /// The weights.
    pub model: ModelIdentity,
    /// How images reach the network.
    pub preprocess: Preprocess,
    /// Which outputs are scored.
    pub class_space: String,
    /// How flips are counted.
    pub protocol: FlipProtocol,
    /// The labelled images, as they were called.
    pub data: String,
    /// Seed of the corruptions.
    pub seed: u64,
    /// The storage step of the corruptions; an artefact without this field was made without one.
    #[serde(default, skip_serializing_if = "Storage::is_none")]
    pub storage: Storage,
    /// What the clean images teach.
    pub basis: Basis,
    /// The source model's accuracy from signals, whatever the class shares and the number of images. An artefact of format 1 has
    /// none, and its combined estimate needs the labelled images' class shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<AccuracyFit>,
    /// The adapted model's accuracy from signals; `None` where kinds of shift are too few or the method mixes statistics, and its combined estimate then needs the
    /// labelled images' class shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted_accuracy: Option<AdaptedFit>,
    /// What clean images look like to tests that watch a stream; an artefact of an earlier version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<ShiftReference>,
    /// What candidates gain, for advice on adapting; only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceFit>,
    /// The cells.
    pub cells: Vec<CalibrationCell>,
    /// For the source model's accuracy.
    pub source: Fits,
    /// For the adapted model's accuracy.
    pub adapted: Fits,
}

impl Calibration {
    /// This version of the program, as calibrations name it.
    pub const MADE_BY: &str = concat!("flipcast ", env!("CARGO_PKG_VERSION"));

    /// A hash of everything it holds, by which records name it.
    pub fn key(&self) -> Result<String, RunError> {
        Ok(Protocol::new("calibration").with("calibration", self)?.key())
    }
}

/// What a calibration learns from its cells alone.
pub(crate) struct CellFits {
    pub source: Fits,
    pub adapted: Fits,
    pub accuracy: Option<AccuracyFit>,
    pub adapted_accuracy: Option<AdaptedFit>,
}

impl CellFits {
    /// Fits everything to `cells` of one network and protocol.
    pub(crate) fn fit(
        cells: &[CalibrationCell],
        protocol: &FlipProtocol,
        has_batch_norm: bool,
    ) -> Result<Self, RunError> {
        let curve = protocol.curve();
        Ok(Self {
            source: fit_scores(cells, curve, ["cot", "wf"], |cell| (&cell.source, cell.accuracy, cell.images))?,
            adapted: fit_scores(cells, curve, ["cot", "wf_batch"], |cell| {
                (&cell.adapted, cell.adapted_accuracy, cell.probe_images)
            })?,
            accuracy: fit_accuracy(cells, Look::Source)?,
            adapted_accuracy: fit_adapted(cells, protocol.method.norm_mode(), has_batch_norm)?,
        })
    }
}

/// Fits curves to `cells`, whose scores, truth and number of images `seen` gives; those of flips are of `flip_curve`.
pub(crate) fn fit_scores(
    cells: &[CalibrationCell],
    flip_curve: CurveKind,
    combined: [&str; 2],
    seen: impl Fn(&Cell) -> (&BTreeMap<String, ScoreSummary>, Option<f64>, usize),
) -> Result<Fits, RunError> {
    let groups = group_numbers(cells);
    let mut by_score = BTreeMap::new();
    let mut direct = BTreeMap::new();
    for info in SCORES {
        let mut points = Vec::with_capacity(cells.len());
        for (cell, &group) in cells.iter().zip(&groups) {
            let (scores, truth, images) = seen(&cell.cell);
            // A score that is missing in some cell cannot be fitted.
            let (Some(score), Some(accuracy)) = (scores.get(info.name), truth) else {
                break;
            };
            points.push(FitPoint {
                score: score.value,
                standard_error: score.standard_error.unwrap_or(0.0),
                accuracy,
                images,
                group,
            });
        }
        if points.len() < cells.len() {
            continue;
        }
        let name = info.name.to_owned();
        if info.is_accuracy {
            direct.insert(name.clone(), direct_errors(&points));
        }
        let curve = if info.is_flips { flip_curve } else { info.curve };
        match ScoreFit::fit(curve, info.direction, &points) {
            Ok(fit) => drop(by_score.insert(name, fit)),
            // A score that is the same whatever is done to the images says nothing.
            Err(EstimateError::Undefined { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let combined = Combination::fit(&by_score, combined)?;
    Ok(Fits { by_score, direct, combined })
}

/// Whose accuracy is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The source model's.
    Source,
    /// The second look's.
    Second,
}

/// Fits the accuracy to the cells and to samples of them; `None` where these are too few.
pub(crate) fn fit_accuracy(cells: &[CalibrationCell], look: Look) -> Result<Option<AccuracyFit>, RunError> {
    let mut samples = Vec::new();
    for (cell, group) in cells.iter().zip(kinds(cells)) {
        let Cell { signals: Some(signals), accuracy: Some(accuracy), second_accuracy, .. } = cell.cell else {
            return Ok(None);
        };
        let mut add = |signals: Signals, accuracy: f64, second_accuracy: Option<f64>, shares: ClassShares| {
            let accuracy = match look {
                Look::Source => Some(accuracy),
                Look::Second => second_accuracy,
            };
            samples.extend(accuracy.map(|accuracy| SignalSample { signals, accuracy, group, shares }));
        };
        add(signals, accuracy, second_accuracy, ClassShares::Sample);
        for sample in &cell.cell.samples {
            add(sample.signals, sample.accuracy, Some(sample.second_accuracy), sample.shares);
        }
    }
    let labelled = cells.first().map_or(0, |cell| cell.cell.images);
    if_enough(match look {
        Look::Source => AccuracyFit::fit(&samples, labelled),
        Look::Second => AccuracyFit::fit_second(&samples, labelled),
    })
}

/// Fits the adapted model's accuracy, where the method adapts in this mode; `None` where cells are too few or nothing is known about what it begins from.
fn fit_adapted(
    cells: &[CalibrationCell],
    mode: NormMode,
    has_batch_norm: bool,
) -> Result<Option<AdaptedFit>, RunError> {
    let second = match mode {
        NormMode::Batch if has_batch_norm => match fit_accuracy(cells, Look::Second)? {
            Some(second) => Some(second),
            None => return Ok(None),
        },
        NormMode::Mixed { .. } | NormMode::Early { .. } if has_batch_norm => return Ok(None),
        _ => None,
    };
    let mut steps = Vec::new();
    for (cell, group) in cells.iter().zip(kinds(cells)) {
        let Some(Steps { flips, gain: Some(gain) }) = cell.cell.steps else {
            return Ok(None);
        };
        steps.push(StepsSample { flips, gain, images: cell.cell.probe_images, group });
    }
    if_enough(AdaptedFit::fit(second, &steps))
}

/// Whether estimates gain from an early look.
pub(crate) fn wants_early_look(accuracy: Option<&AccuracyFit>) -> bool {
    accuracy.is_some_and(AccuracyFit::wants_early_look)
}

/// What was fitted; `None` where there was too little to fit to.
fn if_enough<T>(fit: Result<T, EstimateError>) -> Result<Option<T>, RunError> {
    match fit {
        Ok(fit) => Ok(Some(fit)),
        Err(EstimateError::TooFew { .. } | EstimateError::Undefined { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The cells' kinds of shift, as numbers; `None` for clean images.
fn kinds(cells: &[CalibrationCell]) -> Vec<Option<usize>> {
    let numbers = group_numbers(cells);
    cells.iter().zip(numbers).map(|(cell, number)| (cell.group != CLEAN).then_some(number)).collect()
}

/// Numbers of the cells' groups.
fn group_numbers(cells: &[CalibrationCell]) -> Vec<usize> {
    let mut known: Vec<&str> = Vec::new();
    cells
        .iter()
        .map(|cell| {
            let place = known.iter().position(|group| *group == cell.group);
            place.unwrap_or_else(|| {
                known.push(&cell.group);
                known.len() - 1
            })
        })
        .collect()
}
