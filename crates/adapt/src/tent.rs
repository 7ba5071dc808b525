use crate::adapter::Kept;
use crate::on_device::{Ask, OnDevice};
use crate::{AdaptError, Adapter, Optimiser, OptimiserConfig, ParamRule, StepOutput, mean_entropy_gradient};
use flipcast_exec::{Executor, NormMode, StepLoss, StepResult};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Tent`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TentConfig {
    /// What moves the scales and shifts.
    pub optimiser: OptimiserConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
}

impl TentConfig {
    /// As published for ImageNet: SGD 2.5e-4, momentum 0.9, batches of 64.
    pub fn imagenet() -> Self {
        Self { optimiser: OptimiserConfig::sgd(2.5e-4), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// As published for CIFAR: Adam 1e-3, batches of 200.
    pub fn cifar() -> Self {
        Self { optimiser: OptimiserConfig::adam(1e-3), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// As SAR's released code compares it on a ViT-B: SGD 1e-3, momentum 0.9, batches of 64, the rest as for ImageNet. The rate is
    /// taken from memory of that code, not read again.
    pub fn imagenet_vit() -> Self {
        Self { optimiser: OptimiserConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.optimiser.check()
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
    optimiser: Optimiser,
    on_device: OnDevice,
    kept: Kept,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl Tent {
    /// An adapter with these settings.
    pub fn new(config: TentConfig) -> Result<Self, AdaptError> {
        config.check()?;
        let optimiser = Optimiser::new(config.optimiser);
        Ok(Self {
            config,
            optimiser,
            on_device: OnDevice::default(),
            kept: Kept::default(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
        })
    }

    fn step_on_host(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepResult, AdaptError> {
        self.kept.keep(net.forward(batch)?);
        let mean_entropy = mean_entropy_gradient(self.kept.logits(), &mut self.logit_gradient);
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimiser.step(net.affine_mut(), &self.gradient);
        Ok(StepResult { mean_entropy, reliable: batch.images(), used: batch.images() })
    }
}

impl Adapter for Tent {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        let ask = Ask {
            loss: StepLoss::Entropy,
            optimiser: self.config.optimiser,
            param_rule: &self.config.param_rule,
            pull: None,
        };
        let result = match self.on_device.step(net, batch, &mut self.kept, ask)? {
            Some(result) => result,
            None => self.step_on_host(net, batch)?,
        };
        Ok(StepOutput::new(self.kept.logits(), result))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimiser.reset();
        self.on_device.forget_optimiser();
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.config.norm_mode
    }
}
