use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize};
use crate::{AdaptError, OptimizerConfig, ParamRule};
use flipcast_executor::{NormMode, SgdConfig, StepLoss};
use serde::{Deserialize, Serialize};

/// Settings of [`Cpl`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CplConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
    /// Weight of the linear term of the PolyLoss; 0 is Tent's loss.
    pub epsilon: f64,
}

impl CplConfig {
    /// As compared on ImageNet in the CCC benchmark: SGD 1e-3, momentum 0.9, epsilon 8, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::sgd(1e-3),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            epsilon: 8.0,
        }
    }

    /// As published for CIFAR: SGD 1e-3 with Nesterov momentum 0.9, epsilon 6, batches of 200.
    pub fn cifar() -> Self {
        Self {
            optimizer: OptimizerConfig::Sgd(SgdConfig { lr: 1e-3, momentum: 0.9, nesterov: true }),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            epsilon: 6.0,
        }
    }

    /// As published for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet | Recipe::ImageNetVit => Self::imagenet(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        }
    }
}

impl Default for CplConfig {
    fn default() -> Self {
        Self::imagenet()
    }
}

/// CPL: conjugate pseudo-labels of the PolyLoss.
///
/// *Idea.* A training loss brings its own pseudo-label: the target at which the loss, as a function of the logits, is
/// stationary. The conjugate of the cross-entropy is the entropy; that of the PolyLoss is made here.
/// *Formula.* With `s = softmax(z)` and `a_k = s_k / (1 + eps s_k)`, the label is `y = a / sum a` and the loss
/// `mean_i (-sum_k y_k u_k)`, `u_k = log s_k - eps (1 - s_k)`. Its gradient, through `y` too, is
/// `s_j - y_j - eps s_j (y_j - y.s) - s_j (g_j - g.s)`, `g_k = (u_k - y.u) / ((1 + eps s_k)^2 sum a)`, divided by the images.
/// *Reference.* Goyal et al., "Test-time adaptation via conjugate pseudo-labels", NeurIPS 2022.
/// *Departures from the reference.* The label in closed form instead of a linear system of all classes. Logits are those from
/// before the update, as in the CCC benchmark; the authors predict again after it.
pub type Cpl = Minimize<CplConfig>;

impl LossMethod for CplConfig {
    const NAME: &'static str = "cpl";

    fn check(&self) -> Result<(), AdaptError> {
        let ok = (0.0..=1e3).contains(&self.epsilon);
        AdaptError::unless(ok, "epsilon", self.epsilon, "a number from 0 to 1000")?;
        Ok(self.optimizer.check()?)
    }

    fn loss(&self, _num_classes: usize) -> StepLoss {
        StepLoss::ConjugatePoly { epsilon: self.epsilon }
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode)
    }
}
