use crate::correlation::ranks;
use crate::{EstimateError, Score};

/// Probe images the published scale refers to.
const PUBLISHED_PROBE: f64 = 1000.0;

/// Flips: how many predictions adaptation changes.
///
/// *Idea.* The further images lie from what the network knows, the more of its predictions change while it adapts to them.
/// *Formula.* `(1000 / n) sum_i [argmax before != argmax after]`.
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024 (unweighted form).
/// *Departures from the reference.* Scaled by `1000 / n`, so that probes of any size use the same curve.
pub fn flips(initial: &[usize], adapted: &[usize]) -> Result<Score, EstimateError> {
    check_pair(initial, adapted)?;
    let pairs = initial.iter().zip(adapted);
    let terms = pairs
        .map(|(a, b)| {
            if a == b {
                return 0.0;
            }
            PUBLISHED_PROBE
        })
        .collect();
    Ok(Score::from_terms(terms))
}

/// WF: weighted flips.
///
/// *Idea.* As [`flips`], but a prediction the network was sure of counts more when it changes.
/// *Formula.* `(1000 / n) sum_i c_i [argmax before != argmax after]`, with `c_i` the rank of the initial confidence among the `n`
/// images divided by `n`; equal confidences share the average of their ranks. With 1,000 images the largest value is 500.5.
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024.
/// *Departures from the reference.* Scaled by `1000 / n`, so that probes of any size use the same curve. Whose predictions
/// count as initial is up to the caller: those with batch statistics as published, or the source model's own.
pub fn weighted_flips(initial: &[usize], confidence: &[f64], adapted: &[usize]) -> Result<Score, EstimateError> {
    check_pair(initial, adapted)?;
    if confidence.len() != initial.len() {
        return Err(EstimateError::Length { what: "confidences", found: confidence.len(), expected: initial.len() });
    }
    if let Some(index) = confidence.iter().position(|c| !c.is_finite()) {
        return Err(EstimateError::NotFinite { what: "confidence", index, found: confidence[index] });
    }
    let mut terms = ranks(confidence);
    let images = terms.len() as f64;
    for (term, (a, b)) in terms.iter_mut().zip(initial.iter().zip(adapted)) {
        *term = if a == b { 0.0 } else { PUBLISHED_PROBE * *term / images };
    }
    Ok(Score::from_terms(terms))
}

fn check_pair(initial: &[usize], adapted: &[usize]) -> Result<(), EstimateError> {
    if initial.is_empty() {
        return Err(EstimateError::Empty { what: "predictions" });
    }
    if adapted.len() != initial.len() {
        return Err(EstimateError::Length {
            what: "adapted predictions",
            found: adapted.len(),
            expected: initial.len(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn ties_share_the_average_rank() {
        let ranks = ranks(&[0.5, 0.1, 0.5, 0.9, 0.5, 0.0, -0.0]);
        assert_eq!(ranks, [5.0, 3.0, 5.0, 7.0, 5.0, 1.5, 1.5]);
    }

    #[test]
    fn all_flipped_is_the_largest_value() {
        let score = weighted_flips(&[0; 1000], &[0.3; 1000], &[1; 1000]).unwrap();
        assert!((score.value - 500.5).abs() < 1e-9);
        assert_eq!(flips(&[0; 40], &[1; 40]).unwrap().value, 1000.0);
    }

    #[test]
    fn nothing_flipped_is_zero() {
        assert_eq!(weighted_flips(&[3], &[1.0], &[3]).unwrap().value, 0.0);
    }

    #[test]
    fn weights_never_exceed_the_plain_count() {
        let mut random = SplitMix64::new(8);
        for images in [1, 2, 17, 130] {
            let initial: Vec<usize> = (0..images).map(|_| random.below(3)).collect();
            let adapted: Vec<usize> = (0..images).map(|_| random.below(3)).collect();
            let confidence: Vec<f64> = (0..images).map(|_| random.below(5) as f64 / 5.0).collect();
            let weighted = weighted_flips(&initial, &confidence, &adapted).unwrap();
            assert!(weighted.value <= flips(&initial, &adapted).unwrap().value);
            let mean = weighted.terms.unwrap().iter().sum::<f64>() / images as f64;
            assert_eq!(mean, weighted.value);
        }
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(weighted_flips(&[], &[], &[]).is_err());
        assert!(weighted_flips(&[1], &[f64::NAN], &[1]).is_err());
        assert!(weighted_flips(&[1], &[0.5, 0.5], &[1]).is_err());
        assert!(flips(&[1], &[1, 2]).is_err());
    }
}
