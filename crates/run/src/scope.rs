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

    /// Alternatives of a decision.
    pub fn num_classes(&self) -> usize {
        self.space
            .as_ref()
            .map_or(self.outputs, ClassSpace::num_classes)
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
                };
                format!("{}/{decision}", space.labels().name())
            }
        }
    }

    /// Rows of the network's logits as rows over the alternatives.
    pub fn project(&self, logits: Vec<f32>) -> Result<Outputs, RunError> {
        let Some(space) = self
            .space
            .as_ref()
            .filter(|s| s.decision() != Decision::Full)
        else {
            return Ok(Outputs::new(logits, self.outputs)?);
        };
        let rows = logits.chunks_exact(self.outputs);
        let projected: Vec<f32> = match space.decision() {
            Decision::MeanProbability => rows.flat_map(|row| class_means(row, space)).collect(),
            _ => {
                let active = space.active_outputs();
                rows.flat_map(|row| active.iter().map(|&output| row[output]))
                    .collect()
            }
        };
        Ok(Outputs::new(projected, self.num_classes())?)
    }

    /// Whether a row over the alternatives is right; `None` when that is not known.
    pub fn is_correct(&self, projected: &[f32], label: &Label) -> Option<bool> {
        let space = self.space.as_ref()?;
        let best = first_largest(projected);
        let class = match space.decision() {
            Decision::Full => return space.is_correct(projected, label).ok()?,
            Decision::Mask => space.labels().class_of(space.active_outputs()[best]),
            Decision::MeanProbability => Some(best as u32),
        };
        space.labels().is_correct_class(class, label)
    }

    /// The alternative a label stands for, if it stands for exactly one.
    pub fn alternative(&self, label: &Label) -> Option<usize> {
        let space = self.space.as_ref()?;
        let class = label.class()? as usize;
        if space.decision() == Decision::MeanProbability {
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

/// Logarithm of each class's mean probability, up to a constant of the row.
fn class_means(row: &[f32], space: &ClassSpace) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let classes = space.labels().classes().iter();
    classes
        .map(|class| {
            let outputs = &class.outputs;
            let sum: f32 = outputs
                .iter()
                .map(|&o| (row[o as usize] - most).exp())
                .sum();
            // A class whose every probability underflows stays finite.
            (sum / outputs.len() as f32).max(f32::MIN_POSITIVE).ln()
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
