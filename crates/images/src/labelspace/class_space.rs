use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{LabelError, LabelSpace};
use crate::Label;

/// How logits become a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The largest of all outputs; an unlisted one is wrong.
    #[serde(alias = "argmax_then_map")]
    Full,
    /// The largest of the outputs the class space lists.
    #[serde(alias = "mask_argmax")]
    Mask,
    /// The class with the largest mean probability over its outputs.
    MeanProbability,
    /// The class with the largest total probability of its outputs.
    SumProbability,
}

impl Decision {
    /// Whether the alternatives are the dataset's classes; otherwise they are outputs of the network.
    pub fn is_by_class(self) -> bool {
        matches!(self, Self::MeanProbability | Self::SumProbability)
    }

    /// What the total probability of a class of `outputs` outputs is divided by.
    pub fn outputs_shared(self, outputs: usize) -> f32 {
        if self == Self::MeanProbability { outputs as f32 } else { 1.0 }
    }
}

/// A label space together with the way of deciding: what a result must record.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpace {
    labels: Arc<LabelSpace>,
    decision: Decision,
    listed: Vec<usize>,
}

impl ClassSpace {
    /// `labels` decided as `decision` says.
    pub fn new(labels: Arc<LabelSpace>, decision: Decision) -> Result<Self, LabelError> {
        let listed = labels.listed_outputs();
        if decision != Decision::Full && listed.is_empty() {
            return Err(LabelError::NothingListed { space: labels.name().into(), rule: labels.rule().name() });
        }
        Ok(Self { labels, decision, listed })
    }

    /// The label space.
    pub fn labels(&self) -> &LabelSpace {
        &self.labels
    }

    /// The way of deciding.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// `K`: how many alternatives the decision is between. Margins of the form `a ln K` depend on it.
    pub fn num_classes(&self) -> usize {
        match self.decision {
            Decision::Full => self.labels.outputs(),
            Decision::Mask => self.listed.len(),
            Decision::MeanProbability | Decision::SumProbability => self.labels.classes().len(),
        }
    }

    /// The outputs that take part, ascending: all of them, or those listed.
    pub fn active_outputs(&self) -> Vec<usize> {
        match self.decision {
            Decision::Full => (0..self.labels.outputs()).collect(),
            Decision::Mask | Decision::MeanProbability | Decision::SumProbability => self.listed.clone(),
        }
    }

    /// The dataset's class that `logits` decide for; `None` when it is one the dataset does not have. Of equal logits
    /// the first wins, and a NaN never does.
    pub fn decide(&self, logits: &[f32]) -> Result<Option<u32>, LabelError> {
        if logits.len() != self.labels.outputs() {
            return Err(LabelError::LogitCount {
                space: self.labels.name().into(),
                found: logits.len(),
                expected: self.labels.outputs(),
            });
        }
        Ok(match self.decision {
            Decision::Full => {
                largest(logits.iter().copied().enumerate()).and_then(|output| self.labels.class_of(output))
            }
            Decision::Mask => {
                largest(self.listed.iter().map(|&o| (o, logits[o]))).and_then(|output| self.labels.class_of(output))
            }
            Decision::MeanProbability | Decision::SumProbability => {
                let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let shares = self.labels.classes().iter().enumerate().map(|(id, class)| {
                    let sum: f32 = class.outputs.iter().map(|&o| (logits[o as usize] - most).exp()).sum();
                    (id, sum / self.decision.outputs_shared(class.outputs.len()))
                });
                largest(shares).map(|id| id as u32)
            }
        })
    }

    /// Whether `logits` are right for `label`; `None` when the label is unknown.
    pub fn is_correct(&self, logits: &[f32], label: &Label) -> Result<Option<bool>, LabelError> {
        let class = self.decide(logits)?;
        Ok(self.labels.is_correct_class(class, label))
    }
}

/// The key of the largest value; the first of equals.
fn largest(values: impl Iterator<Item = (usize, f32)>) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (key, value) in values {
        if !value.is_nan() && best.is_none_or(|(_, most)| value > most) {
            best = Some((key, value));
        }
    }
    best.map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelspace::builtin;

    fn logits(peaks: &[(usize, f32)]) -> Vec<f32> {
        let mut logits = vec![0.0; 1000];
        for &(output, value) in peaks {
            logits[output] = value;
        }
        logits
    }

    #[test]
    fn masking_changes_the_decision_and_the_class_count() {
        let space = builtin("imagenet-r").unwrap();
        let full = ClassSpace::new(space.clone(), Decision::Full).unwrap();
        let mask = ClassSpace::new(space, Decision::Mask).unwrap();
        assert_eq!((full.num_classes(), mask.num_classes()), (1000, 200));
        // Output 0 is not part of ImageNet-R; output 1 is its class 0.
        let logits = logits(&[(0, 5.0), (1, 4.0)]);
        assert_eq!(full.decide(&logits), Ok(None));
        assert_eq!(mask.decide(&logits), Ok(Some(0)));
        assert_eq!(mask.is_correct(&logits, &Label::Class(0)), Ok(Some(true)));
        assert_eq!(mask.is_correct(&logits, &Label::Unknown), Ok(None));
    }

    #[test]
    fn class_means_can_overrule_the_largest_output() {
        let space = builtin("16-class-imagenet").unwrap();
        let means = ClassSpace::new(space.clone(), Decision::MeanProbability).unwrap();
        assert_eq!(means.num_classes(), 16);
        // One of 109 dog outputs peaks; the single airplane output is a little lower.
        let dog = space.classes().iter().position(|c| c.name == "dog").unwrap();
        let peak = space.classes()[dog].outputs[0] as usize;
        let logits = logits(&[(peak, 9.0), (404, 8.0)]);
        assert_eq!(means.decide(&logits), Ok(Some(0)));
        let full = ClassSpace::new(space, Decision::Full).unwrap();
        assert_eq!(full.decide(&logits), Ok(Some(dog as u32)));
    }

    #[test]
    fn class_sums_count_every_output_of_a_class() {
        let space = builtin("16-class-imagenet").unwrap();
        let sums = ClassSpace::new(space.clone(), Decision::SumProbability).unwrap();
        let bear = space.classes().iter().position(|c| c.name == "bear").unwrap();
        // Two bears together outweigh the one airplane, which is larger than either.
        let logits = logits(&[(294, 8.9), (295, 8.9), (404, 9.0)]);
        assert_eq!((sums.num_classes(), sums.decide(&logits)), (16, Ok(Some(bear as u32))));
    }

    #[test]
    fn a_space_without_lists_cannot_mask() {
        let refused = ClassSpace::new(builtin("imagenet-1k").unwrap(), Decision::Mask);
        assert!(matches!(refused, Err(LabelError::NothingListed { .. })));
    }

    #[test]
    fn the_number_of_logits_is_checked() {
        let space = ClassSpace::new(builtin("imagenet-1k").unwrap(), Decision::Full).unwrap();
        let refused = space.decide(&[0.0; 10]);
        assert!(matches!(refused, Err(LabelError::LogitCount { found: 10, expected: 1000, .. })));
    }
}
