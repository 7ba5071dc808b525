//! From a score to an accuracy, learned on calibration cells.

use crate::{
    Curve, CurveKind, Direction, Estimate, EstimateError, Flag, conformal_half_width, fit_curve,
    leave_group_out, normal_quantile,
};
use serde::{Deserialize, Serialize};

/// A calibration cell as one estimator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct FitPoint {
    /// What the estimator says.
    pub score: f64,
    /// How far chance moves it.
    pub standard_error: f64,
    /// The truth.
    pub accuracy: f64,
    /// Images behind the truth.
    pub images: usize,
    /// Cells of one group, such as one corruption at all severities, are left out together.
    pub group: usize,
}

/// What one estimator says about images nobody labelled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// The score.
    pub score: f64,
    /// How far chance moves it.
    pub standard_error: f64,
    /// Images it was taken from.
    pub images: usize,
    /// Doubts about it.
    pub flags: &'a [Flag],
}

/// A curve from score to accuracy, with what is known about its errors.
///
/// The errors come from leaving out whole groups of cells: a curve fitted without any severity of a corruption predicts
/// that corruption. So they tell how the curve does on a kind of shift it has not seen, which is what it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreFit {
    /// From score to accuracy.
    pub curve: Curve,
    /// Prediction minus truth of every cell, predicted without its group.
    pub errors: Vec<f64>,
    /// The part of the squared errors that sampling explains, on average.
    pub sampling_variance: f64,
}

impl ScoreFit {
    /// Fits a curve of `kind` to `points`.
    pub fn fit(
        kind: CurveKind,
        direction: Direction,
        points: &[FitPoint],
    ) -> Result<Self, EstimateError> {
        let x: Vec<f64> = points.iter().map(|p| p.score).collect();
        let y: Vec<f64> = points.iter().map(|p| p.accuracy).collect();
        let groups: Vec<usize> = points.iter().map(|p| p.group).collect();
        let curve = fit_curve(kind, &x, &y, direction)?;
        let errors = leave_group_out(kind, &x, &y, &groups, direction)?;
        let variance = |p: &FitPoint| {
            sampling_variance(&curve, p.score, p.standard_error, p.accuracy, p.images)
        };
        let sampling_variance = points.iter().map(variance).sum::<f64>() / points.len() as f64;
        Ok(Self {
            curve,
            errors,
            sampling_variance,
        })
    }

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

    /// The accuracy that belongs to a reading, with an interval meant to hold the truth with probability `level`.
    pub fn estimate(&self, reading: &Reading, level: f64) -> Estimate {
        let prediction = self.curve.predict(reading.score);
        let mut flags = reading.flags.to_vec();
        if prediction.saturated {
            raise(&mut flags, Flag::SaturatedFit);
        }
        if prediction.outside_range {
            raise(&mut flags, Flag::OutsideFittedRange);
        }
        let accuracy = prediction.value.clamp(0.0, 1.0);
        let sampling = sampling_variance(
            &self.curve,
            reading.score,
            reading.standard_error,
            accuracy,
            reading.images,
        );
        let half_width = half_width(&self.errors, sampling - self.sampling_variance, level);
        Estimate::around(accuracy, half_width, flags)
    }
}

/// A score that is an accuracy as it stands. The interval comes from its errors on the calibration cells, so that a score
/// that is usually far off says so; it reaches as far up as down.
pub fn direct_estimate(reading: &Reading, errors: &[f64], level: f64) -> Estimate {
    let half_width = conformal_half_width(errors, level);
    Estimate::around(reading.score, half_width, reading.flags.to_vec())
}

/// Half width from past errors, widened where the sample is smaller than theirs were.
pub(crate) fn half_width(errors: &[f64], extra_variance: f64, level: f64) -> f64 {
    let fit = conformal_half_width(errors, level);
    let sampling = normal_quantile(level).powi(2) * extra_variance.max(0.0);
    (fit * fit + sampling).sqrt()
}

/// Variance that chance gives to estimate minus truth: of the score through the curve's slope, and of the truth itself.
pub(crate) fn sampling_variance(
    curve: &Curve,
    score: f64,
    standard_error: f64,
    accuracy: f64,
    images: usize,
) -> f64 {
    let step = standard_error.max(1e-9);
    let rise = curve.predict(score + step).value - curve.predict(score - step).value;
    let moved = 0.5 * rise * standard_error / step;
    moved * moved + accuracy * (1.0 - accuracy) / images.max(1) as f64
}

/// Adds a flag unless it is there.
pub(crate) fn raise(flags: &mut Vec<Flag>, flag: Flag) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}
