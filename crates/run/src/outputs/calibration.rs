use super::labelled::check_second;
use super::{LabelledOutputs, OutputsError};
use crate::artefact::{Artefact, load_artefact, to_json};
use crate::calibration::{Look, fit_accuracy, fit_scores};
use crate::cell::{FEW_IMAGES, summarise};
use crate::estimate::estimate_source;
use crate::scores::score_outputs;
use crate::second_look::{SecondLook, calibration_samples};
use crate::{Basis, RunError, ScoreOptions, Watcher};
use flipcast_estimate::{AccuracyFit, CurveKind, Estimate, Flag, Marginal, Outputs, SCORES, ShiftReference};
use flipcast_record::Protocol;
use flipcast_record::results::{Adaptation, CalibrationCell, Cell, CellEstimates, Estimates, Fits, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The format this version writes.
pub const OUTPUTS_CALIBRATION_FORMAT: u32 = 5;
/// The fewest kinds of shift from which errors on an unseen kind can be told.
const FEWEST_KINDS: usize = 2;

/// How often a classifier was asked about every image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LooksAtImages {
    /// There is one array of outputs.
    Once,
    /// There is a second one, under the statistics of the batch or by another model.
    Twice,
}

impl LooksAtImages {
    pub(super) fn of(second: Option<&Outputs>) -> Self {
        if second.is_some() { Self::Twice } else { Self::Once }
    }
}

impl fmt::Display for LooksAtImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once => "once",
            Self::Twice => "twice",
        })
    }
}

/// What estimates from outputs alone need. It knows neither weights nor preprocessing: whoever gives outputs vouches for where they come from.
///
/// With clean images only there are estimates, but no kinds of shift on which to measure how far they err: intervals then span everything and
/// estimates carry [`Flag::NoKnownShifts`]. From two kinds of shift on there are calibrated estimates, a combined one, and intervals.
///
/// ```
/// use flipcast_estimate::Outputs;
/// use flipcast_run::{LabelledOutputs, OutputsCalibration, ScoreOptions, Unwatched};
///
/// // Two classes, told apart better or worse.
/// let logits = |sharpness: f32| -> Vec<f32> {
///     (0..400).flat_map(|i| [sharpness * ((i % 2) as f32 + 0.9 * ((i * 7 % 11) as f32 / 10.0 - 0.5)), 0.5 * sharpness]).collect()
/// };
/// let labels: Vec<usize> = (0..400).map(|i| 1 - i % 2).collect();
/// let clean = LabelledOutputs::clean(Outputs::new(logits(4.0), 2)?, labels)?;
/// let calibration = OutputsCalibration::fit(&clean, &[], ScoreOptions::default(), 0, &mut Unwatched)?;
/// let estimates = calibration.estimate(&Outputs::new(logits(3.0), 2)?, None, 0.9)?;
/// let (name, estimate) = estimates.best().expect("an estimate");
/// assert_eq!((name, estimate.low, estimate.high), ("cot", 0.0, 1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputsCalibration {
    /// Format version.
    pub flipcast_outputs_calibration: u32,
    /// The program's version.
    pub made_by: String,
    /// How often the classifier was asked about every image, and so how often it must be asked about new ones.
    pub looks: LooksAtImages,
    /// Seed of the samples.
    pub seed: u64,
    /// What the clean images teach.
    pub basis: Basis,
    /// The accuracy from signals, whatever the class shares and the number of images; `None` where kinds of shift or images are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<AccuracyFit>,
    /// What clean images look like to tests that watch a stream; an artefact of an earlier version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<ShiftReference>,
    /// The cells; the first is that of the clean images.
    pub cells: Vec<CalibrationCell>,
    /// Fits of the estimators; `None` where kinds of shift are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<Fits>,
}

impl Artefact for OutputsCalibration {
    const FORMAT_FIELD: &'static str = "flipcast_outputs_calibration";
    const NEWEST_FORMAT: u32 = OUTPUTS_CALIBRATION_FORMAT;
    const RETIRED_FORMATS: &'static [u64] = &[1, 2, 3, 4];
}

impl OutputsCalibration {
    /// Learns from outputs of clean images, and of `shifted` ones where there are any; `seed` draws samples of them.
    ///
    /// # Errors
    /// When cells differ in classes or in the number of looks, two have one name, or their outputs are probabilities.
    pub fn fit(
        clean: &LabelledOutputs,
        shifted: &[LabelledOutputs],
        options: ScoreOptions,
        seed: u64,
        watcher: &mut dyn Watcher,
    ) -> Result<Self, RunError> {
        let looks = clean.looks();
        let mut names = BTreeSet::from([clean.name()]);
        for cell in shifted {
            let name = || cell.name().to_owned();
            let [found, expected] = [cell, clean].map(|cell| cell.outputs.classes());
            if found != expected {
                return Err(OutputsError::Classes { name: Some(name()), found, expected }.into());
            }
            if cell.looks() != looks {
                return Err(OutputsError::Looks { name: Some(name()), found: cell.looks(), expected: looks }.into());
            }
            if !names.insert(cell.name()) {
                return Err(OutputsError::Name { name: name() }.into());
            }
        }
        for outputs in
            std::iter::once(clean).chain(shifted).flat_map(|cell| [Some(&cell.outputs), cell.second.as_ref()])
        {
            outputs.map_or(Ok(()), Outputs::check_logits)?;
        }
        let basis = Basis::from_outputs(&clean.outputs, &clean.labels, options)?;
        let mut cells = Vec::with_capacity(1 + shifted.len());
        for labelled in std::iter::once(clean).chain(shifted) {
            watcher.cell(labelled.name(), cells.len(), 1 + shifted.len());
            let (name, group) = (labelled.name().to_owned(), labelled.kind().to_owned());
            cells.push(CalibrationCell { name, group, cell: calibration_cell(labelled, &basis, seed)? });
        }
        let kinds: BTreeSet<&str> = shifted.iter().map(LabelledOutputs::kind).collect();
        let has_kinds = kinds.len() >= FEWEST_KINDS;
        // No flips are counted, so that the combination of transport and flips is transport alone and no curve is one of flips.
        let fit = || {
            fit_scores(&cells, CurveKind::Monotone, ["cot", "wf"], |cell| (&cell.source, cell.accuracy, cell.images))
        };
        Ok(Self {
            flipcast_outputs_calibration: OUTPUTS_CALIBRATION_FORMAT,
            made_by: format!("flipcast {}", env!("CARGO_PKG_VERSION")),
            looks,
            seed,
            accuracy: if has_kinds { fit_accuracy(&cells, Look::Source)? } else { None },
            fits: if has_kinds { Some(fit()?) } else { None },
            shift: Some(ShiftReference::fit(&clean.outputs.scaled(basis.temperature.value), None)?),
            basis,
            cells,
        })
    }

    /// A hash of everything it holds, by which states and records name it.
    pub fn key(&self) -> Result<String, RunError> {
        Ok(Protocol::new("outputs_calibration").with("calibration", self)?.key())
    }

    /// Number of classes of the outputs.
    pub fn classes(&self) -> usize {
        self.basis.reference.classes
    }

    /// Number of kinds of shift that it has seen.
    pub fn kinds(&self) -> usize {
        let kinds: BTreeSet<&str> = self.cells.iter().skip(1).map(|cell| cell.group.as_str()).collect();
        kinds.len()
    }

    /// The scores of images that nobody labelled. `second` is there if the calibration has second outputs; `marginal` stands for the
    /// classes' shares where they differ from the calibration's.
    ///
    /// # Errors
    /// When the outputs have other classes than the calibration's or are probabilities, or second outputs are missing or too many.
    pub fn cell(
        &self,
        outputs: &Outputs,
        second: Option<&Outputs>,
        marginal: Option<&Marginal>,
    ) -> Result<Cell, RunError> {
        let (found, expected) = (outputs.classes(), self.classes());
        if found != expected {
            return Err(OutputsError::Classes { name: None, found, expected }.into());
        }
        let looks = LooksAtImages::of(second);
        if looks != self.looks {
            return Err(OutputsError::Looks { name: None, found: looks, expected: self.looks }.into());
        }
        outputs.check_logits()?;
        if let Some(second) = second {
            check_second(None, outputs, second)?;
            second.check_logits()?;
        }
        let mut basis = self.basis.clone();
        if let Some(marginal) = marginal {
            basis.options.marginal = marginal.clone();
        }
        let looks = SecondLook::at_outputs(outputs, second, &basis).whole(self.seed)?;
        let signals = looks.measure(&outputs.scaled(basis.temperature.value))?.signals;
        Ok(Cell { signals: Some(signals), ..plain_cell(outputs, &basis)? })
    }

    /// Estimates for a cell, with intervals meant to hold the truth with probability `level`.
    pub fn estimate_cell(&self, cell: &Cell, level: f64) -> CellEstimates {
        let (source, explanation) = match &self.fits {
            Some(fits) => estimate_source(fits, self.accuracy.as_ref(), &self.cells, cell, level),
            None => (estimate_without_shifts(cell), Vec::new()),
        };
        CellEstimates { source, adapted: Estimates::new(), explanation }
    }

    /// Estimates of the accuracy on images that nobody labelled, from the classifier's outputs for them.
    ///
    /// # Errors
    /// As [`OutputsCalibration::cell`].
    pub fn estimate(&self, outputs: &Outputs, second: Option<&Outputs>, level: f64) -> Result<CellEstimates, RunError> {
        Ok(self.estimate_cell(&self.cell(outputs, second, None)?, level))
    }

    /// Reads an artefact. One of a newer format, or one that was changed after it was written, is refused.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        load_artefact(path)
    }

    /// The artefact's text, with a checksum of the rest.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        to_json(self)
    }
}

/// A cell whose truth is known, with samples that have other class shares and sizes.
fn calibration_cell(labelled: &LabelledOutputs, basis: &Basis, seed: u64) -> Result<Cell, RunError> {
    let LabelledOutputs { outputs, labels, second, .. } = labelled;
    let mut second_look = SecondLook::at_outputs(outputs, second.as_ref(), basis);
    let name = labelled.name();
    let looks = second_look.whole_and_samples(name, labels.clone(), &calibration_samples(name), seed)?;
    let measured = looks.measure(&outputs.scaled(basis.temperature.value))?;
    Ok(Cell {
        accuracy: Some(outputs.accuracy(labels)?),
        signals: Some(measured.signals),
        second_accuracy: measured.second_accuracy,
        samples: measured.samples,
        ..plain_cell(outputs, basis)?
    })
}

/// The scores of a cell. Nothing was adapted and nothing is timed, so that equal outputs give equal artefacts.
fn plain_cell(outputs: &Outputs, basis: &Basis) -> Result<Cell, RunError> {
    let images = outputs.images();
    Ok(Cell {
        images,
        skipped: 0,
        accuracy: None,
        adapted_accuracy: None,
        source: summarise(score_outputs(outputs, None, basis)?),
        adapted: BTreeMap::new(),
        probe_images: 0,
        adaptation: Adaptation::default(),
        flags: if images < FEW_IMAGES { vec![Flag::TooFewImages] } else { Vec::new() },
        signals: None,
        second_accuracy: None,
        steps: None,
        samples: Vec::new(),
        seconds: Seconds::default(),
    })
}

/// Scores that are accuracies as they stand. How far they err under a shift is not known, so that their intervals span everything.
fn estimate_without_shifts(cell: &Cell) -> Estimates {
    let mut estimates = Estimates::new();
    for info in SCORES.iter().filter(|info| info.is_accuracy) {
        let Some(score) = cell.source.get(info.name) else { continue };
        let mut flags: Vec<Flag> = score.flags.iter().chain(&cell.flags).copied().collect();
        flags.push(Flag::NoKnownShifts);
        flags.sort();
        flags.dedup();
        estimates.insert(info.name.to_owned(), Estimate::around(score.value, 1.0, flags));
    }
    estimates
}

#[cfg(test)]
mod tests;
