use crate::transport::{ProbRows, Problem, Share, check_shares, plan_shares, solve};
use crate::{EstimateError, Outputs, Score};

/// COT: confidence under optimal transport to the class marginal.
///
/// *Idea.* A network that drifts predicts some classes too often. Give every image a class so that the classes occur as often as
/// they should and the probabilities given up are as few as possible; the mean probability of the classes given is the accuracy.
/// *Formula.* `1/N max sum_ik x_ik p_ik` over `x >= 0` with `sum_k x_ik = 1` and `sum_i x_ik = N marginal_k`. It is never above
/// [`ac`](crate::ac()), which has no condition on the classes. The term of an image is `sum_k x_ik p_ik`.
/// *Reference.* Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023. Its cost, half the L1
/// distance of a probability vector to a one-hot label, is `1 - p_k`.
/// *Departures from the reference.* Capacities are real numbers instead of rounded counts with a random rest. More than
/// 20,000 images are solved in batches of at most 10,000 without replacement, dealt in a fixed random order, instead of batches of
/// 10,000 with replacement. Apply [`Outputs::scaled`] first for the calibrated form.
///
/// ```
/// use flipcast_estimate::{Outputs, ac, cot};
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// // Both images are predicted as class 0, but the classes occur equally often.
/// let outputs = Outputs::new(vec![3.0, 0.0, 1.0, 0.0], 2)?;
/// assert!(cot(&outputs, &[0.5, 0.5])?.value < ac(&outputs)?.value);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When `marginal` has not one share per class, or the shares are negative or do not add up to one.
pub fn cot(outputs: &Outputs, marginal: &[f64]) -> Result<Score, EstimateError> {
    Ok(score_plan(&plan_shares(outputs, marginal)?, outputs.images()))
}

/// [`cot`] of many subsets of the same images, for resampling: the probabilities are computed once, and a subset costs its transport
/// alone.
///
/// ```
/// use flipcast_estimate::{Outputs, SubsetCot, cot};
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// let outputs = Outputs::new(vec![3.0, 0.0, 1.0, 0.0, 0.0, 2.0], 2)?;
/// let subsets = SubsetCot::new(&outputs);
/// let all = subsets.estimate(&[0, 1, 2], &[0.5, 0.5])?;
/// assert_eq!(all, cot(&outputs, &[0.5, 0.5])?);
/// // The second image twice, as bootstrap samples have it.
/// assert!(subsets.estimate(&[1, 1, 2], &[0.5, 0.5])?.value < all.value);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SubsetCot {
    probs: ProbRows,
}

impl SubsetCot {
    /// Computes the probabilities, eight bytes for each.
    pub fn new(outputs: &Outputs) -> Self {
        let images: Vec<usize> = (0..outputs.images()).collect();
        Self { probs: ProbRows::new(outputs, &images) }
    }

    /// COT of these images, of which one may be named several times; always solved as one problem.
    ///
    /// # Errors
    /// As [`cot`], and when no image is named or one that is not there.
    pub fn estimate(&self, images: &[usize], marginal: &[f64]) -> Result<Score, EstimateError> {
        check_shares(marginal, self.probs.classes())?;
        if images.is_empty() {
            return Err(EstimateError::Empty { what: "images of the subset" });
        }
        if let Some(&found) = images.iter().find(|&&image| image >= self.probs.images()) {
            let expected = "a position among the images, counted from 0";
            return Err(EstimateError::Setting { setting: "the number of an image", found: found as f64, expected });
        }
        let plan = solve(&Problem::new(&self.probs, images.into(), marginal));
        Ok(score_plan(&plan.shares, images.len()))
    }
}

/// COT of a plan.
pub(crate) fn score_plan(plan: &[Share], images: usize) -> Score {
    let mut terms = vec![0.0; images];
    for share in plan {
        terms[share.image] += share.mass * share.prob;
    }
    Score::from_terms(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    fn uniform(classes: usize) -> Vec<f64> {
        vec![1.0 / classes as f64; classes]
    }

    #[test]
    fn one_class_is_always_right() {
        let outputs = Outputs::new(vec![3.0, -2.0], 1).unwrap();
        assert_eq!(cot(&outputs, &[1.0]).unwrap().value, 1.0);
    }

    #[test]
    fn fewer_images_than_classes_are_split() {
        // One image over four equal capacities has the mean of its probabilities, whatever they are.
        let outputs = Outputs::new(vec![1.0, 7.0, -2.0, 0.0], 4).unwrap();
        let found = cot(&outputs, &uniform(4)).unwrap();
        assert!((found.value - 0.25).abs() < 1e-12);
    }

    #[test]
    fn certain_images_in_equal_shares_are_right() {
        let logits = (0..30).flat_map(|image| (0..3).map(move |class| if image % 3 == class { 2e3 } else { 0.0 }));
        let outputs = Outputs::new(logits.collect(), 3).unwrap();
        assert_eq!(cot(&outputs, &uniform(3)).unwrap().value, 1.0);
        // All mass must go to one class, which a third of the images names.
        let found = cot(&outputs, &[0.0, 1.0, 0.0]).unwrap();
        assert!((found.value - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn undecided_images_are_right_by_chance() {
        let outputs = Outputs::new(vec![0.0; 7 * 130], 7).unwrap();
        let marginal = [0.5, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1];
        for marginal in [&uniform(7)[..], &marginal] {
            let found = cot(&outputs, marginal).unwrap();
            assert!((found.value - 1.0 / 7.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_value_is_never_above_the_confidence_and_is_the_mean_of_its_terms() {
        let mut random = SplitMix64::new(6);
        for classes in [2, 5, 30] {
            let (outputs, _) = labelled_outputs(&mut random, 120, classes, 2.0);
            let found = cot(&outputs, &uniform(classes)).unwrap();
            let confidence = crate::score::mean(&outputs.confidences());
            assert!(found.value <= confidence + 1e-12);
            let terms = found.terms.unwrap();
            assert_eq!(found.value, crate::score::mean(&terms));
            assert!(terms.iter().all(|term| (0.0..=1.0).contains(term)));
        }
    }

    #[test]
    fn the_predicted_shares_cost_nothing() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(9), 200, 6, 1.0);
        let mut marginal = vec![0.0; 6];
        for class in outputs.classes_predicted() {
            marginal[class] += 1.0 / 200.0;
        }
        let found = cot(&outputs, &marginal).unwrap().value;
        let confidence = crate::score::mean(&outputs.confidences());
        assert!((found - confidence).abs() < 1e-12);
    }

    #[test]
    fn subsets_are_as_if_they_were_all() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(10), 90, 7, 2.0);
        let subsets = SubsetCot::new(&outputs);
        let images: Vec<usize> = (0..60).map(|at| at * at % 90).collect();
        let rows: Vec<f32> = images.iter().flat_map(|&image| outputs.row(image)).copied().collect();
        let expected = cot(&Outputs::new(rows, 7).unwrap(), &uniform(7)).unwrap();
        assert_eq!(subsets.estimate(&images, &uniform(7)).unwrap(), expected);
        for broken in [&[][..], &[90]] {
            assert!(subsets.estimate(broken, &uniform(7)).is_err());
        }
        assert!(subsets.estimate(&images, &uniform(6)).is_err());
    }

    #[test]
    fn marginals_that_fit_no_classes_are_refused() {
        let outputs = Outputs::new(vec![0.0; 6], 3).unwrap();
        assert!(cot(&outputs, &[0.5, 0.5]).is_err());
        assert!(cot(&outputs, &[0.9, 0.9, 0.2]).is_err());
    }
}
