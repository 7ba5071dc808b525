//! Which of the network's outputs are scored, and when an answer is right.

use crate::RunError;
use flipcast_estimate::Outputs;
use flipcast_images::Label;
use flipcast_images::labelspace::{ClassSpace, Decision, Rule};

/// The outputs that take part in a decision. With a class space that masks or averages outputs, estimators see only
/// what the decision sees, so that `K` in margins and marginals is the number of alternatives.
#[derive(Clone, Debug)]
pub struct Scope {
    outputs: usize,
    space: Option<ClassSpace>,
}

impl Scope {
    /// The `outputs` of a network, decided as `space` says; all of them without one.
    pub fn new(outputs: usize, space: Option<ClassSpace>) -> Self {
        Self { outputs, space }
    }

    /// When a prediction is right; `None` when labels are absent or ignored.
    pub fn class_space(&self) -> Option<&ClassSpace> {
        self.space.as_ref()
    }

    /// Alternatives of a decision.
    pub fn num_classes(&self) -> usize {
        self.space.as_ref().map_or(self.outputs, ClassSpace::num_classes)
    }

    /// Its name in protocols.
    pub fn name(&self) -> String {
        match &self.space {
            None => "outputs/full".to_owned(),
            Some(space) => {
                let decision = match space.decision() {
                    Decision::Full => "full",
                    Decision::Mask => "mask",
                    Decision::MeanProbability => "mean-probability",
                    Decision::SumProbability => "sum-probability",
                };
                format!("{}/{decision}", space.labels().name())
            }
        }
    }

    /// Rows of the network's logits as rows over the alternatives.
    pub fn project(&self, logits: Vec<f32>) -> Result<Outputs, RunError> {
        let Some(space) = self.space.as_ref().filter(|s| s.decision() != Decision::Full) else {
            return Ok(Outputs::new(logits, self.outputs)?);
        };
        let rows = logits.chunks_exact(self.outputs);
        let projected: Vec<f32> = match space.decision() {
            Decision::MeanProbability | Decision::SumProbability => {
                rows.flat_map(|row| class_shares(row, space)).collect()
            }
            _ => {
                let active = space.active_outputs();
                rows.flat_map(|row| active.iter().map(|&output| row[output])).collect()
            }
        };
        Ok(Outputs::new(projected, self.num_classes())?)
    }

    /// Whether the logits of alternatives are logits of the network, so that what is added to those is added to these.
    pub(crate) fn keeps_logits(&self) -> bool {
        self.space.as_ref().is_none_or(|space| !space.decision().is_by_class())
    }

    /// Whether a row over the alternatives is right; `None` when that is not known.
    pub fn is_correct(&self, projected: &[f32], label: &Label) -> Option<bool> {
        let space = self.space.as_ref()?;
        let best = first_largest(projected);
        let class = match space.decision() {
            Decision::Full => return space.is_correct(projected, label).ok()?,
            Decision::Mask => space.labels().class_of(space.active_outputs()[best]),
            Decision::MeanProbability | Decision::SumProbability => Some(best as u32),
        };
        space.labels().is_correct_class(class, label)
    }

    /// The alternative a label stands for, if it stands for exactly one.
    pub fn alternative(&self, label: &Label) -> Option<usize> {
        let space = self.space.as_ref()?;
        let class = label.class()? as usize;
        if space.decision().is_by_class() {
            return Some(class).filter(|&class| class < self.num_classes());
        }
        let output = match space.labels().rule() {
            Rule::Index => class,
            _ => match space.labels().classes().get(class)?.outputs.as_slice() {
                [output] => *output as usize,
                _ => return None,
            },
        };
        match space.decision() {
            Decision::Mask => space.active_outputs().iter().position(|&o| o == output),
            _ => Some(output).filter(|&output| output < self.outputs),
        }
    }
}

/// Logarithm of each class's mean or total probability, up to a constant of the row.
fn class_shares(row: &[f32], space: &ClassSpace) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let classes = space.labels().classes().iter();
    classes
        .map(|class| {
            let outputs = &class.outputs;
            let sum: f32 = outputs.iter().map(|&o| (row[o as usize] - most).exp()).sum();
            // A class whose every probability underflows stays finite.
            (sum / space.decision().outputs_shared(outputs.len())).max(f32::MIN_POSITIVE).ln()
        })
        .collect()
}

fn first_largest(row: &[f32]) -> usize {
    let mut best = 0;
    for (class, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::labelspace::{LabelSpace, SpaceClass};
    use std::sync::Arc;

    /// Five outputs; class 0 is output 3, class 1 outputs 0 and 4.
    fn scope(rule: Rule, decision: Decision) -> Scope {
        let class = |name: &str, outputs: &[u32]| SpaceClass {
            name: name.to_owned(),
            wnid: None,
            folders: Vec::new(),
            outputs: outputs.to_vec(),
        };
        let second: &[u32] = if rule == Rule::Subset { &[4] } else { &[0, 4] };
        let classes = vec![class("a", &[3]), class("b", second)];
        let labels = LabelSpace::new("test", rule, 5, classes).unwrap();
        Scope::new(5, Some(ClassSpace::new(Arc::new(labels), decision).unwrap()))
    }

    #[test]
    fn a_mask_leaves_the_listed_outputs() {
        let scope = scope(Rule::Subset, Decision::Mask);
        let outputs = scope.project(vec![9.0, 8.0, 7.0, 1.0, 2.0]).unwrap();
        assert_eq!(outputs.row(0), [1.0, 2.0]);
        assert_eq!(scope.num_classes(), 2);
        assert_eq!(scope.is_correct(outputs.row(0), &Label::Class(1)), Some(true));
        assert_eq!(scope.is_correct(outputs.row(0), &Label::Class(0)), Some(false));
        assert_eq!(scope.is_correct(outputs.row(0), &Label::Unknown), None);
        assert_eq!(scope.alternative(&Label::Class(1)), Some(1));
    }

    #[test]
    fn class_means_average_probabilities() {
        let scope = scope(Rule::Map, Decision::MeanProbability);
        let outputs = scope.project(vec![2.0, 0.0, 0.0, 1.5, f32::MIN]).unwrap();
        // Output 0 is the largest, but its class has a second output without any probability.
        assert_eq!(outputs.classes_predicted(), [0]);
        let difference = outputs.row(0)[1] - outputs.row(0)[0];
        assert!((difference - (0.5f32 - 2f32.ln())).abs() < 1e-6, "{difference}");
    }

    #[test]
    fn without_a_class_space_nothing_is_right_or_wrong() {
        let scope = Scope::new(3, None);
        let outputs = scope.project(vec![1.0, 2.0, 3.0]).unwrap();
        assert_eq!(scope.is_correct(outputs.row(0), &Label::Class(2)), None);
        assert_eq!(scope.name(), "outputs/full");
    }

    #[test]
    fn every_output_stays_when_all_are_asked() {
        let scope = scope(Rule::Subset, Decision::Full);
        let outputs = scope.project(vec![0.0, 9.0, 0.0, 1.0, 2.0]).unwrap();
        assert_eq!(outputs.classes(), 5);
        // Output 1 belongs to no class of the dataset.
        assert_eq!(scope.is_correct(outputs.row(0), &Label::Class(1)), Some(false));
        assert_eq!(scope.alternative(&Label::Class(0)), Some(3));
    }
}
