use crate::transport::{Share, plan_shares};
use crate::{EstimateError, Outputs, Score};
use serde::{Deserialize, Serialize};

/// Above every probability: the threshold where every labelled image is wrong.
const UNREACHED: f64 = 2.0;

/// Masses are sums of parts of images; differences below this are rounding.
const MASS_ROUNDING: f64 = 1e-6;

/// COTT: thresholded confidence under optimal transport.
///
/// *Idea.* Count the images whose probability under the plan of [`cot`](crate::cot()) is as large as that of a labelled image that
/// is right, instead of averaging probabilities, which few networks have calibrated.
/// *Formula.* `1/N sum_ik x_ik [p_ik >= t]` with the plan `x` of COT and `t` from [`CottThreshold`].
/// *Reference.* Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023.
/// *Departures from the reference.* Scores are probabilities; the reference has `p - 1`, thresholds included. Capacities and
/// batches as in [`cot`](crate::cot()). The reference sums up by label drawn, this by image, which is the same in total.
///
/// # Errors
/// When `marginal` has not one share per class, or they are not shares, or the threshold is NaN or infinite.
pub fn cott(outputs: &Outputs, marginal: &[f64], threshold: f64) -> Result<Score, EstimateError> {
    check_threshold(threshold)?;
    Ok(threshold_plan(&plan_shares(outputs, marginal)?, outputs.images(), threshold))
}

/// Refuses a threshold that is NaN or infinite.
pub(crate) fn check_threshold(threshold: f64) -> Result<(), EstimateError> {
    let refused =
        EstimateError::Setting { setting: "the threshold of COTT", found: threshold, expected: "a finite number" };
    if threshold.is_finite() { Ok(()) } else { Err(refused) }
}

/// COTT of a plan.
pub(crate) fn threshold_plan(plan: &[Share], images: usize, threshold: f64) -> Score {
    let mut terms = vec![0.0; images];
    for share in plan.iter().filter(|share| share.prob >= threshold) {
        terms[share.image] += share.mass;
    }
    Score::from_terms(terms)
}

/// How the threshold of [`cott`] is read off the labelled images' own plan, whose capacities are their label counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CottThreshold {
    /// The probability with as many below it as there are labelled errors, so that the labelled images give their accuracy.
    #[default]
    Exact,
    /// The one before it, as published: an image too many is accepted; without errors it is the largest of all.
    Published,
}

impl CottThreshold {
    /// The threshold, from labelled images. Where all of them are wrong, [`Exact`](Self::Exact) gives one nothing reaches.
    ///
    /// # Errors
    /// When the labels do not fit the outputs.
    pub fn fit(self, outputs: &Outputs, labels: &[usize]) -> Result<f64, EstimateError> {
        outputs.check_labels(labels)?;
        let mut marginal = vec![0.0; outputs.classes()];
        for &label in labels {
            marginal[label] += 1.0 / labels.len() as f64;
        }
        let predicted = outputs.classes_predicted();
        let errors = predicted.iter().zip(labels).filter(|(p, l)| p != l).count();
        let shares = plan_shares(outputs, &marginal)?;
        Ok(match (self, errors) {
            (Self::Exact, _) => prob_above(shares, errors as f64).unwrap_or(UNREACHED),
            (Self::Published, 0) => prob_above(shares, labels.len() as f64 - 1.0).unwrap_or(1.0),
            (Self::Published, _) => prob_above(shares, errors as f64 - 1.0).unwrap_or(1.0),
        })
    }
}

/// The smallest probability such that it and those below it have more than this mass; `None` where all have not.
fn prob_above(mut shares: Vec<Share>, mass: f64) -> Option<f64> {
    shares.sort_by(|a, b| a.prob.total_cmp(&b.prob));
    let mut sum = 0.0;
    shares
        .iter()
        .find(|share| {
            sum += share.mass;
            sum > mass + MASS_ROUNDING
        })
        .map(|share| share.prob)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    fn shares_of(labels: &[usize], classes: usize) -> Vec<f64> {
        let count = |class| labels.iter().filter(|&&label| label == class).count();
        (0..classes).map(|class| count(class) as f64 / labels.len() as f64).collect()
    }

    #[test]
    fn the_labelled_images_themselves_give_their_accuracy() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(12), 180, 8, 2.0);
        let marginal = shares_of(&labels, 8);
        let accuracy = outputs.accuracy(&labels).unwrap();
        let value = |rule: CottThreshold| {
            let threshold = rule.fit(&outputs, &labels).unwrap();
            cott(&outputs, &marginal, threshold).unwrap().value
        };
        assert!((value(CottThreshold::Exact) - accuracy).abs() < 1e-9);
        let published = value(CottThreshold::Published);
        assert!((published - accuracy - 1.0 / 180.0).abs() < 1e-9);
    }

    #[test]
    fn references_without_errors_and_with_nothing_else_are_handled() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(13), 120, 5, 1.0);
        let right = outputs.classes_predicted();
        let threshold = CottThreshold::Exact.fit(&outputs, &right).unwrap();
        let found = cott(&outputs, &shares_of(&right, 5), threshold).unwrap();
        assert!((found.value - 1.0).abs() < 1e-12);
        let threshold = CottThreshold::Published.fit(&outputs, &right).unwrap();
        let found = cott(&outputs, &shares_of(&right, 5), threshold).unwrap();
        assert!((found.value - 1.0 / 120.0).abs() < 1e-12);
        let wrong: Vec<usize> = right.iter().map(|class| (class + 1) % 5).collect();
        let threshold = CottThreshold::Exact.fit(&outputs, &wrong).unwrap();
        let found = cott(&outputs, &shares_of(&wrong, 5), threshold).unwrap();
        assert_eq!(found.value, 0.0);
    }

    #[test]
    fn split_images_count_in_parts() {
        // Half of the only image goes to the likely class, half to the unlikely one.
        let outputs = Outputs::new(vec![2.0, 0.0], 2).unwrap();
        let found = cott(&outputs, &[0.5, 0.5], 0.5).unwrap();
        assert_eq!(found.value, 0.5);
    }

    #[test]
    fn thresholds_and_labels_that_do_not_fit_are_refused() {
        let outputs = Outputs::new(vec![2.0, 0.0], 2).unwrap();
        assert!(cott(&outputs, &[0.5, 0.5], f64::NAN).is_err());
        assert!(CottThreshold::Exact.fit(&outputs, &[2]).is_err());
    }
}
