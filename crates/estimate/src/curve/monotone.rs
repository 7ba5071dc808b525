use super::fit::Direction;
use super::polynomial::{check_points, range};
use crate::EstimateError;
use crate::least_squares::least_squares;
use serde::{Deserialize, Serialize};

/// From this many different scores on there is a knot in the middle.
const POINTS_FOR_A_MIDDLE_KNOT: usize = 9;

/// A smooth curve that never turns: its slope is linear between knots, constant beyond them, and never changes sign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonotoneSpline {
    /// Increasing positions.
    pub knots: Vec<f64>,
    /// Slopes there.
    pub slopes: Vec<f64>,
    /// Value at the first knot.
    pub level: f64,
}

impl MonotoneSpline {
    /// The value at `x`.
    pub fn value(&self, x: f64) -> f64 {
        let weights = integrals(&self.knots, x);
        let rise: f64 = weights.iter().zip(&self.slopes).map(|(w, s)| w * s).sum();
        self.level + rise
    }

    /// The slope at `x`.
    pub fn slope(&self, x: f64) -> f64 {
        let (first, last) = (self.slopes[0], self.slopes[self.slopes.len() - 1]);
        let after = self.knots.partition_point(|k| *k <= x);
        if after == 0 {
            first
        } else if after == self.knots.len() {
            last
        } else {
            let share = (x - self.knots[after - 1]) / (self.knots[after] - self.knots[after - 1]);
            (1.0 - share) * self.slopes[after - 1] + share * self.slopes[after]
        }
    }

    /// Refuses values no fit can have led to.
    pub fn check(&self) -> Result<(), EstimateError> {
        if self.knots.len() < 2 {
            return Err(EstimateError::TooFew { what: "knots", found: self.knots.len(), expected: 2 });
        }
        if self.slopes.len() != self.knots.len() {
            return Err(EstimateError::Length { what: "slopes", found: self.slopes.len(), expected: self.knots.len() });
        }
        let values = self.knots.iter().chain(&self.slopes).chain([&self.level]);
        for (index, found) in values.enumerate() {
            if !found.is_finite() {
                return Err(EstimateError::NotFinite { what: "curve parameter", index, found: *found });
            }
        }
        for pair in self.knots.windows(2) {
            if pair[0] >= pair[1] {
                return Err(EstimateError::Setting {
                    setting: "knot",
                    found: pair[1],
                    expected: "a larger number than the knot before it",
                });
            }
        }
        Ok(())
    }
}

/// Monotone smooth regression.
///
/// *Idea.* More flips never mean more accuracy. A parabola fitted to noisy points may turn within them; this curve cannot, and
/// goes on straight beyond them.
/// *Formula.* `argmin sum_i (y_i - f(x_i))^2` over curves whose slope is linear between the smallest, median and largest score
/// and nowhere has the wrong sign. With two knots this is a parabola that does not turn within its points; they are used below
/// nine different scores.
/// *Reference.* Ramsay, "Monotone Regression Splines in Action", Statistical Science 1988 (integrated splines with weights
/// that are not negative).
/// *Departures from the reference.* Linear pieces of slope instead of higher orders. With at most three slopes, the best
/// one is found by solving without constraint for every set of slopes that are not 0.
pub(super) fn fit_monotone(x: &[f64], y: &[f64], direction: Direction) -> Result<MonotoneSpline, EstimateError> {
    check_points(x, y, 2)?;
    let (low, high) = range(x);
    if low >= high {
        return Err(EstimateError::Undefined {
            what: "the curve",
            found: "all points share their score",
            expected: "at least two different scores",
        });
    }
    let knots = place_knots(x, low, high);
    let sign = direction.sign();
    let basis: Vec<Vec<f64>> = x.iter().map(|x| integrals(&knots, *x)).collect();
    let mut best: Option<(f64, MonotoneSpline)> = None;
    for chosen in 0..1usize << knots.len() {
        let used: Vec<usize> = (0..knots.len()).filter(|j| chosen >> j & 1 == 1).collect();
        let mut columns = vec![vec![1.0; x.len()]];
        columns.extend(used.iter().map(|j| basis.iter().map(|row| sign * row[*j]).collect::<Vec<_>>()));
        let Some(solved) = least_squares(&columns, y) else {
            continue;
        };
        if solved[1..].iter().any(|weight| *weight < 0.0) {
            continue;
        }
        let mut slopes = vec![0.0; knots.len()];
        for (j, weight) in used.iter().zip(&solved[1..]) {
            slopes[*j] = sign * weight;
        }
        let spline = MonotoneSpline { knots: knots.clone(), slopes, level: solved[0] };
        let error: f64 = x.iter().zip(y).map(|(x, y)| (spline.value(*x) - y).powi(2)).sum();
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, spline));
        }
    }
    best.map(|(_, spline)| spline).ok_or(EstimateError::Undefined {
        what: "the curve",
        found: "scores too large or too close to each other",
        expected: "scores that differ by more than rounding",
    })
}

/// The ends of the range, and the median between them if there are points enough.
fn place_knots(x: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut sorted = x.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    let median = sorted[sorted.len() / 2];
    if sorted.len() >= POINTS_FOR_A_MIDDLE_KNOT && low < median && median < high {
        vec![low, median, high]
    } else {
        vec![low, high]
    }
}

/// For every knot, the integral from the first knot to `x` of the function that is 1 there, 0 at the other knots, linear
/// between and constant beyond.
fn integrals(knots: &[f64], x: f64) -> Vec<f64> {
    let last = knots.len() - 1;
    let mut weights = vec![0.0; knots.len()];
    if x <= knots[0] {
        weights[0] = x - knots[0];
        return weights;
    }
    for left in 0..last {
        let width = knots[left + 1] - knots[left];
        let share = ((x - knots[left]) / width).clamp(0.0, 1.0);
        weights[left] += width * share * (1.0 - 0.5 * share);
        weights[left + 1] += width * 0.5 * share * share;
    }
    weights[last] += (x - knots[last]).max(0.0);
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::fit_polynomial;
    use flipcast_ground::SplitMix64;

    #[test]
    fn points_on_a_line_give_the_line() {
        let x: Vec<f64> = (0..21).map(|i| 7.0 + f64::from(i * i)).collect();
        let y: Vec<f64> = x.iter().map(|x| 0.9 - 0.001 * x).collect();
        let spline = fit_monotone(&x, &y, Direction::Decreasing).unwrap();
        for x in [-50.0, 7.0, 100.0, 407.0, 600.0] {
            assert!((spline.value(x) - (0.9 - 0.001 * x)).abs() < 1e-12);
            assert!((spline.slope(x) + 0.001).abs() < 1e-12);
        }
    }

    #[test]
    fn a_parabola_that_does_not_turn_is_fitted_exactly() {
        let x: Vec<f64> = (0..21).map(|i| 20.0 * f64::from(i)).collect();
        let y: Vec<f64> = x.iter().map(|x| 0.75 - 3.2e-3 * x + 3.6e-6 * x * x).collect();
        let spline = fit_monotone(&x, &y, Direction::Decreasing).unwrap();
        let parabola = fit_polynomial(2, &x, &y).unwrap();
        for at in x {
            assert!((spline.value(at) - parabola.value(at)).abs() < 1e-12);
        }
    }

    #[test]
    fn noisy_points_never_make_it_turn() {
        let mut random = SplitMix64::new(21);
        for _ in 0..50 {
            let x: Vec<f64> = (0..21).map(|_| 450.0 * random.uniform()).collect();
            let y: Vec<f64> = x.iter().map(|x| 0.3 - 0.0005 * x + 0.1 * random.normal()).collect();
            for (direction, sign) in [(Direction::Decreasing, -1.0), (Direction::Increasing, 1.0)] {
                let spline = fit_monotone(&x, &y, direction).unwrap();
                spline.check().unwrap();
                for at in -20..120 {
                    assert!(sign * spline.slope(5.0 * f64::from(at)) >= 0.0);
                }
            }
        }
    }

    #[test]
    fn the_slope_is_the_derivative() {
        let spline = MonotoneSpline { knots: vec![1.0, 2.0, 5.0], slopes: vec![-1.0, -0.25, -2.0], level: 3.0 };
        for x in [0.0, 1.25, 1.75, 3.0, 4.5, 6.0] {
            let numeric = (spline.value(x + 1e-6) - spline.value(x - 1e-6)) / 2e-6;
            assert!((numeric - spline.slope(x)).abs() < 1e-8, "{x}");
        }
    }

    #[test]
    fn equal_scores_are_refused() {
        assert!(fit_monotone(&[2.0; 5], &[0.5; 5], Direction::Decreasing).is_err());
        assert!(fit_monotone(&[2.0], &[0.5], Direction::Decreasing).is_err());
    }
}
