use crate::method::{Method, Recipe, SharedSettings};
use crate::minimizer::{Minimizer, Objective};
use crate::{AdaptError, Adapter, OptimizerConfig, ParamRule, StepOutput, Target};
use flipcast_executor::{Executor, NormMode, StepLoss};
use flipcast_tensor::Batch;
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

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        Ok(self.optimizer.check()?)
    }

    pub(crate) fn objective(&self) -> Objective<'_> {
        Objective {
            loss: StepLoss::MeanEntropy,
            optimizer: self.optimizer,
            norm_mode: self.norm_mode,
            param_rule: &self.param_rule,
            pull: None,
        }
    }
}

/// Tent: entropy minimisation on every image.
///
/// *Idea.* Confident predictions tend to be right, so the scales and shifts are moved to make predictions confident.
/// *Formula.* Loss `mean_i H_i`, `H = -sum_k p_k log p_k`; gradient with respect to the logits
/// `-p_k (log p_k + H) / images`.
/// *Reference.* Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021.
/// *Departures from the reference.* None: batch statistics, one step per batch, logits from before the update.
#[derive(Debug)]
pub struct Tent {
    config: TentConfig,
    minimizer: Minimizer,
}

impl Tent {
    /// An adapter with these settings.
    pub fn new(config: TentConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self { config, minimizer: Minimizer::default() })
    }
}

impl Adapter for Tent {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.minimizer.step(net, batch, &self.config.objective())
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.minimizer.reset(net);
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.config.norm_mode
    }
}

impl Method for TentConfig {
    fn name(&self) -> &'static str {
        "tent"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode))
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Tent::new(self.clone())?))
    }
}
