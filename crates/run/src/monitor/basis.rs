use super::MonitorError;
use crate::head::head_of;
use crate::{Calibration, LooksAtImages, OutputsCalibration};
use flipcast_estimate::{AccuracyFit, GainFit, Head, ShiftReference, Signals};
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
    pub(super) recentring: Option<Recentring>,
    /// What adapting gains, if the calibration knows.
    pub(super) gain: Option<GainFit>,
    /// What the classes are called, where that is known.
    pub(super) class_names: Vec<String>,
}

/// The second look at a network without batch norms: embeddings are moved so that their mean is that of clean ones. The last layer is linear, so that all logits
/// move by its weights times that move, and the mean is all that must be known.
#[derive(Clone, Debug)]
pub(super) struct Recentring {
    head: Head,
    clean_mean: Vec<f32>,
}

impl Recentring {
    /// Values of an embedding.
    pub fn dims(&self) -> usize {
        self.clean_mean.len()
    }

    /// By how much each logit moves where embeddings have this mean.
    pub fn logit_move(&self, mean: &[f64]) -> Vec<f32> {
        let move_by: Vec<f32> = self.clean_mean.iter().zip(mean).map(|(clean, here)| clean - *here as f32).collect();
        self.head.weigh(&move_by)
    }
}

impl MonitorBasis {
    /// From the calibration of a network. Where it has batch norms, images are looked at twice, the second time with the statistics of their batch; where it has
    /// none and its last layer is linear, [`embedding_dims`](Self::embedding_dims) says that embeddings are needed.
    pub fn new(calibration: &Calibration, model: &Model) -> Result<Self, MonitorError> {
        let Calibration { basis, accuracy, shift, cells, advice, .. } = calibration;
        let clean = cells.first().and_then(|cell| cell.cell.signals);
        let has_batch_norm = model.graph().has_batch_norm();
        let looks = if has_batch_norm { LooksAtImages::Twice } else { LooksAtImages::Once };
        let mut recentring = None;
        if let Some(clean_mean) = basis.embedding_mean.as_ref().filter(|_| !has_batch_norm) {
            let head = head_of(model, clean_mean.len())?;
            recentring = head.map(|head| Recentring { head, clean_mean: clean_mean.clone() });
        }
        let gain = advice.as_ref().map(|advice| advice.alone.clone());
        let parts = Self::from_parts(basis.temperature.value, basis.reference.accuracy, accuracy, shift, clean, looks)?;
        let class_names = model.class_names().map(<[String]>::to_vec).unwrap_or_default();
        Ok(Self { recentring, gain, class_names, ..parts })
    }

    /// Whether estimates gain from an early look at every batch.
    pub fn wants_early_look(&self) -> bool {
        self.accuracy.wants_early_look()
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
        Ok(Self {
            temperature,
            accuracy,
            clean,
            shift,
            clean_accuracy,
            looks,
            recentring: None,
            gain: None,
            class_names: Vec::new(),
        })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.shift.num_classes()
    }

    /// What people call a class: its name, or else its number.
    pub fn class_name(&self, class: usize) -> String {
        self.class_names.get(class).cloned().unwrap_or_else(|| class.to_string())
    }

    /// The accuracy on the labelled images of the calibration.
    pub fn clean_accuracy(&self) -> f64 {
        self.clean_accuracy
    }

    /// The share of each class among the predictions for clean images.
    pub fn clean_shares(&self) -> Vec<f64> {
        self.shift.class_shares()
    }

    /// Values of an embedding, where [`Monitor::add_embeddings`](super::Monitor::add_embeddings) must be told of them.
    pub fn embedding_dims(&self) -> Option<usize> {
        self.recentring.as_ref().map(Recentring::dims)
    }

    /// Whether the calibration learned what adapting gains, so that [`Monitor::look_adapted`](super::Monitor::look_adapted) leads to an estimate.
    pub fn estimates_gain(&self) -> bool {
        self.gain.is_some()
    }

    /// Whether images are looked at once or twice.
    pub fn looks(&self) -> LooksAtImages {
        self.looks
    }
}
