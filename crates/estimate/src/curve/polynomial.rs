use crate::EstimateError;
use crate::least_squares::least_squares;
use serde::{Deserialize, Serialize};

/// A polynomial in `(x - centre) / scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polynomial {
    /// Where the variable is 0.
    pub centre: f64,
    /// By how much `x` grows where the variable grows by 1.
    pub scale: f64,
    /// Coefficients, highest power first.
    pub coefficients: Vec<f64>,
}

impl Polynomial {
    /// The value at `x`.
    pub fn value(&self, x: f64) -> f64 {
        horner(&self.coefficients, (x - self.centre) / self.scale)
    }

    /// The slope at `x`.
    pub fn slope(&self, x: f64) -> f64 {
        horner(&self.derivative(), (x - self.centre) / self.scale) / self.scale
    }

    /// The places where the slope is 0, for polynomials up to the third degree.
    pub fn turning_points(&self) -> Vec<f64> {
        let roots = match self.derivative()[..] {
            [a, b] if a != 0.0 => vec![-b / a],
            [a, b, c] if a != 0.0 => {
                let inner = b * b - 4.0 * a * c;
                if inner < 0.0 {
                    return Vec::new();
                }
                // The form without cancellation; q is 0 only if b and c are.
                let q = -0.5 * (b + inner.sqrt().copysign(b));
                if q == 0.0 { vec![0.0] } else { vec![q / a, c / q] }
            }
            [_, b, c] if b != 0.0 => vec![-c / b],
            _ => Vec::new(),
        };
        roots.iter().map(|t| self.centre + self.scale * t).collect()
    }

    /// Coefficients in powers of `x` itself, highest first.
    pub fn powers_of_x(&self) -> Vec<f64> {
        let (slope, offset) = (self.scale.recip(), -self.centre / self.scale);
        let mut powers: Vec<f64> = Vec::with_capacity(self.coefficients.len());
        for coefficient in &self.coefficients {
            // powers * (slope x + offset) + coefficient.
            let mut next = vec![0.0; powers.len() + 1];
            for (at, power) in powers.iter().enumerate() {
                next[at] += power * slope;
                next[at + 1] += power * offset;
            }
            if let Some(last) = next.last_mut() {
                *last += coefficient;
            }
            powers = next;
        }
        powers
    }

    /// Refuses values no fit can have led to.
    pub fn check(&self) -> Result<(), EstimateError> {
        if !(2..=4).contains(&self.coefficients.len()) {
            return Err(EstimateError::Setting {
                setting: "number of coefficients",
                found: self.coefficients.len() as f64,
                expected: "2, 3 or 4",
            });
        }
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            return Err(EstimateError::Setting {
                setting: "scale of the curve",
                found: self.scale,
                expected: "a positive finite number",
            });
        }
        let values = [self.centre].into_iter().chain(self.coefficients.clone());
        for (index, found) in values.enumerate() {
            if !found.is_finite() {
                return Err(EstimateError::NotFinite { what: "curve parameter", index, found });
            }
        }
        Ok(())
    }

    /// Coefficients of the derivative by the variable, highest power first.
    fn derivative(&self) -> Vec<f64> {
        let degree = self.coefficients.len().saturating_sub(1);
        let terms = self.coefficients.iter().take(degree).enumerate();
        terms.map(|(at, c)| c * (degree - at) as f64).collect()
    }
}

fn horner(coefficients: &[f64], t: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * t + c)
}

/// Polynomial least squares.
///
/// *Idea.* The curve of a given degree with the smallest squared errors at the points.
/// *Formula.* `argmin_c sum_i (y_i - sum_j c_j t_i^j)^2`, with `t` mapping the range of `x` to `[-1, 1]`.
/// *Reference.* Press et al., ICML 2024, fit their function from flips to accuracy so.
/// *Departures from the reference.* Solved by Householder reflections in the mapped variable, which keeps all digits.
pub fn fit_polynomial(degree: usize, x: &[f64], y: &[f64]) -> Result<Polynomial, EstimateError> {
    if !(1..=3).contains(&degree) {
        return Err(EstimateError::Setting { setting: "degree", found: degree as f64, expected: "1, 2 or 3" });
    }
    check_points(x, y, degree + 1)?;
    let (low, high) = range(x);
    let (centre, scale) = (0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low);
    let power = |j: usize| -> Vec<f64> { x.iter().map(|x| ((x - centre) / scale).powi(j as i32)).collect() };
    let columns: Vec<Vec<f64>> = (0..=degree).rev().map(power).collect();
    let coefficients = least_squares(&columns, y).ok_or(EstimateError::Undefined {
        what: "the curve",
        found: "too many points share their score",
        expected: "more different scores than the curve has degrees",
    })?;
    Ok(Polynomial { centre, scale, coefficients })
}

/// Smallest and largest of some finite values.
pub(super) fn range(x: &[f64]) -> (f64, f64) {
    x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

/// Refuses points that are not finite, not in pairs, or too few.
pub(super) fn check_points(x: &[f64], y: &[f64], least: usize) -> Result<(), EstimateError> {
    if x.len() != y.len() {
        return Err(EstimateError::Length { what: "accuracies", found: y.len(), expected: x.len() });
    }
    if x.len() < least {
        return Err(EstimateError::TooFew { what: "points of the fit", found: x.len(), expected: least });
    }
    for (what, values) in [("score", x), ("accuracy", y)] {
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(EstimateError::NotFinite { what, index, found: values[index] });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_points_give_the_polynomial_back() {
        let x: Vec<f64> = (0..9).map(|i| 1000.0 + 3.0 * f64::from(i)).collect();
        let at = |x: &f64| 2e-6 * x.powi(3) - 0.01 * x * x + 3.0 * x - 4.0;
        let y: Vec<f64> = x.iter().map(at).collect();
        let fitted = fit_polynomial(3, &x, &y).unwrap();
        for x in [990.0, 1001.5, 1030.0] {
            assert!((fitted.value(x) / at(&x) - 1.0).abs() < 1e-12);
        }
        let powers = fitted.powers_of_x();
        for (found, expected) in powers.iter().zip([2e-6, -0.01, 3.0, -4.0]) {
            // The points lie far from 0, which costs the digits of (1000 / 12)^3.
            assert!((found / expected - 1.0).abs() < 1e-6, "{powers:?}");
        }
    }

    #[test]
    fn slopes_match_differences_and_vanish_at_turning_points() {
        let cubic = Polynomial { centre: 2.0, scale: 3.0, coefficients: vec![1.0, -0.5, -2.0, 0.25] };
        let numeric = (cubic.value(4.0 + 1e-5) - cubic.value(4.0 - 1e-5)) / 2e-5;
        assert!((cubic.slope(4.0) - numeric).abs() < 1e-8);
        assert_eq!(cubic.turning_points().len(), 2);
        for x in cubic.turning_points() {
            assert!(cubic.slope(x).abs() < 1e-12);
        }
        let with = |coefficients| Polynomial { coefficients, ..cubic.clone() };
        assert!(with(vec![1.0, 0.0, 2.0, 0.0]).turning_points().is_empty());
        assert_eq!(with(vec![1.0, 0.0, 0.0, 0.0]).turning_points(), [2.0]);
        assert_eq!(with(vec![0.0, 1.0, 0.0, 0.0]).turning_points(), [2.0]);
        assert_eq!(with(vec![1.0, -2.0, 0.0]).turning_points(), [5.0]);
        assert!(with(vec![1.0, 0.0]).turning_points().is_empty());
    }

    #[test]
    fn impossible_fits_are_refused() {
        assert!(matches!(fit_polynomial(2, &[1.0, 2.0], &[1.0, 2.0]), Err(EstimateError::TooFew { .. })));
        for x in [[1.0; 4], [1.0, 1.0, 2.0, 2.0]] {
            assert!(matches!(fit_polynomial(2, &x, &[0.0; 4]), Err(EstimateError::Undefined { .. })));
        }
        assert!(fit_polynomial(1, &[1.0, f64::NAN], &[0.0; 2]).is_err());
        assert!(fit_polynomial(1, &[1.0, 2.0], &[0.0]).is_err());
        assert!(fit_polynomial(4, &[1.0; 9], &[0.0; 9]).is_err());
    }
}
