use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize};
use crate::{AdaptError, OptimizerConfig, ParamRule};
use flipcast_executor::{NormMode, StepLoss};
use serde::{Deserialize, Serialize};

/// Settings of [`Rpl`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RplConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
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
            optimizer: OptimizerConfig::sgd(5e-4),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            q: 0.8,
        }
    }

    /// As compared on CIFAR: Adam 1e-3, q 0.8, batches of 200.
    pub fn cifar() -> Self {
        Self { optimizer: OptimizerConfig::adam(1e-3), ..Self::imagenet() }
    }

    /// As published for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet | Recipe::ImageNetVit => Self::imagenet(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        }
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
/// to the optimizer.
pub type Rpl = Minimize<RplConfig>;

impl LossMethod for RplConfig {
    const NAME: &'static str = "rpl";

    fn check(&self) -> Result<(), AdaptError> {
        let ok = self.q > 0.0 && self.q <= 1.0;
        AdaptError::unless(ok, "q", self.q, "more than 0, and at most 1")?;
        Ok(self.optimizer.check()?)
    }

    fn loss(&self, _num_classes: usize) -> StepLoss {
        StepLoss::GeneralizedCrossEntropy { power: self.q }
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_zero_is_refused() {
        let config = RplConfig { q: 0.0, ..RplConfig::imagenet() };
        let error = config.check().unwrap_err();
        assert_eq!(error.to_string(), "q is 0, expected more than 0, and at most 1");
    }
}
