use crate::EstimateError;
use crate::score::mean;
use flipcast_ground::SplitMix64;

/// Standard error of a mean, from the spread of its terms.
///
/// *Idea.* Another sample of as many images would give another mean; this is how much it would typically differ.
/// *Formula.* `sqrt( sum_i (t_i - mean)^2 / (n (n - 1)) )`.
/// *Reference.* Any statistics text.
/// *Departures from the reference.* None. It is the sampling error alone, not the estimator's own; terms that are all equal give 0.
pub fn standard_error(terms: &[f64]) -> Result<f64, EstimateError> {
    check(terms)?;
    let mean = mean(terms);
    let images = terms.len() as f64;
    let squares: f64 = terms.iter().map(|t| (t - mean).powi(2)).sum();
    Ok((squares / (images * (images - 1.0))).sqrt())
}

/// Standard error of a mean, by drawing samples from the sample.
///
/// *Idea.* Means of samples drawn with replacement spread like means of new samples.
/// *Formula.* Standard deviation of the means of `resamples` draws of `n` terms each.
/// *Reference.* Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 1979.
/// *Departures from the reference.* None. The draws depend on `seed` only.
pub fn bootstrap_standard_error(terms: &[f64], resamples: usize, seed: u64) -> Result<f64, EstimateError> {
    check(terms)?;
    if resamples < 2 {
        return Err(EstimateError::TooFew { what: "resamples", found: resamples, expected: 2 });
    }
    let mut random = SplitMix64::new(seed);
    // Shifted by the mean and folded as they come, so that nothing grows with the number of resamples.
    let centre = mean(terms);
    let (mut average, mut squares) = (0.0, 0.0);
    for resample in 0..resamples {
        let sum: f64 = (0..terms.len()).map(|_| terms[random.below(terms.len())] - centre).sum();
        let drawn = sum / terms.len() as f64;
        let gap = drawn - average;
        average += gap / (resample + 1) as f64;
        squares += gap * (drawn - average);
    }
    Ok((squares / (resamples - 1) as f64).sqrt())
}

fn check(terms: &[f64]) -> Result<(), EstimateError> {
    if terms.len() < 2 {
        return Err(EstimateError::TooFew { what: "terms", found: terms.len(), expected: 2 });
    }
    match terms.iter().position(|t| !t.is_finite()) {
        Some(index) => Err(EstimateError::NotFinite { what: "term", index, found: terms[index] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_ones_follow_the_binomial_formula() {
        let terms: Vec<f64> = (0..100).map(|i| f64::from(u8::from(i < 30))).collect();
        let expected = (0.3f64 * 0.7 / 99.0).sqrt();
        assert!((standard_error(&terms).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn drawing_agrees_with_the_formula() {
        let mut random = SplitMix64::new(9);
        let terms: Vec<f64> = (0..400).map(|_| random.uniform()).collect();
        let drawn = bootstrap_standard_error(&terms, 2000, 7).unwrap();
        let ratio = drawn / standard_error(&terms).unwrap();
        // Relative standard error 1 / sqrt(2 * 2000) = 0.016; four of them.
        assert!((ratio - 1.0).abs() < 0.065, "{ratio}");
        assert_eq!(drawn, bootstrap_standard_error(&terms, 2000, 7).unwrap());
        assert_ne!(drawn, bootstrap_standard_error(&terms, 2000, 8).unwrap());
    }

    #[test]
    fn too_little_and_broken_input_is_refused() {
        assert!(standard_error(&[0.5]).is_err());
        assert!(standard_error(&[0.5, f64::NAN]).is_err());
        assert!(bootstrap_standard_error(&[0.5, 0.5], 1, 0).is_err());
        assert_eq!(standard_error(&[0.5, 0.5]).unwrap(), 0.0);
    }
}
