use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize};
use crate::{AdaptError, OptimizerConfig, ParamRule, Target};
use flipcast_executor::{NormMode, StepLoss};
use serde::{Deserialize, Serialize};

/// Settings of [`Tent`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TentConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
}

impl TentConfig {
    /// As published for ImageNet: SGD 2.5e-4, momentum 0.9, batches of 64.
    pub fn imagenet() -> Self {
        Self { optimizer: OptimizerConfig::sgd(2.5e-4), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// As published for CIFAR: Adam 1e-3, batches of 200.
    pub fn cifar() -> Self {
        Self { optimizer: OptimizerConfig::adam(1e-3), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// As SAR's released code compares it on a ViT-B (`main.py` of github.com/mr-eggplant/SAR at 492c1ad): SGD 1e-3 for batches of
    /// 64 and in proportion for others, momentum 0.9, the rest as for ImageNet.
    pub fn imagenet_vit() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// As published for the data of `recipe`.
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
}

/// Tent: entropy minimisation on every image.
///
/// *Idea.* Confident predictions tend to be right, so the scales and shifts are moved to make predictions confident.
/// *Formula.* Loss `mean_i H_i`, `H = -sum_k p_k log p_k`; gradient with respect to the logits
/// `-p_k (log p_k + H) / images`.
/// *Reference.* Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021.
/// *Departures from the reference.* None: batch statistics, one step per batch, logits from before the update.
pub type Tent = Minimize<TentConfig>;

impl LossMethod for TentConfig {
    const NAME: &'static str = "tent";

    fn check(&self) -> Result<(), AdaptError> {
        Ok(self.optimizer.check()?)
    }

    fn loss(&self, _num_classes: usize) -> StepLoss {
        StepLoss::MeanEntropy
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode)
    }
}
