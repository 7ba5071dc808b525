//! What may be done with a model.

use crate::{RunError, pixel_space};
use flipcast_adapt::{BnConfig, MethodConfig, Norms, OptimizerConfig, PixelSpace, Target};
use flipcast_exec::NormMode;
use flipcast_models::Model;
use flipcast_record::results::AdvisedMethod;
use serde::{Deserialize, Serialize};

/// A method with its settings, to be tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// What it is called in tables and files.
    pub name: String,
    /// Its settings.
    pub config: MethodConfig,
    /// Whether batch norms are anchored at clean images first ([`Anchors`](super::Anchors)).
    pub anchored: bool,
}

/// One line of a table of candidates.
struct Row {
    method: &'static str,
    rate: Rate,
    /// Share of the running statistics that batch norms keep.
    source_weight: f32,
    anchored: bool,
}

/// How fast a candidate moves.
#[derive(Clone, Copy)]
enum Rate {
    /// A multiple of the method's default.
    Times(f32),
    /// Adam with this learning rate.
    Adam(f32),
}

use Rate::{Adam, Times};

const fn row(method: &'static str, rate: Rate, source_weight: f32, anchored: bool) -> Row {
    Row { method, rate, source_weight, anchored }
}

/// For networks with batch norms.
const WITH_BATCH_NORMS: [Row; 20] = [
    row("source", Times(1.0), 0.0, false),
    row("bn", Times(1.0), 0.0, false),
    row("bn", Times(1.0), 0.5, false),
    row("bn", Times(1.0), 0.0, true),
    row("bn", Times(1.0), 0.5, true),
    row("tent", Times(1.0), 0.0, true),
    row("tent", Adam(1e-3), 0.0, true),
    row("rdumb", Times(1.0), 0.0, true),
    row("rdumb", Times(4.0), 0.0, true),
    row("rdumb", Times(16.0), 0.0, true),
    row("rdumb", Adam(1e-3), 0.0, true),
    row("rdumb", Times(4.0), 0.5, true),
    row("rdumb", Adam(1e-3), 0.5, true),
    row("sar", Times(8.0), 0.0, true),
    row("roid", Times(1.0), 0.0, true),
    row("roid", Adam(1e-3), 0.0, true),
    row("deyo", Times(1.0), 0.0, true),
    row("deyo", Times(4.0), 0.0, true),
    row("come", Times(4.0), 0.0, true),
    row("come", Adam(1e-3), 0.0, true),
];

/// For the others.
const WITHOUT_BATCH_NORMS: [Row; 13] = [
    row("source", Times(1.0), 0.0, false),
    row("tent", Times(1.0), 0.0, false),
    row("tent", Times(4.0), 0.0, false),
    row("rdumb", Times(1.0), 0.0, false),
    row("rdumb", Times(4.0), 0.0, false),
    row("sar", Times(1.0), 0.0, false),
    row("sar", Times(4.0), 0.0, false),
    row("roid", Times(1.0), 0.0, false),
    row("roid", Times(4.0), 0.0, false),
    row("deyo", Times(1.0), 0.0, false),
    row("deyo", Times(4.0), 0.0, false),
    row("come", Times(1.0), 0.0, false),
    row("come", Times(4.0), 0.0, false),
];

/// Everything that is tried on `model` in batches of `batch_size`; the first is the source model.
///
/// # Errors
/// When the network has nothing that adapts.
pub fn candidates(model: &Model, batch_size: usize) -> Result<Vec<Candidate>, RunError> {
    let table = model.graph().affine_table();
    let norms = Norms::of(&table);
    let target = Target { num_classes: model.num_classes(), norms, batch_size };
    let rows: &[Row] = if norms == Norms::Batch { &WITH_BATCH_NORMS } else { &WITHOUT_BATCH_NORMS };
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let candidate = row.candidate(target, model.preprocess().map(pixel_space))?;
        candidate.config.check_network(&table)?;
        all.push(candidate);
    }
    Ok(all)
}

impl Row {
    fn candidate(&self, target: Target, pixels: Option<PixelSpace>) -> Result<Candidate, RunError> {
        let mut config = MethodConfig::default_on(self.method, target)?;
        if let Some(pixels) = pixels {
            config = config.with_pixels(pixels);
        }
        let mut name = self.method.to_owned();
        if let Some(optimizer) = config.optimizer() {
            let optimizer = match self.rate {
                Times(times) => optimizer.with_lr(optimizer.lr() * times),
                Adam(lr) => OptimizerConfig::adam(lr),
            };
            name += &match self.rate {
                Times(_) => format!(" {}", optimizer.lr()),
                Adam(lr) => format!(" adam {lr}"),
            };
            config = config.with_optimizer(optimizer);
        }
        if self.source_weight > 0.0 {
            name += " half";
            match &mut config {
                MethodConfig::Bn(bn) => *bn = BnConfig { source_weight: self.source_weight },
                other => {
                    if let Some(shared) = other.method_mut().shared() {
                        *shared.norm_mode = NormMode::Mixed { source_weight: self.source_weight };
                    }
                }
            }
        }
        if self.anchored {
            name += " anchored";
        }
        Ok(Candidate { name, config, anchored: self.anchored })
    }
}

impl Candidate {
    /// As files hold it.
    pub fn to_advised(&self) -> AdvisedMethod {
        let config = serde_json::to_value(&self.config).expect("settings have no key that JSON refuses");
        AdvisedMethod { name: self.name.clone(), config, anchored: self.anchored }
    }

    /// What a file holds.
    ///
    /// # Errors
    /// When these are not the settings of a method.
    pub fn of_advised(advised: &AdvisedMethod) -> Result<Self, RunError> {
        let wrong = |source| RunError::Advised { name: advised.name.clone(), source };
        let config = MethodConfig::deserialize(&advised.config).map_err(wrong)?;
        config.check()?;
        Ok(Self { name: advised.name.clone(), config, anchored: advised.anchored })
    }

    /// Whether it predicts forward only, at a third of the cost of adapting.
    pub fn is_forward_only(&self) -> bool {
        self.config.optimizer().is_none()
    }

    /// Its settings in words.
    pub fn describe(&self) -> String {
        let mut text = self.config.name().to_owned();
        if let Some(optimizer) = self.config.optimizer() {
            let kind = if matches!(optimizer, OptimizerConfig::Adam(_)) { "Adam" } else { "SGD" };
            text += &format!(" with {kind} at {}", optimizer.lr());
        }
        if let NormMode::Mixed { source_weight } = self.config.norm_mode() {
            text += &format!(", {:.0}% of the running statistics", 100.0 * source_weight);
        }
        if self.anchored {
            text += ", norms anchored at clean images";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_can_be_built_and_has_a_name_of_its_own() {
        for (architecture, expected) in [("cifar_resnet8_w4", 20), ("vit_tiny_patch16_224", 13)] {
            let model = Model::random(architecture, 7, 1).unwrap();
            let all = candidates(&model, 64).unwrap();
            assert_eq!(all.len(), expected);
            assert_eq!(all[0].name, "source");
            let mut names: Vec<&str> = all.iter().map(|candidate| candidate.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all.len());
            for candidate in &all {
                candidate.config.check().unwrap();
                assert_eq!(Candidate::of_advised(&candidate.to_advised()).unwrap(), *candidate);
            }
        }
    }

    #[test]
    fn settings_that_no_method_has_are_refused() {
        let model = Model::random("cifar_resnet8_w4", 7, 1).unwrap();
        let mut advised = candidates(&model, 64).unwrap()[5].to_advised();
        advised.config["method"] = "tnet".into();
        let refused = Candidate::of_advised(&advised).unwrap_err().to_string();
        assert!(refused.contains("tent"), "{refused}");
    }

    #[test]
    fn settings_are_told_in_words() {
        let model = Model::random("cifar_resnet8_w4", 7, 1).unwrap();
        let all = candidates(&model, 64).unwrap();
        let found = all.iter().find(|candidate| candidate.name == "rdumb adam 0.001 half anchored").unwrap();
        assert_eq!(
            found.describe(),
            "rdumb with Adam at 0.001, 50% of the running statistics, norms anchored at clean images"
        );
    }
}
