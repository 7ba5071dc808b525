use crate::adapter::Kept;
use crate::method::{Method, Recipe, SharedSettings};
use crate::{AdaptError, Adapter, EntropyMargin, Norms, Optimizer, OptimizerConfig, ParamRule, StepOutput, Target};
use flipcast_executor::loss::Predictions;
use flipcast_executor::{Executor, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Share of the moving average of the loss that a batch leaves in place.
const MEMORY: f64 = 0.9;

/// Added to the gradient's norm before dividing by it.
const NORM_EPS: f64 = 1e-12;

/// Settings of [`Sar`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SarConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Images with a higher entropy are left out.
    pub entropy_margin: EntropyMargin,
    /// Which norm layers adapt.
    pub param_rule: ParamRule,
    /// Length of the step uphill before the second gradient.
    pub rho: f64,
    /// A moving average of the loss below this is taken for collapse.
    pub reset_margin: EntropyMargin,
    /// As the released code, keep the average that led to a reset, and let momentum go on where no image is reliable.
    #[serde(default)]
    pub published_code: bool,
}

impl SarConfig {
    /// As published for ResNets on ImageNet: SGD 2.5e-4, momentum 0.9, rho 0.05, margins 0.4 ln K and 0.2 nats, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::sgd(2.5e-4),
            norm_mode: NormMode::Batch,
            entropy_margin: EntropyMargin::Share(0.4),
            param_rule: ParamRule::Sar,
            rho: 0.05,
            reset_margin: EntropyMargin::Nats(0.2),
            published_code: false,
        }
    }

    /// As compared on CIFAR: SGD 1e-3, momentum 0.9, the rest as for ImageNet.
    pub fn cifar() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// As published for a ViT-B on ImageNet: SGD 1e-3 for batches of 64, the rest as for ResNets.
    pub fn imagenet_vit() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// As published for the data of `recipe`, with the quirks of the released code.
    pub fn published(recipe: Recipe) -> Self {
        let config = match recipe {
            Recipe::ImageNet => Self::imagenet(),
            Recipe::ImageNetVit => Self::imagenet_vit(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        };
        Self { published_code: true, ..config }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let ok = self.rho >= 0.0 && self.rho.is_finite();
        AdaptError::unless(ok, "rho", self.rho, "a number of at least 0")?;
        self.entropy_margin.check()?;
        self.reset_margin.check()?;
        Ok(self.optimizer.check()?)
    }
}

impl SarConfig {
    /// The default with the learning rate published for the network and batch: 1e-3 times a 64th of the batch for transformers,
    /// 2.5e-4 for others, of which batches below 32 take a 32nd part per image; single images double a transformer's.
    pub fn for_target(target: Target) -> Self {
        let images = target.batch_size as f32;
        let lr = match target.norms {
            Norms::Layer if target.batch_size == 1 => 2.0 * target.transformer_lr(),
            Norms::Layer => target.transformer_lr(),
            Norms::Batch | Norms::Group if images < 32.0 => 2.5e-4 * images / 32.0,
            Norms::Batch | Norms::Group => 2.5e-4,
        };
        Self { optimizer: OptimizerConfig::sgd(lr), ..Self::default() }
    }
}

impl Default for SarConfig {
    /// As for ImageNet, but the margin of collapse is the same share of `ln K` for any number of classes: 0.2 nats of 1000 classes
    /// are usual for a good model of ten.
    fn default() -> Self {
        Self { reset_margin: EntropyMargin::Share(0.2 / 1000f64.ln()), ..Self::imagenet() }
    }
}

/// SAR: entropy minimisation on reliable images, towards flat minima, with a way back from collapse.
///
/// *Idea.* Images with a high entropy give noisy gradients and are left out; of the rest, the gradient is taken a step uphill, so
/// that sharp minima do not attract. An average loss near zero is the mark of collapse, and the source is restored.
/// *Formula.* `A` holds the images with `H_i < E0`; `g` is the gradient of `mean_A H`. At `theta + rho g / |g|` the images of `A` that
/// still have `H_i < E0` give loss and gradient of the update at `theta`. `e <- 0.9 e + 0.1 loss`, at first the loss; `e < e_m` resets.
/// *Reference.* Niu et al., "Towards stable test-time adaptation in dynamic wild world", ICLR 2023.
/// *Departures from the reference.* After a reset the average starts anew; the released code keeps it and so resets at every batch
/// until it has risen. Where no image is reliable nothing happens; the released code lets momentum move the parameters. The margin of
/// collapse is a setting. `published_code` restores the first two. The last stage is found in every
/// family ([`ParamRule`]).
#[derive(Debug)]
pub struct Sar {
    config: SarConfig,
    optimizer: Optimizer,
    kept: Kept,
    predictions: Predictions,
    /// Predictions at the perturbed parameters.
    perturbed: Predictions,
    reliable: Vec<usize>,
    used: Vec<usize>,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
    /// The parameters while the network holds perturbed ones.
    saved: Vec<f32>,
    average_loss: Option<f64>,
}

impl Sar {
    /// An adapter with these settings.
    pub fn new(config: SarConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimizer: Optimizer::new(config.optimizer),
            config,
            kept: Kept::default(),
            predictions: Predictions::default(),
            perturbed: Predictions::default(),
            reliable: Vec::new(),
            used: Vec::new(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
            saved: Vec::new(),
            average_loss: None,
        })
    }

    /// Fills `gradient` with that of the reliable images' mean entropy at perturbed parameters, and `used` with the images
    /// that are reliable there too. The network keeps the parameters it had, whether the passes succeed or not.
    fn sharpness_aware_gradient(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        margin: f64,
    ) -> Result<(), AdaptError> {
        entropy_gradient(&self.predictions, &self.reliable, &mut self.logit_gradient);
        self.backward(net)?;
        self.saved.clear();
        self.saved.extend_from_slice(net.affine());
        let square: f64 = self.gradient.iter().map(|&g| f64::from(g).powi(2)).sum();
        let scale = self.config.rho / (square.sqrt() + NORM_EPS);
        for (p, &g) in net.affine_mut().iter_mut().zip(&self.gradient) {
            *p = (f64::from(*p) + scale * f64::from(g)) as f32;
        }
        let result = self.perturbed_gradient(net, batch, margin);
        net.affine_mut().copy_from_slice(&self.saved);
        result
    }

    fn perturbed_gradient(&mut self, net: &mut dyn Executor, batch: &Batch, margin: f64) -> Result<(), AdaptError> {
        self.perturbed.see(net.forward(batch)?);
        let reliable = self.reliable.iter().copied();
        self.used.extend(reliable.filter(|&image| self.perturbed.entropy(image) < margin));
        if self.used.is_empty() {
            return Ok(());
        }
        entropy_gradient(&self.perturbed, &self.used, &mut self.logit_gradient);
        self.backward(net)
    }

    /// Takes the affine gradient, with zeros for layers that do not adapt.
    fn backward(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        self.config.param_rule.mask(net, &mut self.gradient);
        Ok(())
    }

    /// Moves the parameters and the average loss, as far as there is reason to.
    fn update(&mut self, net: &mut dyn Executor) {
        if self.used.is_empty() {
            if self.config.published_code {
                self.gradient.clear();
                self.gradient.resize(net.affine().len(), 0.0);
                self.optimizer.step(net.affine_mut(), &self.gradient);
            }
            return;
        }
        self.optimizer.step(net.affine_mut(), &self.gradient);
        let entropies = self.used.iter().map(|&image| self.perturbed.entropy(image));
        let loss = entropies.sum::<f64>() / self.used.len() as f64;
        self.average_loss = Some(match self.average_loss {
            Some(average) => MEMORY * average + (1.0 - MEMORY) * loss,
            None => loss,
        });
    }
}

impl Adapter for Sar {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        let classes = self.predictions.classes();
        let margin = self.config.entropy_margin.nats(classes);
        let is_reliable = |&image: &usize| self.predictions.entropy(image) < margin;
        self.reliable.clear();
        self.reliable.extend((0..self.predictions.images()).filter(is_reliable));
        self.used.clear();
        if !self.reliable.is_empty() {
            self.sharpness_aware_gradient(net, batch, margin)?;
        }
        self.update(net);
        let reset_margin = self.config.reset_margin.nats(classes);
        let reset = self.average_loss.is_some_and(|loss| loss < reset_margin);
        if reset {
            net.reset_affine();
            self.optimizer.reset();
            if !self.config.published_code {
                self.average_loss = None;
            }
        }
        Ok(StepOutput {
            logits: self.kept.logits(),
            mean_entropy: self.predictions.mean_entropy(),
            reliable: self.reliable.len(),
            used: self.used.len(),
            reset,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimizer.reset();
        self.average_loss = None;
        Ok(())
    }
}

impl Method for SarConfig {
    fn name(&self) -> &'static str {
        "sar"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        let shared = SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode);
        Some(SharedSettings { published_code: Some(&mut self.published_code), ..shared })
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Sar::new(self.clone())?))
    }
}

/// The gradient of the mean entropy of some images of a batch, of which there is at least one.
fn entropy_gradient(predictions: &Predictions, images: &[usize], gradient: &mut Vec<f32>) {
    predictions.clear_gradient(gradient);
    for &image in images {
        predictions.write_entropy_gradient(image, 1.0 / images.len() as f64, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_network;
    use flipcast_testkit::assert_gradient;

    /// Everything is reliable, nothing is collapse.
    fn open() -> SarConfig {
        SarConfig {
            entropy_margin: EntropyMargin::Nats(50.0),
            reset_margin: EntropyMargin::Nats(1e-9),
            ..SarConfig::imagenet()
        }
    }

    #[test]
    fn the_gradient_equals_differences_of_the_loss() {
        assert_gradient(|predictions, gradient| {
            entropy_gradient(predictions, &[0, 1], gradient);
            predictions.mean_entropy()
        });
        assert_gradient(|predictions, gradient| {
            entropy_gradient(predictions, &[0], gradient);
            predictions.entropy(0)
        });
    }

    #[test]
    fn without_a_step_uphill_it_is_tent() {
        use crate::{Tent, TentConfig};
        let (mut net, batch) = small_network();
        let mut tent = Tent::new(TentConfig::imagenet()).unwrap();
        tent.step(&mut net, &batch).unwrap();
        let expected = net.affine().to_vec();
        tent.reset(&mut net).unwrap();
        let mut sar = Sar::new(SarConfig { rho: 0.0, ..open() }).unwrap();
        let output = sar.step(&mut net, &batch).unwrap();
        assert_eq!(output.used, batch.images());
        for (a, b) in net.affine().iter().zip(expected) {
            assert!((a - b).abs() < 1e-7, "{a} {b}");
        }
    }

    fn momentum_alone(published_code: bool) -> bool {
        let (mut net, batch) = small_network();
        let config = SarConfig { published_code, ..open() };
        let mut sar = Sar::new(config).unwrap();
        sar.step(&mut net, &batch).unwrap();
        sar.config.entropy_margin = EntropyMargin::Nats(1e-9);
        let before = net.affine().to_vec();
        let output = sar.step(&mut net, &batch).unwrap();
        assert_eq!((output.reliable, output.used), (0, 0));
        net.affine() != before
    }

    #[test]
    fn empty_keep_set_skips_the_update_except_in_the_released_code() {
        assert!(!momentum_alone(false));
        assert!(momentum_alone(true));
    }

    /// Whether each of three steps resets, the average loss having fallen to nothing before the first.
    fn resets_after_collapse(published_code: bool) -> Vec<bool> {
        let (mut net, batch) = small_network();
        let mut sar = Sar::new(SarConfig { published_code, ..open() }).unwrap();
        let loss = {
            sar.step(&mut net, &batch).unwrap();
            sar.average_loss.unwrap()
        };
        sar.average_loss = Some(0.0);
        sar.config.reset_margin = EntropyMargin::Nats(loss / 2.0);
        let steps = (0..3).map(|_| sar.step(&mut net, &batch).unwrap().reset);
        steps.collect()
    }

    #[test]
    fn collapse_resets_once_except_in_the_released_code() {
        assert_eq!(resets_after_collapse(false), [true, false, false]);
        assert_eq!(resets_after_collapse(true), [true, true, true]);
    }

    #[test]
    fn a_reset_restores_the_source() {
        let (mut net, batch) = small_network();
        let mut sar = Sar::new(SarConfig { reset_margin: EntropyMargin::Nats(50.0), ..open() }).unwrap();
        assert!(sar.step(&mut net, &batch).unwrap().reset);
        assert_eq!(net.affine(), net.source_affine());
    }
}
