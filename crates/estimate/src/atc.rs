use crate::{EstimateError, Flag, Outputs, Reference, Score};
use serde::{Deserialize, Serialize};

/// What [`atc`] thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtcScore {
    /// The largest probability (ATC-MC).
    MaxConfidence,
    /// Minus the entropy (ATC-NE).
    NegativeEntropy,
}

impl AtcScore {
    /// The score of every image.
    pub fn scores(self, outputs: &Outputs) -> Vec<f64> {
        match self {
            Self::MaxConfidence => outputs.confidences(),
            Self::NegativeEntropy => outputs.entropies().iter().map(|h| -h).collect(),
        }
    }
}

/// ATC: average thresholded confidence.
///
/// *Idea.* Find the confidence above which as many labelled images lie as are right, and count the unlabelled ones above it.
/// *Formula.* `mean_i [s_i >= t]`, with `s` the largest probability or `sum_k p_k log p_k`, and `t` the labelled score with as
/// many labelled scores below it as there are labelled errors.
/// *Reference.* Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022.
/// *Departures from the reference.* The threshold is read off the sorted scores instead of being searched for by the difference
/// of false positives and negatives; without ties both say the same. If every labelled image is wrong no score is accepted and
/// the estimate is 0; if none is, the threshold is the smallest score and a flag is raised. No probability needs an epsilon,
/// since logarithms come from the logits. As in the published script, temperature is not applied unless
/// [`Outputs::scaled`] was.
///
/// ```
/// use flipcast_estimate::{AtcScore, Outputs, Reference, atc};
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// // Of four labelled images the least confident one is wrong, so three quarters lie above the threshold.
/// let labelled = Outputs::new(vec![4.0, 0.0, 3.0, 0.0, 0.0, 2.0, 1.0, 0.0], 2)?;
/// let reference = Reference::fit(&labelled, &[0, 0, 1, 1])?;
/// let unlabelled = Outputs::new(vec![5.0, 0.0, 0.5, 0.0], 2)?;
/// assert_eq!(atc(&unlabelled, &reference, AtcScore::MaxConfidence)?.value, 0.5);
/// # Ok(())
/// # }
/// ```
pub fn atc(outputs: &Outputs, reference: &Reference, score: AtcScore) -> Result<Score, EstimateError> {
    reference.check_for(outputs)?;
    let threshold = match score {
        AtcScore::MaxConfidence => reference.atc_mc,
        AtcScore::NegativeEntropy => reference.atc_ne,
    };
    let accepted = |s: &f64| f64::from(u8::from(threshold.is_some_and(|t| *s >= t)));
    let mut estimate = Score::from_terms(score.scores(outputs).iter().map(accepted).collect());
    if reference.errors == 0 {
        estimate.raise(Flag::NoReferenceErrors);
    }
    Ok(estimate)
}

/// The score with `errors` scores below it, of several equal ones fewer; nothing if all are errors.
pub(crate) fn fit_threshold(mut scores: Vec<f64>, errors: usize) -> Option<f64> {
    scores.sort_unstable_by(f64::total_cmp);
    scores.get(errors).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    const BOTH: [AtcScore; 2] = [AtcScore::MaxConfidence, AtcScore::NegativeEntropy];

    #[test]
    fn the_labelled_images_themselves_give_their_accuracy() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(2), 150, 7, 2.0);
        let reference = Reference::fit(&outputs, &labels).unwrap();
        for score in BOTH {
            let estimate = atc(&outputs, &reference, score).unwrap();
            assert!((estimate.value - reference.accuracy).abs() < 1e-12);
        }
    }

    #[test]
    fn references_without_errors_and_with_nothing_else_are_handled() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(4), 120, 5, 1.0);
        let right = outputs.classes_predicted();
        let wrong: Vec<usize> = right.iter().map(|c| (c + 1) % 5).collect();
        for score in BOTH {
            let reference = Reference::fit(&outputs, &right).unwrap();
            let estimate = atc(&outputs, &reference, score).unwrap();
            assert_eq!(estimate.value, 1.0);
            assert_eq!(estimate.flags, [Flag::NoReferenceErrors]);
            let reference = Reference::fit(&outputs, &wrong).unwrap();
            assert_eq!(atc(&outputs, &reference, score).unwrap().value, 0.0);
        }
    }

    #[test]
    fn tied_scores_are_accepted_together() {
        assert_eq!(fit_threshold(vec![0.5, 0.2, 0.5, 0.9], 2), Some(0.5));
        assert_eq!(fit_threshold(vec![0.5], 1), None);
        assert_eq!(fit_threshold(vec![0.5, 0.4], 0), Some(0.4));
    }
}
