use super::{MarginalReference, bbse, em};
use crate::transport::check_shares;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};

/// Where the class marginal of unlabelled images comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marginal {
    /// All classes alike, as published for ImageNet.
    #[default]
    Uniform,
    /// One weight per class, in proportion; counts are fine.
    Given(Vec<f64>),
    /// These classes alike, the others not at all.
    Subset(Vec<usize>),
    /// Estimated by expectation maximisation from the probabilities, which should be calibrated.
    Em,
    /// Estimated by black-box shift estimation from the predicted classes; needs a confusion matrix.
    Bbse,
}

impl Marginal {
    /// The share of each class: not negative, one in total.
    ///
    /// `Em` is maximum-likelihood label shift (Saerens et al. 2002), `Bbse` black-box shift estimation (Lipton et al. 2018).
    ///
    /// # Errors
    /// When what is given does not fit the classes, or the reference lacks what is needed.
    pub fn resolve(&self, outputs: &Outputs, reference: &MarginalReference) -> Result<Vec<f64>, EstimateError> {
        let classes = outputs.classes();
        match self {
            Self::Uniform => Ok(vec![1.0 / classes as f64; classes]),
            Self::Given(weights) => normalised(weights, classes),
            Self::Subset(subset) => subset_shares(subset, classes),
            Self::Em => {
                reference.check(classes)?;
                Ok(em::estimate_em(outputs, &reference.marginal))
            }
            Self::Bbse => {
                reference.check(classes)?;
                bbse::estimate_bbse(outputs, reference)
            }
        }
    }
}

fn normalised(weights: &[f64], classes: usize) -> Result<Vec<f64>, EstimateError> {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        check_shares(&shares, classes)?;
        return Ok(shares);
    }
    // Broken numbers are named one by one; what is left are weights that are all zero or overflow together.
    check_shares(weights, classes)?;
    Err(EstimateError::Setting {
        setting: "the sum of the class weights",
        found: sum,
        expected: "a positive finite number",
    })
}

fn subset_shares(subset: &[usize], classes: usize) -> Result<Vec<f64>, EstimateError> {
    if subset.is_empty() {
        return Err(EstimateError::Empty { what: "classes of the subset" });
    }
    if let Some(index) = subset.iter().position(|&class| class >= classes) {
        return Err(EstimateError::UnknownClass { what: "entry of the subset", index, found: subset[index], classes });
    }
    let mut shares = vec![0.0; classes];
    for &class in subset {
        shares[class] = 1.0;
    }
    let different: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= different);
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(marginal: &Marginal) -> Result<Vec<f64>, EstimateError> {
        let outputs = Outputs::new(vec![0.0; 8], 4).unwrap();
        marginal.resolve(&outputs, &MarginalReference::uniform(4))
    }

    #[test]
    fn given_weights_become_shares() {
        let found = resolve(&Marginal::Given(vec![1.0, 0.0, 2.0, 1.0])).unwrap();
        assert_eq!(found, [0.25, 0.0, 0.5, 0.25]);
        assert_eq!(resolve(&Marginal::Uniform).unwrap(), [0.25; 4]);
    }

    #[test]
    fn repeated_classes_of_a_subset_count_once() {
        let found = resolve(&Marginal::Subset(vec![3, 1, 3])).unwrap();
        assert_eq!(found, [0.0, 0.5, 0.0, 0.5]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for broken in [
            Marginal::Given(vec![1.0; 3]),
            Marginal::Given(vec![0.0; 4]),
            Marginal::Given(vec![1.0, -1.0, 3.0, 0.0]),
            Marginal::Given(vec![f64::NAN, 1.0, 1.0, 1.0]),
            Marginal::Given(vec![f64::MAX; 4]),
            Marginal::Subset(vec![]),
            Marginal::Subset(vec![4]),
            Marginal::Bbse,
        ] {
            assert!(resolve(&broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn kinds_are_stored_in_snake_case() {
        let text = serde_json::to_string(&Marginal::Subset(vec![2])).unwrap();
        assert_eq!(text, r#"{"subset":[2]}"#);
        let kind: Marginal = serde_json::from_str("\"bbse\"").unwrap();
        assert_eq!(kind, Marginal::Bbse);
    }
}
