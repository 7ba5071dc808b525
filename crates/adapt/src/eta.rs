use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize};
use crate::{AdaptError, EntropyMargin, OptimizerConfig, ParamRule, RedundancyMargin, Target};
use flipcast_executor::{NormMode, StepLoss};
use serde::{Deserialize, Serialize};

/// Settings of [`Eta`], and of the methods built on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtaConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
    /// Images with a higher entropy are left out.
    pub entropy_margin: EntropyMargin,
    /// Images more similar to the average prediction are left out.
    pub redundancy_margin: RedundancyMargin,
    /// As the released code, [`Eta`]'s and [`Eata`](crate::Eata)'s `reset` keep the average prediction.
    #[serde(default)]
    pub published_code: bool,
}

impl EtaConfig {
    /// As published for ImageNet: SGD 2.5e-4, momentum 0.9, margins 0.4 ln K and 0.05, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::sgd(2.5e-4),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            entropy_margin: EntropyMargin::Share(0.4),
            redundancy_margin: RedundancyMargin::Cosine(0.05),
            published_code: false,
        }
    }

    /// As compared on CIFAR-10: Adam 1e-3, margins 0.4 ln K and 0.4, batches of 200.
    pub fn cifar10() -> Self {
        Self {
            optimizer: OptimizerConfig::adam(1e-3),
            redundancy_margin: RedundancyMargin::Cosine(0.4),
            ..Self::imagenet()
        }
    }

    /// As compared on CIFAR-100: Adam 1e-3, margins 0.4 ln K and 0.1, batches of 200.
    pub fn cifar100() -> Self {
        Self { redundancy_margin: RedundancyMargin::Cosine(0.1), ..Self::cifar10() }
    }

    /// As SAR's released code compares EATA on a ViT-B (`main.py` of github.com/mr-eggplant/SAR at 492c1ad): SGD 1e-3 for batches
    /// of 64 and in proportion for others, momentum 0.9, the rest as for ImageNet.
    pub fn imagenet_vit() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// As published for the data of `recipe`, with the quirks of the released code.
    pub fn published(recipe: Recipe) -> Self {
        let config = match recipe {
            Recipe::ImageNet => Self::imagenet(),
            Recipe::ImageNetVit => Self::imagenet_vit(),
            Recipe::Cifar10 => Self::cifar10(),
            Recipe::Cifar100 => Self::cifar100(),
        };
        Self { published_code: true, ..config }
    }

    /// The default with the learning rate that suits `target`.
    pub fn for_target(target: Target) -> Self {
        let default = Self::default();
        Self { optimizer: target.optimizer(default.optimizer), ..default }
    }
}

impl Default for EtaConfig {
    /// The optimizer published for ImageNet, and margins that fit any number of classes.
    fn default() -> Self {
        Self { redundancy_margin: RedundancyMargin::default(), ..Self::imagenet() }
    }
}

/// ETA: entropy minimisation on reliable images that are not redundant.
///
/// *Idea.* Uncertain images give harmful gradients, and images like those before give nothing new. Both are left out, and
/// the more certain of the rest count more.
/// *Formula.* `B` holds the images with `H_i < E0` and `|cos(m, p_i)| < d`; `m <- 0.9 m + 0.1 mean_B p`, at first `mean_B p`. Loss
/// `mean_B w_i H_i` with `w_i = exp(E0 - H_i)` held constant; gradient with respect to the logits `-w_i p_k (log p_k + H_i) / |B|`. An
/// empty `B` changes nothing: neither the parameters nor the average nor the optimizer's memory.
/// *Reference.* Niu et al., "Efficient test-time model adaptation without forgetting", ICML 2022; EATA without its penalty.
/// *Departures from the reference.* `m` keeps nine tenths, as in the released code; the paper has it the other way round. The
/// default redundancy margin depends on the number of classes ([`RedundancyMargin`]). `reset` forgets the average
/// unless `published_code` is set.
pub type Eta = Minimize<EtaConfig>;

impl LossMethod for EtaConfig {
    const NAME: &'static str = "eta";

    fn check(&self) -> Result<(), AdaptError> {
        self.entropy_margin.check()?;
        self.redundancy_margin.check()?;
        Ok(self.optimizer.check()?)
    }

    fn loss(&self, num_classes: usize) -> StepLoss {
        StepLoss::SelectedEntropy {
            entropy_margin: self.entropy_margin.nats(num_classes),
            cosine_margin: self.redundancy_margin.cosine(num_classes),
        }
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        let shared = SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode);
        SharedSettings { published_code: Some(&mut self.published_code), ..shared }
    }

    fn keeps_average(&self) -> bool {
        self.published_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adapter;
    use crate::small_network::small_network;
    use flipcast_executor::Executor;

    #[test]
    fn empty_keep_set_skips_the_update() {
        let (mut net, batch) = small_network();
        let mut eta =
            Eta::new(EtaConfig { entropy_margin: EntropyMargin::Nats(1e-9), ..EtaConfig::default() }).unwrap();
        for _ in 0..2 {
            let output = eta.step(&mut net, &batch).unwrap();
            assert_eq!((output.reliable, output.used), (0, 0));
        }
        assert_eq!(net.affine(), net.source_affine());
    }

    fn used_after_reset(published_code: bool) -> [usize; 3] {
        let (mut net, batch) = small_network();
        let mut eta = Eta::new(EtaConfig {
            entropy_margin: EntropyMargin::Nats(50.0),
            redundancy_margin: RedundancyMargin::Cosine(1e-3),
            published_code,
            ..EtaConfig::imagenet()
        })
        .unwrap();
        let first = eta.step(&mut net, &batch).unwrap().used;
        let second = eta.step(&mut net, &batch).unwrap().used;
        eta.reset(&mut net).unwrap();
        assert_eq!(net.affine(), net.source_affine());
        [first, second, eta.step(&mut net, &batch).unwrap().used]
    }

    #[test]
    fn reset_forgets_the_average_except_in_the_released_code() {
        let (_, batch) = small_network();
        let all = batch.images();
        assert_eq!(used_after_reset(false), [all, 0, all]);
        assert_eq!(used_after_reset(true), [all, 0, 0]);
    }
}
