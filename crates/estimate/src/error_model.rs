//! What past errors say about the next one.

use crate::{conformal_half_width, normal_quantile, student_quantile};
use serde::{Deserialize, Serialize};

/// The least difficulty, for cells that all have the same accuracy.
const LEAST: f64 = 0.01;

/// Errors of an estimator on calibration cells, and the intervals that follow from them.
///
/// *Idea.* An estimator that was calibrated on clean images is right there almost by construction, and errs the more the
/// more accuracy is lost. So past errors are compared as shares of a difficulty, and an interval is as wide as they say
/// for the difficulty at hand. Errors within a group of cells, such as one corruption, resemble each other, so there are
/// only as many independent ones as groups.
/// *Formula.* Half width `q * d(a) * t / z` with the difficulty `d(a) = m + max(0, top - a)`, `top` the highest accuracy of a
/// cell and `m` the mean of `top - truth` over the cells; `q` the conformal quantile of `|error| / d(truth)`; `t` and `z` the quantiles of Student's
/// distribution with one degree of freedom less than there are groups, and of the normal one. Sampling error is added in
/// squares, that of the images at hand and that of the cells: all cells are made of the same images, so what chance did to these is
/// common to all errors and shows in none.
/// *Reference.* Normalised conformal prediction: Papadopoulos et al., ECML 2002; Lei et al., JASA 2018.
/// *Departures from the reference.* The difficulty is the loss of accuracy, and Student's factor stands for the
/// dependence within groups, for which conformal prediction has no finite-sample guarantee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorModel {
    /// Estimate minus truth of every cell.
    pub errors: Vec<f64>,
    /// The truth of every cell.
    pub truths: Vec<f64>,
    /// Groups of cells.
    pub groups: usize,
    /// Variance that chance gave to score and truth of a cell, on average.
    pub sampling_variance: f64,
}

impl ErrorModel {
    /// Root mean square of the errors.
    pub fn rmse(&self) -> f64 {
        let sum: f64 = self.errors.iter().map(|e| e * e).sum();
        (sum / self.errors.len().max(1) as f64).sqrt()
    }

    /// Mean of the errors' sizes.
    pub fn mae(&self) -> f64 {
        let sum: f64 = self.errors.iter().map(|e| e.abs()).sum();
        sum / self.errors.len().max(1) as f64
    }

    /// The largest error's size.
    pub fn worst(&self) -> f64 {
        self.errors.iter().fold(0.0, |most, e| most.max(e.abs()))
    }

    /// Half width of an interval around `accuracy` that is meant to hold the truth with probability `level`;
    /// `sampling_variance` is that of estimate minus truth for the images at hand.
    pub fn half_width(&self, accuracy: f64, sampling_variance: f64, level: f64) -> f64 {
        let pairs = self.errors.iter().zip(&self.truths);
        let relative: Vec<f64> = pairs.map(|(e, truth)| e / self.difficulty(*truth)).collect();
        let z = normal_quantile(level);
        let dependence = student_quantile(level, self.groups.saturating_sub(1).max(1)) / z;
        let fit = conformal_half_width(&relative, level) * self.difficulty(accuracy) * dependence;
        let chance = sampling_variance + self.sampling_variance;
        (fit * fit + z * z * chance).sqrt()
    }

    /// How hard it is to estimate an accuracy of this size.
    fn difficulty(&self, accuracy: f64) -> f64 {
        let top = self.truths.iter().fold(0.0, |a: f64, b| a.max(*b));
        let lost: f64 = self.truths.iter().map(|truth| top - truth).sum();
        let mean_loss = lost / self.truths.len().max(1) as f64;
        mean_loss.max(LEAST) + (top - accuracy).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(errors: &[f64], truths: &[f64]) -> ErrorModel {
        ErrorModel { errors: errors.to_vec(), truths: truths.to_vec(), groups: 5, sampling_variance: 0.0 }
    }

    #[test]
    fn intervals_grow_with_the_loss_of_accuracy() {
        let model = model(&[0.001, -0.02, 0.05], &[0.9, 0.7, 0.4]);
        let widths = [0.9, 0.7, 0.4].map(|a| model.half_width(a, 0.0, 0.9));
        assert!(widths[0] < widths[1] && widths[1] < widths[2], "{widths:?}");
        // The mean loss is 0.7 / 3.
        let expected = (0.7 / 3.0 + 0.5) / (0.7 / 3.0);
        assert!((widths[2] / widths[0] - expected).abs() < 1e-9, "{widths:?}");
    }

    #[test]
    fn fewer_images_widen_an_interval() {
        let model = model(&[0.01, -0.02, 0.03], &[0.9, 0.7, 0.4]);
        let few = 0.7 * 0.3 / 50.0;
        let narrow = model.half_width(0.7, 0.0, 0.9);
        let wide = model.half_width(0.7, few, 0.9);
        let expected = (narrow * narrow + 1.644854f64.powi(2) * few).sqrt();
        assert!((wide - expected).abs() < 1e-6, "{wide} {expected}");
    }

    #[test]
    fn few_labelled_images_widen_an_interval_too() {
        let mut model = model(&[0.01, -0.02, 0.03], &[0.9, 0.7, 0.4]);
        let narrow = model.half_width(0.7, 0.0, 0.9);
        model.sampling_variance = 0.7 * 0.3 / 50.0;
        assert!(model.half_width(0.7, 0.0, 0.9) > narrow + 0.05);
    }

    #[test]
    fn no_errors_at_all_say_nothing() {
        assert!(model(&[], &[]).half_width(0.5, 0.0, 0.9) > 0.01);
    }
}
