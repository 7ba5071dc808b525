use crate::Flag;
use serde::{Deserialize, Serialize};

/// An accuracy, how sure it is, and what speaks against it. All numbers are fractions.
///
/// ```
/// use flipcast_estimate::{Estimate, Flag};
///
/// let estimate = Estimate::around(0.97, 0.05, vec![Flag::TooFewImages]);
/// assert!(estimate.holds(0.93) && !estimate.holds(0.9));
/// assert_eq!(estimate.high, 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The best guess.
    pub accuracy: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Reasons for doubt.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

impl Estimate {
    /// `accuracy` give or take `half_width`, within 0 and 1.
    pub fn around(accuracy: f64, half_width: f64, flags: Vec<Flag>) -> Self {
        let accuracy = accuracy.clamp(0.0, 1.0);
        Self { accuracy, low: (accuracy - half_width).max(0.0), high: (accuracy + half_width).min(1.0), flags }
    }

    /// Whether the interval holds `truth`.
    pub fn holds(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }
}

/// The half width that held for a share `level` of past errors, corrected for their number as split conformal
/// prediction does: the `ceil((n + 1) level)`-th smallest absolute error, or the largest if there are too few.
pub fn conformal_half_width(errors: &[f64], level: f64) -> f64 {
    let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let rank = ((sizes.len() + 1) as f64 * level).ceil() as usize;
    let place = rank.clamp(1, sizes.len().max(1)) - 1;
    sizes.get(place).copied().unwrap_or(1.0)
}

/// How many standard deviations of a normal variable hold a share `level` in the middle, by bisection of the error
/// function's series.
pub fn normal_quantile(level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if central_share(middle) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The same for Student's distribution with `freedom` degrees of freedom, 1 or more.
pub fn student_quantile(level: f64, freedom: usize) -> f64 {
    // With x = sqrt(freedom) tan(angle) the density is a power of a cosine on a finite range.
    let power = freedom.max(1) as i32 - 1;
    let integral = |to: f64| {
        const STEPS: usize = 400;
        let width = to / STEPS as f64;
        let at = |i: usize| (i as f64 * width).cos().powi(power);
        let weight = |i: usize| if i % 2 == 1 { 4.0 } else { 2.0 };
        let inner: f64 = (1..STEPS).map(|i| weight(i) * at(i)).sum();
        (at(0) + inner + at(STEPS)) * width / 3.0
    };
    let whole = integral(std::f64::consts::FRAC_PI_2);
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if integral(middle) < level * whole {
            low = middle;
        } else {
            high = middle;
        }
    }
    (freedom.max(1) as f64).sqrt() * (0.5 * (low + high)).tan()
}

/// The share of a normal variable within `z` standard deviations.
fn central_share(z: f64) -> f64 {
    // erf(x) = 2/sqrt(pi) * x * sum_n (2 x^2)^n e^{-x^2} / (1 * 3 * ... * (2n + 1)), all terms positive.
    let x = z / std::f64::consts::SQRT_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..400 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    2.0 / std::f64::consts::PI.sqrt() * x * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stay_within_0_and_1() {
        let estimate = Estimate::around(0.95, 0.1, Vec::new());
        assert_eq!(estimate.high, 1.0);
        assert!(estimate.holds(0.86) && !estimate.holds(0.84));
    }

    #[test]
    fn the_conformal_rank_grows_with_the_level() {
        let errors: Vec<f64> = (1..=21).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 } * f64::from(i)).collect();
        assert_eq!(conformal_half_width(&errors, 0.9), 20.0);
        assert_eq!(conformal_half_width(&errors, 0.5), 11.0);
        assert_eq!(conformal_half_width(&errors, 0.999), 21.0);
        assert_eq!(conformal_half_width(&[], 0.9), 1.0);
    }

    #[test]
    fn quantiles_are_the_known_ones() {
        for (level, z) in [(0.9, 1.644854), (0.95, 1.959964), (0.5, 0.674490)] {
            assert!((normal_quantile(level) - z).abs() < 1e-5, "{level}");
        }
        for (freedom, t) in [(1, 6.313752), (4, 2.131847), (30, 1.697261)] {
            let found = student_quantile(0.9, freedom);
            assert!((found - t).abs() < 1e-5, "{freedom}: {found}");
        }
    }
}
