use super::em::{Probs, total_variation};
use crate::parallel::map_ranges;
use crate::transport::check_shares;
use crate::{EstimateError, Flag, Outputs};

/// A mismatch above this, noise taken off, is called large: COT may be off by up to ten points. A choice, not a fitted value.
const LARGE: f64 = 0.1;

/// How far the class marginal of unlabelled images seems to lie from an assumed one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarginalMismatch {
    /// Total variation between the marginal estimated from the images and the assumed one.
    pub distance: f64,
    /// The part of it that chance explains: what two halves of the images disagree by, halved.
    pub noise: f64,
}

impl MarginalMismatch {
    /// The distance without its noise, which is independent of it and so adds to its square.
    pub fn excess(&self) -> f64 {
        (self.distance.powi(2) - self.noise.powi(2)).max(0.0).sqrt()
    }

    /// The flag for an estimate that relies on the assumed marginal, where the mismatch is large and larger than its noise.
    pub fn flag(&self) -> Option<Flag> {
        (self.excess() > LARGE.max(self.noise)).then_some(Flag::ClassMarginalMismatch)
    }
}

/// Compares the marginal that unlabelled images suggest with an assumed one.
///
/// *Idea.* COT with a wrong marginal is wrong by up to the share of images in wrong classes. Expectation maximisation estimates the
/// marginal without labels, and how much it differs between halves of the images shows how much of the difference is chance.
/// *Formula.* `distance = TV(em(all), assumed)`, `noise = TV(em(even), em(odd)) / 2`: the noise of a half is `sqrt 2` of that of
/// the whole, and their difference has that of two halves.
/// *Reference.* Saerens et al. 2002 for the estimate.
/// *Departures from the reference.* The comparison is this project's own. Probabilities should be calibrated; a network that is
/// wrong with confidence looks like one with other classes.
///
/// # Errors
/// When `assumed` or `reference` is not one share per class.
pub fn measure_mismatch(
    outputs: &Outputs,
    assumed: &[f64],
    reference: &[f64],
) -> Result<MarginalMismatch, EstimateError> {
    check_shares(assumed, outputs.classes())?;
    check_shares(reference, outputs.classes())?;
    let probs = Probs::new(outputs);
    // All images, then the even and the odd ones.
    let parts = if outputs.images() > 1 { &[(0, 1), (0, 2), (1, 2)][..] } else { &[(0, 1)] };
    let estimates = map_ranges(0, parts.len(), 1, |range| {
        let (first, step) = parts[range.start];
        probs.estimate(first, step, reference)
    });
    Ok(MarginalMismatch {
        distance: total_variation(&estimates[0], assumed),
        noise: match &estimates[1..] {
            [even, odd] => total_variation(even, odd) / 2.0,
            _ => 1.0,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::calibrated;

    #[test]
    fn a_skewed_marginal_is_flagged_and_a_uniform_one_is_not() {
        let uniform = [0.05; 20];
        for images in [100, 400, 2000] {
            let (outputs, _) = calibrated(images as u64, images, &uniform, 2.0);
            let found = measure_mismatch(&outputs, &uniform, &uniform).unwrap();
            assert_eq!(found.flag(), None, "{images}: {found:?}");
        }
        let skewed: Vec<f64> = (0..20).map(|k| 1.0 / (1.0 + f64::from(k))).collect();
        for images in [400, 2000] {
            let (outputs, _) = calibrated(images as u64, images, &skewed, 2.0);
            let found = measure_mismatch(&outputs, &uniform, &uniform).unwrap();
            assert_eq!(found.flag(), Some(Flag::ClassMarginalMismatch), "{images}: {found:?}");
        }
    }

    #[test]
    fn one_image_proves_nothing() {
        let outputs = Outputs::new(vec![5.0, 0.0, 0.0], 3).unwrap();
        let found = measure_mismatch(&outputs, &[1.0 / 3.0; 3], &[1.0 / 3.0; 3]).unwrap();
        assert_eq!(found.flag(), None);
    }
}
