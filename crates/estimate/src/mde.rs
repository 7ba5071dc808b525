use crate::score::mean;
use crate::softmax::RowSummary;
use crate::{EstimateError, Outputs, Score};

/// MDE: meta-distribution energy.
///
/// *Idea.* The free energy of a prediction falls with its logits; how evenly energies spread over the images tracks the loss.
/// *Formula.* `E_i = -T logsumexp(z_i / T)`; score `log(-mean_i log softmax_over_images(E)_i)`.
/// *Reference.* Peng et al., "Energy-based Automated Model Evaluation", ICLR 2024.
/// *Departures from the reference.* None. The score contains `log n`, so a curve holds only for sets of the size it was
/// fitted on. One image alone has no spread and is refused.
pub fn mde(outputs: &Outputs, temperature: f64) -> Result<Score, EstimateError> {
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(EstimateError::Setting {
            setting: "temperature",
            found: temperature,
            expected: "a positive finite number",
        });
    }
    if outputs.images() < 2 {
        return Err(EstimateError::TooFew { what: "images", found: outputs.images(), expected: 2 });
    }
    let energies: Vec<f64> = if temperature == 1.0 {
        outputs.summaries().iter().map(|row| -row.log_sum_exp()).collect()
    } else {
        let energy = |(row, summary): (&[f32], &RowSummary)| {
            let largest = summary.largest;
            let sum: f64 = row.iter().map(|&z| ((f64::from(z) - largest) / temperature).exp()).sum();
            -largest - temperature * sum.ln()
        };
        outputs.rows().zip(outputs.summaries()).map(energy).collect()
    };
    let top = energies.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = energies.iter().map(|e| (e - top).exp()).sum::<f64>().ln();
    // -mean_i (E_i - top - log_sum), at least ln 2 for two images or more.
    let spread = log_sum + mean(&energies.iter().map(|e| top - e).collect::<Vec<_>>());
    Ok(Score::of_images(spread.ln(), outputs.images()))
}

/// The published score grows with the number of images: it is `ln(ln n + excess)`. Here `n` is always taken as 1,000, so that
/// datasets of different sizes can be compared; the excess is the part that depends on the shift.
pub(crate) fn mde_of_a_thousand(outputs: &Outputs) -> Result<Score, EstimateError> {
    let mut score = mde(outputs, 1.0)?;
    let excess = score.value.exp() - (outputs.images() as f64).ln();
    score.value = (excess + 1000f64.ln()).max(f64::MIN_POSITIVE).ln();
    Ok(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_energies_give_the_logarithm_of_the_logarithm_of_the_count() {
        let outputs = Outputs::new(vec![0.25; 30], 3).unwrap();
        let score = mde(&outputs, 1.0).unwrap();
        assert!((score.value - 10f64.ln().ln()).abs() < 1e-12);
    }

    #[test]
    fn two_images_follow_the_formula() {
        // One class: energies are minus the logits, -1 and -3.
        let outputs = Outputs::new(vec![1.0, 3.0], 1).unwrap();
        let log_sum = ((-1f64).exp() + (-3f64).exp()).ln();
        let expected = (log_sum + 2.0).ln();
        assert!((mde(&outputs, 1.0).unwrap().value - expected).abs() < 1e-12);
    }

    #[test]
    fn extremes_stay_finite_and_bad_input_is_refused() {
        let outputs = Outputs::new(vec![f32::MAX, f32::MIN, f32::MIN, f32::MIN], 2).unwrap();
        for temperature in [1e-300, 1.0, 1e300] {
            assert!(mde(&outputs, temperature).unwrap().value.is_finite());
        }
        assert!(mde(&outputs, 0.0).is_err());
        assert!(mde(&outputs, f64::NAN).is_err());
        assert!(mde(&Outputs::new(vec![1.0], 1).unwrap(), 1.0).is_err());
    }
}
