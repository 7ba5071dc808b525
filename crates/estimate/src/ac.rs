use crate::{EstimateError, Outputs, Score};

/// AC: average confidence.
///
/// *Idea.* A calibrated network is right as often as it says it is.
/// *Formula.* `mean_i max_k p_ik`.
/// *Reference.* Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural
/// Networks", ICLR 2017; as an accuracy estimate in Guillory et al., ICCV 2021.
/// *Departures from the reference.* None. Apply [`Outputs::scaled`] first for the calibrated form.
///
/// ```
/// use flipcast_estimate::{Outputs, ac};
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// // Two classes: one image is sure, the other undecided.
/// let outputs = Outputs::new(vec![30.0, 0.0, 1.0, 1.0], 2)?;
/// assert!((ac(&outputs)?.value - 0.75).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
pub fn ac(outputs: &Outputs) -> Result<Score, EstimateError> {
    Ok(Score::from_terms(outputs.confidences()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecided_networks_are_right_by_chance() {
        let outputs = Outputs::new(vec![0.5; 40], 4).unwrap();
        assert_eq!(ac(&outputs).unwrap().value, 0.25);
    }

    #[test]
    fn one_image_of_one_class_is_right() {
        let outputs = Outputs::new(vec![-3.0], 1).unwrap();
        assert_eq!(ac(&outputs).unwrap().value, 1.0);
    }
}
