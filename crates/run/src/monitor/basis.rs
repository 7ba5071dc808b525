use super::MonitorError;
use crate::{Calibration, LooksAtImages, OutputsCalibration};
use flipcast_estimate::{AccuracyFit, ShiftReference, Signals};
use flipcast_models::Model;

/// What is known of a classifier before its stream begins. Many monitors share one.
#[derive(Clone, Debug)]
pub struct MonitorBasis {
    pub(super) temperature: f64,
    pub(super) accuracy: AccuracyFit,
    pub(super) clean: Option<Signals>,
    pub(super) shift: ShiftReference,
    /// Its accuracy on the labelled images of the calibration.
    pub(super) clean_accuracy: f64,
    pub(super) looks: LooksAtImages,
}

impl MonitorBasis {
    /// From the calibration of a network, which must have batch norms: their statistics are what differs in the second look.
    pub fn new(calibration: &Calibration, model: &Model) -> Result<Self, MonitorError> {
        if !model.graph().has_batch_norm() {
            return Err(MonitorError::NoBatchNorm);
        }
        let Calibration { basis, accuracy, shift, cells, .. } = calibration;
        let clean = cells.first().and_then(|cell| cell.cell.signals);
        Self::from_parts(
            basis.temperature.value,
            basis.reference.accuracy,
            accuracy,
            shift,
            clean,
            LooksAtImages::Twice,
        )
    }

    /// From a calibration of outputs alone.
    pub fn from_outputs(calibration: &OutputsCalibration) -> Result<Self, MonitorError> {
        let OutputsCalibration { basis, accuracy, shift, cells, looks, .. } = calibration;
        let clean = cells.first().and_then(|cell| cell.cell.signals);
        Self::from_parts(basis.temperature.value, basis.reference.accuracy, accuracy, shift, clean, *looks)
    }

    fn from_parts(
        temperature: f64,
        clean_accuracy: f64,
        accuracy: &Option<AccuracyFit>,
        shift: &Option<ShiftReference>,
        clean: Option<Signals>,
        looks: LooksAtImages,
    ) -> Result<Self, MonitorError> {
        let missing = |missing| MonitorError::Calibration { missing };
        let accuracy = accuracy.clone().ok_or_else(|| missing("a fit of the accuracy"))?;
        let shift = shift.clone().ok_or_else(|| missing("the entropies of clean images"))?;
        shift.check()?;
        Ok(Self { temperature, accuracy, clean, shift, clean_accuracy, looks })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.shift.num_classes()
    }

    /// The accuracy on the labelled images of the calibration.
    pub fn clean_accuracy(&self) -> f64 {
        self.clean_accuracy
    }

    /// The share of each class among the predictions for clean images.
    pub fn clean_shares(&self) -> Vec<f64> {
        self.shift.class_shares()
    }

    /// Whether images are looked at once or twice.
    pub fn looks(&self) -> LooksAtImages {
        self.looks
    }
}
