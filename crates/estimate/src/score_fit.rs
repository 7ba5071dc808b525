//! From a score to an accuracy, learned on calibration cells.

use crate::{Curve, CurveKind, Direction, ErrorModel, Estimate, EstimateError, Flag, fit_curve, leave_group_out};
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
///
/// ```
/// use flipcast_estimate::{CurveKind, Direction, FitPoint, Reading, ScoreFit};
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// // Three corruptions at five severities: the accuracy falls as the score grows.
/// let point = |group: usize, severity: usize| FitPoint {
///     score: severity as f64,
///     standard_error: 0.01,
///     accuracy: 0.9 - 0.1 * severity as f64 + 0.01 * group as f64,
///     images: 1000,
///     group,
/// };
/// let points: Vec<_> = (0..15).map(|cell| point(cell / 5, cell % 5)).collect();
/// let fit = ScoreFit::fit(CurveKind::Linear, Direction::Decreasing, &points)?;
/// let reading = Reading { score: 2.0, standard_error: 0.01, images: 1000, flags: &[] };
/// let estimate = fit.estimate(&reading, 0.9);
/// assert!((estimate.accuracy - 0.71).abs() < 0.01 && estimate.holds(0.7));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreFit {
    /// From score to accuracy.
    pub curve: Curve,
    /// Errors on cells predicted without their group.
    pub errors: ErrorModel,
}

impl ScoreFit {
    /// Fits a curve of `kind` to `points`.
    pub fn fit(kind: CurveKind, direction: Direction, points: &[FitPoint]) -> Result<Self, EstimateError> {
        let x: Vec<f64> = points.iter().map(|p| p.score).collect();
        let y: Vec<f64> = points.iter().map(|p| p.accuracy).collect();
        let groups: Vec<usize> = points.iter().map(|p| p.group).collect();
        let curve = fit_curve(kind, &x, &y, direction)?;
        let errors = leave_group_out(kind, &x, &y, &groups, direction)?;
        let variance = |p: &FitPoint| sampling_variance(&curve, &p.reading(), p.accuracy);
        let errors = ErrorModel {
            errors,
            truths: y,
            groups: number_of_groups(points),
            sampling_variance: points.iter().map(variance).sum::<f64>() / points.len() as f64,
        };
        Ok(Self { curve, errors })
    }

    /// The accuracy that belongs to a reading, with an interval meant to hold the truth with probability `level`.
    pub fn estimate(&self, reading: &Reading, level: f64) -> Estimate {
        self.estimate_and_half_width(reading, level).0
    }

    /// The same, and half the interval's width before it is cut at 0 and 1. Past errors know nothing of scores beyond the
    /// fitted range, so what the curve may be off by there is added in full; and a starved score says nothing at all.
    pub(crate) fn estimate_and_half_width(&self, reading: &Reading, level: f64) -> (Estimate, f64) {
        let prediction = self.curve.predict(reading.score);
        let mut flags = reading.flags.to_vec();
        for flag in prediction.flags() {
            raise(&mut flags, flag);
        }
        let accuracy = prediction.value.clamp(0.0, 1.0);
        let sampling = sampling_variance(&self.curve, reading, accuracy);
        let beyond =
            if flags.contains(&Flag::FilterStarved) { 1.0 } else { self.curve.extrapolation_error(reading.score) };
        let half_width = self.errors.half_width(accuracy, sampling, level) + beyond;
        (Estimate::around(accuracy, half_width, flags), half_width)
    }
}

/// Errors of a score that is an accuracy as it stands.
pub fn direct_errors(points: &[FitPoint]) -> ErrorModel {
    let variance = |p: &FitPoint| direct_variance(&p.reading(), p.accuracy);
    ErrorModel {
        errors: points.iter().map(|p| p.score - p.accuracy).collect(),
        truths: points.iter().map(|p| p.accuracy).collect(),
        groups: number_of_groups(points),
        sampling_variance: points.iter().map(variance).sum::<f64>() / points.len().max(1) as f64,
    }
}

/// A score that is an accuracy as it stands. Its interval comes from its errors on the calibration cells, so a score that
/// is usually far off says so; it reaches as far up as down.
pub fn direct_estimate(reading: &Reading, errors: &ErrorModel, level: f64) -> Estimate {
    let sampling = direct_variance(reading, reading.score.clamp(0.0, 1.0));
    let half_width = errors.half_width(reading.score, sampling, level);
    Estimate::around(reading.score, half_width, reading.flags.to_vec())
}

fn number_of_groups(points: &[FitPoint]) -> usize {
    let mut groups: Vec<usize> = points.iter().map(|p| p.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.len()
}

fn direct_variance(reading: &Reading, accuracy: f64) -> f64 {
    reading.standard_error.powi(2) + accuracy * (1.0 - accuracy) / reading.images.max(1) as f64
}

/// Variance that chance gives to estimate minus truth: of the score through the curve's slope, and of the truth itself.
pub(crate) fn sampling_variance(curve: &Curve, reading: &Reading, accuracy: f64) -> f64 {
    let step = reading.standard_error.max(1e-9);
    let up = curve.predict(reading.score + step).value;
    let slope = 0.5 * (up - curve.predict(reading.score - step).value) / step;
    let moved = slope * reading.standard_error;
    moved * moved + accuracy * (1.0 - accuracy) / reading.images.max(1) as f64
}

impl FitPoint {
    fn reading(&self) -> Reading<'static> {
        Reading { score: self.score, standard_error: self.standard_error, images: self.images, flags: &[] }
    }
}

/// Adds a flag unless it is there.
pub(crate) fn raise(flags: &mut Vec<Flag>, flag: Flag) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four groups of five cells on a line, each group a little off it.
    fn points() -> Vec<FitPoint> {
        let cell = |(group, step): (usize, usize)| {
            let score = 0.1 * step as f64 + 0.02 * group as f64;
            FitPoint {
                score,
                standard_error: 0.001,
                accuracy: 0.9 - score + 0.01 * (group as f64 - 1.5),
                images: 5000,
                group,
            }
        };
        let cells = (0..4).flat_map(|group| (0..5).map(move |step| (group, step)));
        cells.map(cell).collect()
    }

    #[test]
    fn a_fit_predicts_what_it_was_fitted_to_and_its_intervals_hold() {
        let fit = ScoreFit::fit(CurveKind::Linear, Direction::Decreasing, &points()).unwrap();
        assert_eq!(fit.errors.groups, 4);
        for point in points() {
            let estimate = fit.estimate(&point.reading(), 0.9);
            assert!((estimate.accuracy - point.accuracy).abs() < 0.03);
            assert!(estimate.holds(point.accuracy), "{estimate:?} {point:?}");
        }
    }

    #[test]
    fn a_score_far_outside_is_flagged() {
        let fit = ScoreFit::fit(CurveKind::Linear, Direction::Decreasing, &points()).unwrap();
        let reading = Reading { score: 0.8, standard_error: 0.0, images: 100, flags: &[Flag::TooFewImages] };
        let estimate = fit.estimate(&reading, 0.9);
        assert!(estimate.flags.contains(&Flag::TooFewImages));
        assert!(estimate.flags.contains(&Flag::OutsideFittedRange), "{estimate:?}");
    }

    #[test]
    fn intervals_widen_beyond_the_fitted_range_and_say_nothing_when_starved() {
        let fit = ScoreFit::fit(CurveKind::Linear, Direction::Decreasing, &points()).unwrap();
        let width = |score: f64, flags: &[Flag]| {
            let reading = Reading { score, standard_error: 0.0, images: 5000, flags };
            fit.estimate_and_half_width(&reading, 0.9).1
        };
        // The points end at 0.46 and fall by about one per unit of score.
        let extra = width(0.66, &[]) - width(0.46, &[]);
        assert!(extra > 0.18, "{extra}");
        assert!(width(0.2, &[Flag::FilterStarved]) > 1.0);
    }

    #[test]
    fn a_biased_score_has_wide_intervals_as_it_stands() {
        let biased: Vec<FitPoint> =
            points().into_iter().map(|point| FitPoint { score: point.accuracy + 0.1, ..point }).collect();
        let errors = direct_errors(&biased);
        assert!((errors.mae() - 0.1).abs() < 1e-12);
        for point in &biased {
            assert!(direct_estimate(&point.reading(), &errors, 0.9).holds(point.accuracy));
        }
    }
}
