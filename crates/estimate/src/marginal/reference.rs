use crate::transport::check_shares;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What labelled images say about classes, for estimates of a marginal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarginalReference {
    /// The share of each class the network has learned to expect.
    pub marginal: Vec<f64>,
    /// What is predicted for which label, where labelled images were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Confusion>,
}

/// How many labelled images of each class were given each class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confusion {
    /// Number of labelled images.
    pub images: usize,
    /// Predicted class, label and number of images, where there are any.
    pub cells: Vec<(u32, u32, u32)>,
}

impl MarginalReference {
    /// All classes alike, and no labelled images.
    pub fn uniform(classes: usize) -> Self {
        Self { marginal: vec![1.0 / classes as f64; classes], confusion: None }
    }

    /// Counts labels and predictions of labelled images.
    ///
    /// The label shares `f` are drawn towards uniform ones `u` as far as chance explains their difference (James-Stein shrinkage,
    /// Hausser and Strimmer, JMLR 2009): `s u + (1 - s) f` with `s = (1 - |f|^2) / ((n - 1) |u - f|^2)`, at most 1. Few images
    /// do not make classes rare, or impossible. Where the training marginal is known, set it instead.
    ///
    /// # Errors
    /// When the labels do not fit the outputs.
    pub fn fit(outputs: &Outputs, labels: &[usize]) -> Result<Self, EstimateError> {
        outputs.check_labels(labels)?;
        let mut counts = vec![0.0; outputs.classes()];
        let mut cells: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for (predicted, &label) in outputs.classes_predicted().into_iter().zip(labels) {
            counts[label] += 1.0;
            *cells.entry((predicted as u32, label as u32)).or_default() += 1;
        }
        Ok(Self {
            marginal: shrunken_shares(&counts),
            confusion: Some(Confusion {
                images: labels.len(),
                cells: cells.into_iter().map(|((predicted, label), count)| (predicted, label, count)).collect(),
            }),
        })
    }

    /// Refuses what no labelled images of this many classes can have led to.
    ///
    /// # Errors
    /// When shares or cells do not fit the classes, or the cells do not add up to the images.
    pub fn check(&self, classes: usize) -> Result<(), EstimateError> {
        check_shares(&self.marginal, classes)?;
        let Some(confusion) = &self.confusion else {
            return Ok(());
        };
        for (index, &(predicted, label, _)) in confusion.cells.iter().enumerate() {
            let found = predicted.max(label) as usize;
            if found >= classes {
                return Err(EstimateError::UnknownClass { what: "confusion cell", index, found, classes });
            }
        }
        let sum: u64 = confusion.cells.iter().map(|cell| u64::from(cell.2)).sum();
        if sum == 0 || sum != confusion.images as u64 {
            return Err(EstimateError::Length {
                what: "images of the confusion cells",
                found: sum as usize,
                expected: confusion.images.max(1),
            });
        }
        Ok(())
    }
}

/// Shares of counts, drawn towards uniform ones.
fn shrunken_shares(counts: &[f64]) -> Vec<f64> {
    let images: f64 = counts.iter().sum();
    let uniform = 1.0 / counts.len() as f64;
    let shares: Vec<f64> = counts.iter().map(|count| count / images).collect();
    let spread: f64 = shares.iter().map(|share| (share - uniform).powi(2)).sum();
    let chance = 1.0 - shares.iter().map(|share| share * share).sum::<f64>();
    let known = spread * (images - 1.0);
    let pull = if chance < known { chance / known } else { 1.0 };
    shares.iter().map(|share| pull * uniform + (1.0 - pull) * share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_predictions_are_counted() {
        let outputs = Outputs::new(vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0], 2).unwrap();
        let reference = MarginalReference::fit(&outputs, &[0, 1, 1]).unwrap();
        assert_eq!(reference.marginal, [0.5, 0.5]);
        let confusion = reference.confusion.as_ref().unwrap();
        assert_eq!(confusion.cells, [(0, 0, 1), (0, 1, 1), (1, 1, 1)]);
        reference.check(2).unwrap();
        let text = serde_json::to_string(&reference).unwrap();
        let read: MarginalReference = serde_json::from_str(&text).unwrap();
        assert_eq!(read, reference);
    }

    #[test]
    fn shares_are_trusted_as_far_as_images_prove_them() {
        assert_eq!(shrunken_shares(&[1.0, 0.0, 0.0]), [1.0 / 3.0; 3]);
        assert_eq!(shrunken_shares(&[52.0, 48.0]), [0.5; 2]);
        assert_eq!(shrunken_shares(&[7.0]), [1.0]);
        let many = shrunken_shares(&[90_000.0, 10_000.0]);
        assert!((many[0] - 0.9).abs() < 1e-4, "{many:?}");
        // A third class nobody was seen of is rare, but not impossible.
        let rare = shrunken_shares(&[500.0, 500.0, 0.0]);
        assert!(rare[2] > 0.0 && rare[2] < 0.01, "{rare:?}");
    }

    #[test]
    fn stored_values_that_cannot_be_are_refused() {
        let good = MarginalReference {
            marginal: vec![0.5, 0.5],
            confusion: Some(Confusion { images: 3, cells: vec![(0, 0, 2), (1, 1, 1)] }),
        };
        good.check(2).unwrap();
        assert!(good.check(3).is_err());
        let with = |images, cells: &[(u32, u32, u32)]| MarginalReference {
            confusion: Some(Confusion { images, cells: cells.to_vec() }),
            ..good.clone()
        };
        assert!(with(4, &[(0, 0, 2)]).check(2).is_err());
        assert!(with(0, &[]).check(2).is_err());
        assert!(with(1, &[(0, 2, 1)]).check(2).is_err());
    }
}
