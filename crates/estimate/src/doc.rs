use crate::{EstimateError, Outputs, Reference, Score};

/// DoC: difference of confidences.
///
/// *Idea.* Accuracy falls by as much as the average confidence does.
/// *Formula.* `accuracy_V + mean conf_U - mean conf_V`, with V the labelled and U the unlabelled images.
/// *Reference.* Guillory et al., "Predicting with Confidence on Unseen Distributions", ICCV 2021.
/// *Departures from the reference.* The slope is 1 instead of being fitted, as in later comparisons; a
/// [`Curve`](crate::Curve) over [`ac`](crate::ac) is the fitted form. The sum is not cut to `[0, 1]`.
pub fn doc(outputs: &Outputs, reference: &Reference) -> Result<Score, EstimateError> {
    reference.check_for(outputs)?;
    let shift = reference.accuracy - reference.mean_confidence;
    let terms = outputs.confidences().iter().map(|c| c + shift).collect();
    Ok(Score::from_terms(terms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    #[test]
    fn the_labelled_images_themselves_give_their_accuracy() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(2), 150, 7, 2.0);
        let reference = Reference::fit(&outputs, &labels).unwrap();
        let score = doc(&outputs, &reference).unwrap();
        assert!((score.value - reference.accuracy).abs() < 1e-12);
    }

    #[test]
    fn another_number_of_classes_is_refused() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(2), 10, 7, 2.0);
        let reference = Reference::fit(&outputs, &labels).unwrap();
        let (other, _) = labelled_outputs(&mut SplitMix64::new(3), 10, 6, 2.0);
        assert!(matches!(doc(&other, &reference), Err(EstimateError::Length { .. })));
    }
}
