use crate::{EstimateError, Outputs, Score};

/// GDE: generalisation disagreement equality.
///
/// *Idea.* Two networks trained alike but for the seed agree as often as one of them is right.
/// *Formula.* `mean_i [argmax p_i = argmax q_i]`.
/// *Reference.* Jiang et al., "Assessing Generalization of SGD via Disagreement", ICLR 2022.
/// *Departures from the reference.* None.
pub fn gde(outputs: &Outputs, other: &Outputs) -> Result<Score, EstimateError> {
    if other.classes() != outputs.classes() {
        return Err(EstimateError::Length {
            what: "classes of the other network",
            found: other.classes(),
            expected: outputs.classes(),
        });
    }
    if other.images() != outputs.images() {
        return Err(EstimateError::Length {
            what: "images of the other network",
            found: other.images(),
            expected: outputs.images(),
        });
    }
    let pairs = outputs.classes_predicted().into_iter();
    let terms = pairs.zip(other.classes_predicted()).map(|(a, b)| f64::from(u8::from(a == b))).collect();
    Ok(Score::from_terms(terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_counted() {
        let one = Outputs::new(vec![1.0, 0.0, 0.0, 1.0, 3.0, 2.0], 2).unwrap();
        let two = Outputs::new(vec![1.0, 0.0, 2.0, 1.0, 3.0, 2.0], 2).unwrap();
        assert!((gde(&one, &two).unwrap().value - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(gde(&one, &one).unwrap().value, 1.0);
    }

    #[test]
    fn other_sizes_are_refused() {
        let one = Outputs::new(vec![0.0; 6], 2).unwrap();
        assert!(gde(&one, &Outputs::new(vec![0.0; 6], 3).unwrap()).is_err());
        assert!(gde(&one, &Outputs::new(vec![0.0; 4], 2).unwrap()).is_err());
    }
}
