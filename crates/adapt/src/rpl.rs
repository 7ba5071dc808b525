use crate::adapter::Kept;
use crate::on_device::{Ask, OnDevice};
use crate::predictions::Predictions;
use crate::{AdaptError, Adapter, Optimiser, OptimiserConfig, ParamRule, StepOutput};
use flipcast_exec::{Executor, NormMode, StepLoss, StepResult};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Rpl`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RplConfig {
    /// What moves the scales and shifts.
    pub optimiser: OptimiserConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
    /// Robustness: 1 counts the probability itself, towards 0 its logarithm.
    pub q: f64,
}

impl RplConfig {
    /// As compared on ImageNet in the CCC benchmark: SGD 5e-4, momentum 0.9, q 0.8, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimiser: OptimiserConfig::sgd(5e-4),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            q: 0.8,
        }
    }

    /// As compared on CIFAR: Adam 1e-3, q 0.8, batches of 200.
    pub fn cifar() -> Self {
        Self { optimiser: OptimiserConfig::adam(1e-3), ..Self::imagenet() }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let ok = self.q > 0.0 && self.q <= 1.0;
        AdaptError::unless(ok, "q", self.q, "more than 0, and at most 1")?;
        self.optimiser.check()
    }
}

impl Default for RplConfig {
    fn default() -> Self {
        Self::imagenet()
    }
}

/// RPL: robust pseudo-labels.
///
/// *Idea.* The predicted class is taken for the label, with a loss that bounds what one wrong label can do.
/// *Formula.* Generalised cross-entropy `mean_i (1 - p_y^q) / q`, `y` the predicted class; gradient with respect to the logits
/// `p_y^q (p_k - [k = y]) / images`.
/// *Reference.* Rusak et al., "If your data distribution shifts, use self-learning", TMLR 2022.
/// *Departures from the reference.* Only norm layers adapt, as the paper says; the authors' demonstration hands all weights
/// to the optimiser.
#[derive(Debug)]
pub struct Rpl {
    config: RplConfig,
    optimiser: Optimiser,
    on_device: OnDevice,
    kept: Kept,
    predictions: Predictions,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl Rpl {
    /// An adapter with these settings.
    pub fn new(config: RplConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimiser: Optimiser::new(config.optimiser),
            config,
            on_device: OnDevice::default(),
            kept: Kept::default(),
            predictions: Predictions::default(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
        })
    }

    fn step_on_host(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepResult, AdaptError> {
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        robust_loss(&self.predictions, self.config.q, &mut self.logit_gradient);
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimiser.step(net.affine_mut(), &self.gradient);
        Ok(StepResult { mean_entropy: self.predictions.mean_entropy(), reliable: batch.images(), used: batch.images() })
    }
}

impl Adapter for Rpl {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        let ask = Ask {
            loss: StepLoss::Robust { q: self.config.q },
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

/// The mean generalised cross-entropy of a batch against its own classes; `gradient` receives its gradient.
pub(crate) fn robust_loss(predictions: &Predictions, q: f64, gradient: &mut Vec<f32>) -> f64 {
    let images = predictions.images() as f64;
    let mut loss = 0.0;
    gradient.clear();
    for image in 0..predictions.images() {
        let class = predictions.class(image);
        let power = (q * predictions.log_probs(image)[class]).exp();
        loss += (1.0 - power) / q / images;
        let probs = predictions.probs(image).iter().enumerate();
        gradient.extend(probs.map(|(k, p)| {
            let target = f64::from(u8::from(k == class));
            (power * (p - target) / images) as f32
        }));
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_gradient::assert_gradient;

    #[test]
    fn the_gradient_equals_differences_of_the_loss() {
        for q in [0.1, 0.8, 1.0] {
            assert_gradient(|predictions, gradient| robust_loss(predictions, q, gradient));
        }
    }

    #[test]
    fn a_power_of_zero_is_refused() {
        let config = RplConfig { q: 0.0, ..RplConfig::imagenet() };
        let error = config.check().unwrap_err();
        assert_eq!(error.to_string(), "q is 0, expected more than 0, and at most 1");
    }
}
