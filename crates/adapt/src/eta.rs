use crate::adapter::Kept;
use crate::on_device::{Ask, OnDevice};
use crate::predictions::Predictions;
use crate::selection::Selection;
use crate::{AdaptError, Adapter, EntropyMargin, Optimiser, OptimiserConfig, ParamRule, RedundancyMargin, StepOutput};
use flipcast_exec::{Executor, NormMode, StepLoss, StepResult};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Settings of [`Eta`], and of the methods built on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtaConfig {
    /// What moves the scales and shifts.
    pub optimiser: OptimiserConfig,
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
            optimiser: OptimiserConfig::sgd(2.5e-4),
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
            optimiser: OptimiserConfig::adam(1e-3),
            redundancy_margin: RedundancyMargin::Cosine(0.4),
            ..Self::imagenet()
        }
    }

    /// As compared on CIFAR-100: Adam 1e-3, margins 0.4 ln K and 0.1, batches of 200.
    pub fn cifar100() -> Self {
        Self { redundancy_margin: RedundancyMargin::Cosine(0.1), ..Self::cifar10() }
    }

    /// As SAR's released code compares it on a ViT-B: SGD 1e-3, momentum 0.9, batches of 64, the rest as for ImageNet. The rate is
    /// taken from memory of that code, not read again.
    pub fn imagenet_vit() -> Self {
        Self { optimiser: OptimiserConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.entropy_margin.check()?;
        self.redundancy_margin.check()?;
        self.optimiser.check()
    }
}

impl Default for EtaConfig {
    /// The optimiser published for ImageNet, and margins that fit any number of classes.
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
/// empty `B` changes nothing: neither the parameters nor the average nor the optimiser's memory.
/// *Reference.* Niu et al., "Efficient test-time model adaptation without forgetting", ICML 2022; EATA without its penalty.
/// *Departures from the reference.* `m` keeps nine tenths, as in the released code; the paper has it the other way round. The
/// default redundancy margin depends on the number of classes ([`RedundancyMargin`]). `reset` forgets the average
/// unless `published_code` is set.
#[derive(Debug)]
pub struct Eta {
    core: EtaCore,
}

impl Eta {
    /// An adapter with these settings.
    pub fn new(config: EtaConfig) -> Result<Self, AdaptError> {
        Ok(Self { core: EtaCore::new(config)? })
    }
}

impl Adapter for Eta {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.core.step_pulled(net, batch, None)?;
        Ok(self.core.output())
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.core.reset(net);
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.core.config.norm_mode
    }
}

/// The step that ETA, EATA and RDumb share.
#[derive(Debug)]
pub(crate) struct EtaCore {
    pub config: EtaConfig,
    optimiser: Optimiser,
    on_device: OnDevice,
    kept: Kept,
    predictions: Predictions,
    selection: Selection,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
    result: StepResult,
}

impl EtaCore {
    pub fn new(config: EtaConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimiser: Optimiser::new(config.optimiser),
            config,
            on_device: OnDevice::default(),
            kept: Kept::default(),
            predictions: Predictions::default(),
            selection: Selection::default(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
            result: StepResult::default(),
        })
    }

    /// One step, by the executor if it makes them. The gradient of parameter `j` gets `pull_j (theta_j - theta0_j)`.
    pub fn step_pulled(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        pull: Option<&Arc<[f64]>>,
    ) -> Result<(), AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        let classes = net.num_classes();
        let ask = Ask {
            loss: StepLoss::SelectedEntropy {
                entropy_margin: self.config.entropy_margin.nats(classes),
                cosine_margin: self.config.redundancy_margin.cosine(classes),
            },
            optimiser: self.config.optimiser,
            param_rule: &self.config.param_rule,
            pull,
        };
        match self.on_device.step(net, batch, &mut self.kept, ask)? {
            Some(result) => {
                self.result = result;
                Ok(())
            }
            None => self.step(net, batch, |net, gradient| {
                if let Some(pull) = pull {
                    add_pull(pull, net.affine(), net.source_affine(), gradient);
                }
            }),
        }
    }

    /// One step on the host. `penalise` adds the gradient of a penalty on the affine vector before the optimiser uses it.
    pub fn step(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        penalise: impl FnOnce(&dyn Executor, &mut [f32]),
    ) -> Result<(), AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        let classes = self.predictions.classes();
        let entropy_margin = self.config.entropy_margin.nats(classes);
        let cosine_margin = self.config.redundancy_margin.cosine(classes);
        self.selection.select(&self.predictions, entropy_margin, cosine_margin);
        self.result = StepResult {
            mean_entropy: self.predictions.mean_entropy(),
            reliable: self.selection.reliable(),
            used: self.selection.kept().len(),
        };
        if self.selection.kept().is_empty() {
            return Ok(());
        }
        weighted_entropy_gradient(&self.predictions, self.selection.kept(), entropy_margin, &mut self.logit_gradient);
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        penalise(net, &mut self.gradient);
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimiser.step(net.affine_mut(), &self.gradient);
        Ok(())
    }

    /// What the last step saw and did.
    pub fn output(&self) -> StepOutput<'_> {
        StepOutput::new(self.kept.logits(), self.result)
    }

    /// Restores the source parameters; forgets the optimiser's memory, and the average unless the released code is followed.
    pub fn reset(&mut self, net: &mut dyn Executor) {
        net.reset_affine();
        self.optimiser.reset();
        self.on_device.forget_optimiser();
        if !self.config.published_code {
            self.forget_average();
        }
    }

    /// Forgets the average prediction.
    pub fn forget_average(&mut self) {
        self.selection.forget();
        self.on_device.forget_average();
    }
}

/// Adds `pull_j (theta_j - theta0_j)`, the slope of a penalty on leaving the source, to a gradient.
pub(crate) fn add_pull(pull: &[f64], affine: &[f32], source: &[f32], gradient: &mut [f32]) {
    let moved = affine.iter().zip(source);
    for ((g, pull), (&now, &then)) in gradient.iter_mut().zip(pull).zip(moved) {
        *g = (f64::from(*g) + pull * (f64::from(now) - f64::from(then))) as f32;
    }
}

/// The gradient of `mean w_i H_i` over the kept images, with `w_i = exp(margin - H_i)` held constant.
pub(crate) fn weighted_entropy_gradient(
    predictions: &Predictions,
    kept: &[usize],
    margin: f64,
    gradient: &mut Vec<f32>,
) {
    predictions.clear_gradient(gradient);
    for &image in kept {
        let weight = (margin - predictions.entropy(image)).exp() / kept.len() as f64;
        predictions.write_entropy_gradient(image, weight, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_gradient::{CLASSES, LOGITS, assert_gradient};
    use crate::small_network::small_network;
    use flipcast_exec::Logits;

    #[test]
    fn the_gradient_equals_differences_of_the_loss_with_weights_held() {
        let margin = 1.5;
        let mut at_start = Predictions::default();
        at_start.see(Logits::new(&LOGITS, CLASSES));
        let weights: Vec<f64> = (0..2).map(|i| (margin - at_start.entropy(i)).exp()).collect();
        assert_gradient(|predictions, gradient| {
            weighted_entropy_gradient(predictions, &[0, 1], margin, gradient);
            (0..2).map(|i| weights[i] * predictions.entropy(i) / 2.0).sum()
        });
    }

    #[test]
    fn an_image_left_out_has_no_gradient() {
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(&LOGITS, CLASSES));
        let mut gradient = vec![9.0; 3];
        weighted_entropy_gradient(&predictions, &[1], 1.5, &mut gradient);
        assert!(gradient[..CLASSES].iter().all(|&g| g == 0.0), "{gradient:?}");
        assert!(gradient[CLASSES..].iter().any(|&g| g != 0.0), "{gradient:?}");
    }

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
