use super::monotone::{MonotoneSpline, fit_monotone};
use super::polynomial::{Polynomial, fit_polynomial, range};
use crate::{EstimateError, Flag};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A score may lie this share of the fitted range beyond it before [`Prediction::outside_range`] is set: noise alone moves
/// scores that far.
const RANGE_MARGIN: f64 = 0.05;

/// A curve counts as flat where its slope would change the accuracy by less than this over the whole fitted range.
const FLAT: f64 = 1e-6;

/// Places at which the slope is looked at to find the steepest.
const SLOPES: usize = 33;

/// The family of functions a curve is chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveKind {
    /// A straight line.
    Linear,
    /// A parabola, as published for weighted flips.
    Quadratic,
    /// A polynomial of the third degree.
    Cubic,
    /// A smooth curve that never turns.
    Monotone,
}

impl CurveKind {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Quadratic => "quadratic",
            Self::Cubic => "cubic",
            Self::Monotone => "monotone",
        }
    }
}

/// What happens to the accuracy where the score grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It falls, as with flips.
    Decreasing,
    /// It grows, as with confidence.
    Increasing,
}

impl Direction {
    /// The sign of the slope.
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Decreasing => -1.0,
            Self::Increasing => 1.0,
        }
    }
}

/// A function from a score to an accuracy. A stored one that no fit can have led to is refused when it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// What the accuracy should do where the score grows.
    pub direction: Direction,
    /// Smallest and largest score it was fitted on.
    #[serde(deserialize_with = "read_range")]
    pub range: [f64; 2],
    /// The function.
    #[serde(deserialize_with = "read_shape")]
    pub shape: CurveShape,
}

/// The function of a [`Curve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveShape {
    /// Of degree 1, 2 or 3.
    Polynomial(Polynomial),
    /// Never turning.
    Monotone(MonotoneSpline),
}

impl CurveShape {
    fn check(&self) -> Result<(), EstimateError> {
        match self {
            Self::Polynomial(polynomial) => polynomial.check(),
            Self::Monotone(spline) => spline.check(),
        }
    }
}

/// What a curve says about a score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The accuracy, a fraction from 0 to 1.
    pub value: f64,
    /// The curve does not respond here: it is cut off at 0 or 1, flat, or has turned.
    pub saturated: bool,
    /// The score lies beyond the fitted range by more than a twentieth of it.
    pub outside_range: bool,
}

impl Prediction {
    /// The flags that belong to it.
    pub fn flags(&self) -> Vec<Flag> {
        let saturated = self.saturated.then_some(Flag::SaturatedFit);
        let outside = self.outside_range.then_some(Flag::OutsideFittedRange);
        saturated.into_iter().chain(outside).collect()
    }
}

/// Fits a curve to scores `x` and accuracies `y`, which are fractions.
pub fn fit_curve(kind: CurveKind, x: &[f64], y: &[f64], direction: Direction) -> Result<Curve, EstimateError> {
    if let Some(found) = y.iter().find(|y| !(0.0..=1.0).contains(*y)) {
        return Err(EstimateError::Setting { setting: "accuracy", found: *found, expected: "a fraction from 0 to 1" });
    }
    let polynomial = |degree| fit_polynomial(degree, x, y).map(CurveShape::Polynomial);
    let shape = match kind {
        CurveKind::Linear => polynomial(1),
        CurveKind::Quadratic => polynomial(2),
        CurveKind::Cubic => polynomial(3),
        CurveKind::Monotone => fit_monotone(x, y, direction).map(CurveShape::Monotone),
    }?;
    let (low, high) = range(x);
    Ok(Curve { direction, range: [low, high], shape })
}

impl Curve {
    /// The family it belongs to.
    pub fn kind(&self) -> CurveKind {
        match &self.shape {
            CurveShape::Monotone(_) => CurveKind::Monotone,
            CurveShape::Polynomial(polynomial) => match polynomial.coefficients.len() {
                0..=2 => CurveKind::Linear,
                3 => CurveKind::Quadratic,
                _ => CurveKind::Cubic,
            },
        }
    }

    /// Refuses values no fit can have led to.
    pub fn check(&self) -> Result<(), EstimateError> {
        check_range(&self.range)?;
        self.shape.check()
    }

    /// The accuracy that belongs to a score, cut to `[0, 1]`. A polynomial is evaluated as it stands even where it has turned.
    /// A score that is not finite counts as the end of the range with the lower accuracy, with both doubts set.
    pub fn predict(&self, x: f64) -> Prediction {
        let [low, high] = self.range;
        if !x.is_finite() {
            let worst = match self.direction {
                Direction::Decreasing => high,
                Direction::Increasing => low,
            };
            return Prediction { value: self.evaluate(worst).clamp(0.0, 1.0), saturated: true, outside_range: true };
        }
        let value = self.evaluate(x);
        let margin = RANGE_MARGIN * (high - low);
        Prediction {
            value: value.clamp(0.0, 1.0),
            saturated: !(0.0..=1.0).contains(&value) || self.is_flat(x),
            outside_range: x < low - margin || x > high + margin,
        }
    }

    /// How far the accuracy could be from [`Self::predict`]'s because the score lies beyond the fitted range: nobody has seen
    /// the curve there, and it may have any slope up to its steepest inside. 0 inside, 1 for a score that is not finite.
    pub fn extrapolation_error(&self, x: f64) -> f64 {
        if !x.is_finite() {
            return 1.0;
        }
        let [low, high] = self.range;
        let beyond = (low - x).max(x - high).max(0.0);
        let place = |i: usize| low + (high - low) * i as f64 / (SLOPES - 1) as f64;
        let steepest = (0..SLOPES).fold(0.0, |most: f64, i| most.max(self.slope(place(i)).abs()));
        let error = beyond * steepest;
        if error.is_nan() { 1.0 } else { error.min(1.0) }
    }

    fn slope(&self, x: f64) -> f64 {
        match &self.shape {
            CurveShape::Polynomial(polynomial) => polynomial.slope(x),
            CurveShape::Monotone(spline) => spline.slope(x),
        }
    }

    /// The value before it is cut; 0 where it is too large to be computed.
    fn evaluate(&self, x: f64) -> f64 {
        let value = match &self.shape {
            CurveShape::Polynomial(polynomial) => polynomial.value(x),
            CurveShape::Monotone(spline) => spline.value(x),
        };
        if value.is_nan() { 0.0 } else { value }
    }

    /// Whether the slope has the wrong sign or vanishes, or the curve turns between the middle of its range and `x`.
    fn is_flat(&self, x: f64) -> bool {
        let [low, high] = self.range;
        let responds = self.direction.sign() * self.slope(x) * (high - low) > FLAT;
        let turned = match &self.shape {
            CurveShape::Polynomial(polynomial) => {
                let middle = 0.5 * low + 0.5 * high;
                let between = middle.min(x)..=middle.max(x);
                polynomial.turning_points().iter().any(|t| between.contains(t))
            }
            CurveShape::Monotone(_) => false,
        };
        !responds || turned
    }
}

fn check_range(range: &[f64; 2]) -> Result<(), EstimateError> {
    for (index, found) in range.iter().enumerate() {
        if !found.is_finite() {
            return Err(EstimateError::NotFinite { what: "end of the fitted range", index, found: *found });
        }
    }
    if range[0] >= range[1] {
        return Err(EstimateError::Setting {
            setting: "upper end of the fitted range",
            found: range[1],
            expected: "a larger number than the lower end",
        });
    }
    Ok(())
}

fn read_range<'de, D: Deserializer<'de>>(source: D) -> Result<[f64; 2], D::Error> {
    let range = <[f64; 2]>::deserialize(source)?;
    check_range(&range).map_err(D::Error::custom)?;
    Ok(range)
}

fn read_shape<'de, D: Deserializer<'de>>(source: D) -> Result<CurveShape, D::Error> {
    let shape = CurveShape::deserialize(source)?;
    shape.check().map_err(D::Error::custom)?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    const KINDS: [CurveKind; 4] = [CurveKind::Linear, CurveKind::Quadratic, CurveKind::Cubic, CurveKind::Monotone];

    fn points() -> (Vec<f64>, Vec<f64>) {
        let mut random = SplitMix64::new(30);
        let x: Vec<f64> = (0..21).map(|i| 20.0 * f64::from(i)).collect();
        let y = x.iter().map(|x| 0.75 - 1.5e-3 * x + 0.01 * random.normal()).collect();
        (x, y)
    }

    #[test]
    fn every_kind_follows_the_points_and_survives_storage() {
        let (x, y) = points();
        for kind in KINDS {
            let curve = fit_curve(kind, &x, &y, Direction::Decreasing).unwrap();
            curve.check().unwrap();
            assert_eq!(curve.kind(), kind);
            for (x, y) in x.iter().zip(&y) {
                let prediction = curve.predict(*x);
                assert!((prediction.value - y).abs() < 0.05);
                assert!(!prediction.outside_range);
            }
            let text = serde_json::to_string(&curve).unwrap();
            assert_eq!(serde_json::from_str::<Curve>(&text).unwrap(), curve);
        }
    }

    #[test]
    fn the_margin_is_a_twentieth_of_the_range() {
        let (x, y) = points();
        let curve = fit_curve(CurveKind::Linear, &x, &y, Direction::Decreasing).unwrap();
        for (at, outside) in [(-19.0, false), (-21.0, true), (419.0, false), (421.0, true)] {
            assert_eq!(curve.predict(at).outside_range, outside, "{at}");
        }
    }

    #[test]
    fn beyond_the_range_the_error_grows_with_the_distance() {
        let (x, y) = points();
        for kind in KINDS {
            let curve = fit_curve(kind, &x, &y, Direction::Decreasing).unwrap();
            assert_eq!(curve.extrapolation_error(200.0), 0.0);
            let errors = [-10.0, -40.0].map(|x| curve.extrapolation_error(x));
            assert!((errors[1] / errors[0] - 4.0).abs() < 1e-9, "{errors:?}");
            assert!(errors[0] > 0.01, "{kind:?} {errors:?}");
            for far in [f64::NAN, f64::INFINITY, f64::MAX] {
                assert_eq!(curve.extrapolation_error(far), 1.0);
            }
        }
    }

    #[test]
    fn cutting_and_turning_saturate() {
        let (x, y) = points();
        let line = fit_curve(CurveKind::Linear, &x, &y, Direction::Decreasing).unwrap();
        assert!(!line.predict(200.0).saturated);
        let far = line.predict(5000.0);
        assert_eq!((far.value, far.saturated), (0.0, true));
        assert_eq!(far.flags(), [Flag::SaturatedFit, Flag::OutsideFittedRange]);
        // The same line is wrong everywhere for a score that should grow with the accuracy.
        let wrong = fit_curve(CurveKind::Linear, &x, &y, Direction::Increasing).unwrap();
        assert!(wrong.predict(200.0).saturated);
        let constant = fit_curve(CurveKind::Monotone, &x, &y, Direction::Increasing).unwrap();
        assert!(constant.predict(200.0).saturated);
    }

    #[test]
    fn predictions_are_fractions_for_any_score() {
        let (x, y) = points();
        for kind in KINDS {
            let curve = fit_curve(kind, &x, &y, Direction::Decreasing).unwrap();
            for at in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 1e-300] {
                let value = curve.predict(at).value;
                assert!((0.0..=1.0).contains(&value), "{kind:?} {at} {value}");
            }
            assert!(curve.predict(f64::NAN).saturated);
        }
    }

    #[test]
    fn percentages_are_refused() {
        let error = fit_curve(CurveKind::Linear, &[1.0, 2.0], &[70.0, 60.0], Direction::Decreasing);
        assert!(matches!(error, Err(EstimateError::Setting { .. })));
    }

    #[test]
    fn spoiled_curves_are_refused() {
        let (x, y) = points();
        let good = fit_curve(CurveKind::Quadratic, &x, &y, Direction::Decreasing).unwrap();
        let mut bad = good.clone();
        bad.range = [1.0, 1.0];
        assert!(bad.check().is_err());
        let stored = serde_json::to_value(&bad).unwrap();
        assert!(serde_json::from_value::<Curve>(stored).is_err());
        for knots in ["[]", "[2.0, 1.0]", "[1.0, 2.0, 3.0]"] {
            let stored = format!(
                "{{\"direction\":\"decreasing\",\"range\":[0.0,1.0],\"shape\":{{\"monotone\":\
                 {{\"knots\":{knots},\"slopes\":[0.0,0.0],\"level\":0.5}}}}}}"
            );
            assert!(serde_json::from_str::<Curve>(&stored).is_err(), "{stored}");
        }
        for spoil in [
            |p: &mut Polynomial| p.scale = 0.0,
            |p: &mut Polynomial| p.coefficients.clear(),
            |p: &mut Polynomial| p.centre = f64::NAN,
        ] {
            let mut bad = good.clone();
            if let CurveShape::Polynomial(polynomial) = &mut bad.shape {
                spoil(polynomial);
            }
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
