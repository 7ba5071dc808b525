use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize, Objective};
use crate::{AdaptError, OptimizerConfig, ParamRule, Target};
use flipcast_executor::{NormMode, StepLoss};
use serde::{Deserialize, Serialize};

/// Settings of [`Come`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComeConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
}

impl ComeConfig {
    /// Tent's settings for ImageNet: SGD 2.5e-4, momentum 0.9, batches of 64.
    pub fn imagenet() -> Self {
        Self { optimizer: OptimizerConfig::sgd(2.5e-4), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// Tent's settings for CIFAR: Adam 1e-3, batches of 200.
    pub fn cifar() -> Self {
        Self { optimizer: OptimizerConfig::adam(1e-3), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// Tent's settings for a ViT-B: SGD 1e-3, momentum 0.9, batches of 64.
    pub fn imagenet_vit() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// Tent's settings for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet => Self::imagenet(),
            Recipe::ImageNetVit => Self::imagenet_vit(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        }
    }

    /// The settings this crate proposes for `target`.
    pub fn for_target(target: Target) -> Self {
        let published = Self::imagenet();
        Self { optimizer: target.optimizer(published.optimizer), ..published }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        Ok(self.optimizer.check()?)
    }
}

/// COME: Tent with an entropy that leaves room for not knowing.
///
/// *Idea.* The softmax cannot say "none of these", so its entropy can be lowered without end. An opinion has one more outcome,
/// uncertainty, whose share depends on how large the logits are; and the step may not change how large they are.
/// *Formula.* `b_k = e^{z_k} / (sum_j e^{z_j} + K)`, `u = K / (sum_j e^{z_j} + K)`; loss `mean_i -(sum_k b_k log b_k + u log u)`. This is the
/// entropy `H` of a softmax over `z` and one more logit `ln K`, so `g_k = -b_k (log b_k + H)`. The length of `z` is held constant, so the
/// gradient is what `g` leaves across `z`: `g - z (z . g) / |z|^2`.
/// *Reference.* Zhang et al., "COME: Test-time Adaption by Conservatively Minimizing Entropy", ICLR 2025.
/// *Departures from the reference.* `K` is the network's number of classes (published code: 1000). The softmax is shifted by its
/// largest logit, so nothing overflows, and the 1e-7 added to every outcome is not needed. Logits that are all zero, which
/// have no direction, get no gradient.
pub type Come = Minimize<ComeConfig>;

impl LossMethod for ComeConfig {
    const NAME: &'static str = "come";

    fn check(&self) -> Result<(), AdaptError> {
        ComeConfig::check(self)
    }

    fn objective(&self, _num_classes: usize) -> Objective<'_> {
        Objective {
            loss: StepLoss::OpinionEntropy,
            optimizer: self.optimizer,
            norm_mode: self.norm_mode,
            param_rule: &self.param_rule,
            pull: None,
        }
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::assert_adapts;
    use flipcast_executor::Logits;
    use flipcast_executor::loss::opinion_entropy_gradient;

    #[test]
    fn steps_lower_the_loss_reset_restores_and_runs_repeat() {
        let loss = |logits: Logits| opinion_entropy_gradient(logits, &mut Vec::new());
        assert_adapts(|| Box::new(Come::new(ComeConfig::imagenet()).unwrap()), loss);
    }
}
