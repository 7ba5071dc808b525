use crate::outputs::largest;
use crate::reference::ece;
use crate::{EstimateError, Outputs};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Temperatures outside `[1 / LIMIT, LIMIT]` are not considered.
const LIMIT: f64 = 100.0;

/// Steps at most. A step is shorter than half of the one before or halves the bracket, so fewer do.
const MAX_STEPS: usize = 200;

/// Relative step that ends the search; the next one would be about its square, below what rounding leaves.
const CONVERGED: f64 = 1e-9;

/// A temperature and what it does to labelled outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temperature {
    /// What logits are divided by; a stored value out of range is refused when it is read.
    #[serde(deserialize_with = "read_value")]
    pub value: f64,
    /// Mean negative log-likelihood of the labels before, in nats.
    pub nll_before: f64,
    /// The same afterwards.
    pub nll_after: f64,
    /// Expected calibration error before.
    pub ece_before: f64,
    /// The same afterwards.
    pub ece_after: f64,
}

impl Temperature {
    /// Refuses a temperature that [`fit_temperature`] cannot have given.
    pub fn check(&self) -> Result<(), EstimateError> {
        check_value(self.value)
    }
}

fn check_value(value: f64) -> Result<(), EstimateError> {
    // Reciprocals of the limits may be off by rounding.
    if (0.999 / LIMIT..=1.001 * LIMIT).contains(&value) {
        Ok(())
    } else {
        Err(EstimateError::Setting { setting: "temperature", found: value, expected: "a number from 0.01 to 100" })
    }
}

fn read_value<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(source)?;
    check_value(value).map_err(D::Error::custom)?;
    Ok(value)
}

/// Temperature scaling.
///
/// *Idea.* Divide all logits by one number, so that confidence and accuracy match on labelled images; no prediction changes.
/// *Formula.* `T = argmin mean_i -log softmax(z_i / T)_{y_i}`. In `b = 1 / T` this is convex, with slope
/// `mean_i (E_p[z_i] - z_{i, y_i})` and curvature `mean_i Var_p[z_i]`.
/// *Reference.* Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
/// *Departures from the reference.* Newton's method with a bracket instead of L-BFGS, so the minimum is reached whatever the
/// start. `T` is limited to `[0.01, 100]`; the limit is returned where the likelihood improves without end, as it does if every
/// image is classified correctly.
pub fn fit_temperature(outputs: &Outputs, labels: &[usize]) -> Result<Temperature, EstimateError> {
    outputs.check_labels(labels)?;
    let inverse = minimise(outputs, labels);
    let value = inverse.recip();
    Ok(Temperature {
        value,
        nll_before: likelihood(outputs, labels, 1.0).loss,
        nll_after: likelihood(outputs, labels, inverse).loss,
        ece_before: ece(outputs, labels)?,
        ece_after: ece(&outputs.scaled(value), labels)?,
    })
}

/// The inverse temperature of the smallest loss within the limits.
fn minimise(outputs: &Outputs, labels: &[usize]) -> f64 {
    let (mut low, mut high) = (LIMIT.recip(), LIMIT);
    let mut inverse = 1.0;
    let mut here = likelihood(outputs, labels, inverse);
    if here.slope == 0.0 {
        return inverse;
    }
    if likelihood(outputs, labels, low).slope >= 0.0 {
        return low;
    }
    if likelihood(outputs, labels, high).slope <= 0.0 {
        return high;
    }
    let mut step = high - low;
    for _ in 0..MAX_STEPS {
        if here.slope > 0.0 {
            high = inverse;
        } else {
            low = inverse;
        }
        let newton = inverse - here.slope / here.curvature;
        // Where the curvature is 0 the quotient is not finite and the bracket is halved, as where steps do not shrink.
        let next = if low < newton && newton < high && (newton - inverse).abs() < 0.5 * step {
            newton
        } else {
            (low * high).sqrt()
        };
        step = (next - inverse).abs();
        inverse = next;
        here = likelihood(outputs, labels, inverse);
        if here.slope == 0.0 || step <= CONVERGED * inverse {
            break;
        }
    }
    inverse
}

/// The loss at an inverse temperature, and its derivatives by it.
struct Likelihood {
    loss: f64,
    slope: f64,
    curvature: f64,
}

fn likelihood(outputs: &Outputs, labels: &[usize], inverse: f64) -> Likelihood {
    let mut total = Likelihood { loss: 0.0, slope: 0.0, curvature: 0.0 };
    for (row, &label) in outputs.rows().zip(labels) {
        let largest = largest(row);
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for &z in row {
            let gap = f64::from(z) - largest;
            let weight = (inverse * gap).exp();
            sum += weight;
            first += weight * gap;
            second += weight * gap * gap;
        }
        let gap = f64::from(row[label]) - largest;
        let expected = first / sum;
        total.loss += sum.ln() - inverse * gap;
        total.slope += expected - gap;
        total.curvature += (second / sum - expected * expected).max(0.0);
    }
    let images = labels.len() as f64;
    Likelihood { loss: total.loss / images, slope: total.slope / images, curvature: total.curvature / images }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    #[test]
    fn a_planted_temperature_is_found() {
        // Labels drawn from softmax(z), logits then multiplied by 2.5.
        let mut random = SplitMix64::new(11);
        let (images, classes) = (4000, 6);
        let (outputs, _) = labelled_outputs(&mut random, images, classes, 0.0);
        let mut probs = Vec::new();
        let labels: Vec<usize> = (0..images)
            .map(|image| {
                outputs.probs_into(image, &mut probs);
                let mut left = random.uniform();
                probs
                    .iter()
                    .position(|p| {
                        left -= p;
                        left < 0.0
                    })
                    .unwrap_or(classes - 1)
            })
            .collect();
        let fitted = fit_temperature(&outputs.scaled(0.4), &labels).unwrap();
        // The curvature is about 5, so 1 / T has a standard error of 1 / sqrt(4000 * 5), and T one of 0.044; four of them.
        assert!((fitted.value - 2.5).abs() < 0.176, "{fitted:?}");
        assert!(fitted.nll_after < fitted.nll_before);
        assert!(fitted.ece_after < fitted.ece_before);
        fitted.check().unwrap();
    }

    #[test]
    fn the_slope_vanishes_at_the_minimum_and_matches_differences() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(3), 300, 5, 2.0);
        let inverse = minimise(&outputs, &labels);
        assert!(likelihood(&outputs, &labels, inverse).slope.abs() < 1e-12);
        let at = |b| likelihood(&outputs, &labels, b);
        let numeric = (at(0.7 + 1e-5).loss - at(0.7 - 1e-5).loss) / 2e-5;
        assert!((numeric - at(0.7).slope).abs() < 1e-8);
        let numeric = (at(0.7 + 1e-5).slope - at(0.7 - 1e-5).slope) / 2e-5;
        assert!((numeric - at(0.7).curvature).abs() < 1e-8);
    }

    #[test]
    fn unbounded_and_flat_problems_end_at_a_usable_value() {
        let outputs = Outputs::new(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap();
        for (labels, expected) in [([0, 1], 0.01), ([1, 0], 100.0)] {
            let fitted = fit_temperature(&outputs, &labels).unwrap();
            assert!((fitted.value / expected - 1.0).abs() < 1e-9, "{fitted:?}");
            fitted.check().unwrap();
        }
        let flat = Outputs::new(vec![2.0; 4], 2).unwrap();
        assert_eq!(fit_temperature(&flat, &[0, 1]).unwrap().value, 1.0);
        let extreme = Outputs::new(vec![f32::MAX, f32::MIN, f32::MIN, f32::MAX], 2).unwrap();
        for labels in [[0, 1], [1, 1], [1, 0]] {
            let fitted = fit_temperature(&extreme, &labels).unwrap();
            assert!(fitted.nll_after.is_finite(), "{fitted:?}");
            fitted.check().unwrap();
        }
    }

    #[test]
    fn stored_values_are_checked() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(3), 30, 5, 2.0);
        let fitted = fit_temperature(&outputs, &labels).unwrap();
        let mut stored = serde_json::to_value(fitted).unwrap();
        let read = serde_json::from_value::<Temperature>(stored.clone());
        assert_eq!(read.unwrap(), fitted);
        stored["value"] = 0.0.into();
        assert!(serde_json::from_value::<Temperature>(stored).is_err());
    }

    #[test]
    fn labels_are_checked() {
        let outputs = Outputs::new(vec![1.0, 0.0], 2).unwrap();
        assert!(fit_temperature(&outputs, &[2]).is_err());
    }
}
