use crate::reference::confidence_bin;
use crate::score::mean;
use crate::{EstimateError, Flag, Outputs, Reference, Score};

/// IM: importance re-weighting over confidence.
///
/// *Idea.* Images of equal confidence are right equally often; only the mixture of confidences changes.
/// *Formula.* Ten bins of equal width; `sum_b u_b a_b / sum_b u_b` over the bins `b` that hold labelled images, with `u_b` the
/// share of unlabelled images and `a_b` the accuracy of labelled ones. This equals weighting every labelled image by the
/// ratio of densities in its bin, with weights of mean 1.
/// *Reference.* Chen et al., "Mandoline: Model Evaluation under Distribution Shift", ICML 2021, in the one-dimensional form
/// used by Garg et al., ICLR 2022.
/// *Departures from the reference.* Where no bin holds both kinds of images the reference divides by zero; here each
/// image then takes the accuracy of the nearest bin with labelled images. Images in bins without labelled ones raise a flag.
pub fn im(outputs: &Outputs, reference: &Reference) -> Result<Score, EstimateError> {
    reference.check_for(outputs)?;
    let bins: Vec<usize> = outputs.confidences().iter().map(|c| confidence_bin(*c, reference.bins.len())).collect();
    let covered: Vec<Option<f64>> = bins.iter().map(|b| reference.bins[*b].accuracy()).collect();
    let known: Vec<f64> = covered.iter().flatten().copied().collect();
    let terms: Vec<f64> = if known.is_empty() {
        bins.iter().map(|b| nearest_accuracy(reference, *b)).collect()
    } else {
        // An image that is left out takes the mean of the others, which keeps the mean as it is.
        let value = mean(&known);
        covered.iter().map(|a| a.unwrap_or(value)).collect()
    };
    let left_out = known.len() < bins.len();
    let mut score = Score::from_terms(terms);
    if left_out {
        score.raise(Flag::OutsideFittedRange);
    }
    Ok(score)
}

/// Accuracy in the nearest bin that holds labelled images, the lower one of two.
fn nearest_accuracy(reference: &Reference, bin: usize) -> f64 {
    let filled = reference.bins.iter().enumerate().filter_map(|(at, b)| Some((at.abs_diff(bin), b.accuracy()?)));
    // `Reference::check` makes sure that some bin is filled.
    filled.min_by_key(|(gap, _)| *gap).map_or(0.0, |(_, a)| a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    /// Two-class outputs with these confidences.
    fn with_confidences(confidences: &[f64]) -> Outputs {
        let logits = confidences.iter().flat_map(|c| [(c / (1.0 - c)).ln() as f32, 0.0]).collect();
        Outputs::new(logits, 2).unwrap()
    }

    #[test]
    fn the_labelled_images_themselves_give_their_accuracy() {
        let (outputs, labels) = labelled_outputs(&mut SplitMix64::new(2), 150, 7, 2.0);
        let reference = Reference::fit(&outputs, &labels).unwrap();
        let score = im(&outputs, &reference).unwrap();
        assert!((score.value - reference.accuracy).abs() < 1e-12);
        assert!(score.flags.is_empty());
    }

    #[test]
    fn bins_are_weighted_by_the_unlabelled_images() {
        // Labelled: half right at 0.55, all right at 0.95.
        let reference = Reference::fit(&with_confidences(&[0.55, 0.55, 0.95, 0.95]), &[0, 1, 0, 0]).unwrap();
        let score = im(&with_confidences(&[0.55, 0.55, 0.55, 0.95]), &reference).unwrap();
        assert!((score.value - 0.625).abs() < 1e-12);
        // 0.75 lies in a bin without labelled images and is left out.
        let score = im(&with_confidences(&[0.55, 0.75, 0.75, 0.95]), &reference).unwrap();
        assert!((score.value - 0.75).abs() < 1e-12);
        assert!(score.flags.contains(&Flag::OutsideFittedRange));
    }

    #[test]
    fn no_common_bin_falls_back_to_the_nearest() {
        let reference = Reference::fit(&with_confidences(&[0.55, 0.95]), &[1, 0]).unwrap();
        let score = im(&with_confidences(&[0.65, 0.85]), &reference).unwrap();
        assert_eq!(score.terms.unwrap(), [0.0, 1.0]);
    }
}
