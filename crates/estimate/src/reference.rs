use crate::atc::{AtcScore, fit_threshold};
use crate::score::mean;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};

/// Bins of confidence that [`im`](crate::im) compares, as published.
const IM_BINS: usize = 10;

/// Bins of the expected calibration error, as published.
const ECE_BINS: usize = 15;

/// What published estimators need to know of labelled images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Number of labelled images.
    pub images: usize,
    /// Number of classes.
    pub classes: usize,
    /// Images classified wrongly.
    pub errors: usize,
    /// Share of images classified correctly.
    pub accuracy: f64,
    /// Mean of the largest probabilities.
    pub mean_confidence: f64,
    /// Expected calibration error in 15 bins.
    pub ece: f64,
    /// Threshold of ATC with the largest probability; nothing if every image is wrong.
    pub atc_mc: Option<f64>,
    /// Threshold of ATC with minus the entropy; nothing if every image is wrong.
    pub atc_ne: Option<f64>,
    /// Ten bins of equal width over the confidence.
    pub bins: Vec<ConfidenceBin>,
}

/// Labelled images with a confidence in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceBin {
    /// Number of images.
    pub images: usize,
    /// Those classified correctly.
    pub correct: usize,
}

impl ConfidenceBin {
    /// Share of images classified correctly; nothing if there is none.
    pub fn accuracy(&self) -> Option<f64> {
        (self.images > 0).then(|| self.correct as f64 / self.images as f64)
    }
}

impl Reference {
    /// Learns from labelled images.
    pub fn fit(outputs: &Outputs, labels: &[usize]) -> Result<Self, EstimateError> {
        let accuracy = outputs.accuracy(labels)?;
        let right = right(outputs, labels);
        let errors = right.iter().filter(|r| !**r).count();
        let confidences = outputs.confidences();
        let mut bins = vec![ConfidenceBin::default(); IM_BINS];
        for (confidence, right) in confidences.iter().zip(&right) {
            let bin = &mut bins[confidence_bin(*confidence, IM_BINS)];
            bin.images += 1;
            bin.correct += usize::from(*right);
        }
        Ok(Self {
            images: outputs.images(),
            classes: outputs.classes(),
            errors,
            accuracy,
            mean_confidence: mean(&confidences),
            ece: ece(outputs, labels)?,
            atc_mc: fit_threshold(AtcScore::MaxConfidence.scores(outputs), errors),
            atc_ne: fit_threshold(AtcScore::NegativeEntropy.scores(outputs), errors),
            bins,
        })
    }

    /// Refuses values that no labelled images can have led to.
    pub fn check(&self) -> Result<(), EstimateError> {
        let fraction = "a number from 0 to 1";
        for (setting, found) in [
            ("the reference accuracy", self.accuracy),
            ("the reference confidence", self.mean_confidence),
            ("the reference calibration error", self.ece),
            ("the ATC-MC threshold", self.atc_mc.unwrap_or(0.0)),
        ] {
            // Means of numbers up to 1 may exceed it by rounding.
            if !(0.0..=1.0 + 1e-9).contains(&found) {
                return Err(EstimateError::Setting { setting, found, expected: fraction });
            }
        }
        let entropy = -self.atc_ne.unwrap_or(0.0);
        if !(0.0..f64::INFINITY).contains(&entropy) {
            return Err(EstimateError::Setting {
                setting: "the ATC-NE threshold",
                found: -entropy,
                expected: "a number that is not positive",
            });
        }
        if self.bins.len() != IM_BINS {
            return Err(EstimateError::Length { what: "confidence bins", found: self.bins.len(), expected: IM_BINS });
        }
        let total = |count: fn(&ConfidenceBin) -> usize| {
            let sum = |sum: usize, bin| sum.saturating_add(count(bin));
            self.bins.iter().fold(0, sum)
        };
        for (what, found, expected) in [
            ("binned images", total(|bin| bin.images), self.images.max(1)),
            (
                "binned correct images",
                total(|bin| bin.correct.min(bin.images)),
                self.images.saturating_sub(self.errors),
            ),
        ] {
            if found != expected {
                return Err(EstimateError::Length { what, found, expected });
            }
        }
        Ok(())
    }

    /// Refuses outputs of a network with another number of classes, besides what [`check`](Self::check) refuses.
    pub(crate) fn check_for(&self, outputs: &Outputs) -> Result<(), EstimateError> {
        self.check()?;
        if outputs.classes() != self.classes {
            return Err(EstimateError::Length { what: "classes", found: outputs.classes(), expected: self.classes });
        }
        Ok(())
    }
}

/// ECE: expected calibration error.
///
/// *Idea.* How far confidence and accuracy lie apart, on average over images of similar confidence.
/// *Formula.* `sum_b (n_b / n) |accuracy_b - mean confidence_b|` over 15 bins of equal width.
/// *Reference.* Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
/// *Departures from the reference.* A confidence on the border of two bins belongs to the upper one.
pub fn ece(outputs: &Outputs, labels: &[usize]) -> Result<f64, EstimateError> {
    outputs.check_labels(labels)?;
    let mut gaps = [0.0f64; ECE_BINS];
    for (confidence, right) in outputs.confidences().iter().zip(right(outputs, labels)) {
        gaps[confidence_bin(*confidence, ECE_BINS)] += f64::from(u8::from(right)) - confidence;
    }
    Ok(gaps.iter().map(|gap| gap.abs()).sum::<f64>() / labels.len() as f64)
}

/// Whether each image is classified correctly.
fn right(outputs: &Outputs, labels: &[usize]) -> Vec<bool> {
    let predicted = outputs.classes_predicted();
    predicted.iter().zip(labels).map(|(p, l)| p == l).collect()
}

/// The bin of equal width that holds a confidence from 0 to 1.
pub(crate) fn confidence_bin(confidence: f64, bins: usize) -> usize {
    ((confidence * bins as f64) as usize).min(bins - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    #[test]
    fn it_survives_storage() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(6), 80, 9, 1.5);
        let reference = Reference::fit(&outputs, &labels).unwrap();
        reference.check().unwrap();
        let text = serde_json::to_string(&reference).unwrap();
        assert_eq!(serde_json::from_str::<Reference>(&text).unwrap(), reference);
        let more = text.replacen('{', "{\"extra\":1,", 1);
        assert!(serde_json::from_str::<Reference>(&more).is_err());
    }

    #[test]
    fn impossible_values_are_refused() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(6), 80, 9, 1.5);
        let good = Reference::fit(&outputs, &labels).unwrap();
        let spoiled: [fn(&mut Reference); 7] = [
            |r| r.accuracy = f64::NAN,
            |r| r.mean_confidence = 2.0,
            |r| r.atc_mc = Some(-1.0),
            |r| r.atc_ne = Some(1.0),
            |r| r.bins.truncate(3),
            |r| r.bins[0].images = usize::MAX,
            |r| r.errors += 1,
        ];
        for spoil in spoiled {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_single_image_is_enough() {
        let outputs = Outputs::new(vec![2.0, 1.0], 2).unwrap();
        for label in 0..2 {
            let reference = Reference::fit(&outputs, &[label]).unwrap();
            reference.check().unwrap();
            assert_eq!(reference.errors, label);
        }
    }

    #[test]
    fn the_calibration_error_is_the_gap_within_bins() {
        // Two images at confidence 0.8, one of them right: |0.5 - 0.8|.
        let z = 4f32.ln();
        let outputs = Outputs::new(vec![z, 0.0, z, 0.0], 2).unwrap();
        assert!((ece(&outputs, &[0, 1]).unwrap() - 0.3).abs() < 1e-7);
    }
}
