use crate::adapter::Kept;
use crate::augment::{shuffle_patches, take_images};
use crate::method::{Method, Recipe, SharedSettings};
use crate::random::{Draws, Purpose};
use crate::{AdaptError, Adapter, EntropyMargin, Optimizer, OptimizerConfig, ParamRule, StepOutput, Target};
use flipcast_executor::loss::Predictions;
use flipcast_executor::{Executor, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Deyo`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeyoConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Images with a higher entropy are left out.
    pub entropy_margin: EntropyMargin,
    /// The entropy at which an image's weight is one, before the second part is added.
    pub weight_margin: EntropyMargin,
    /// Images whose class loses no more probability than this without its shape are left out.
    pub plpd_threshold: f64,
    /// Patches along each side of an image.
    pub grid: usize,
    /// Which norm layers adapt.
    pub param_rule: ParamRule,
}

impl DeyoConfig {
    /// As published for a ResNet-50 with batch norms on ImageNet-C: SGD 2.5e-4, momentum 0.9, margins 0.5 ln K and 0.4 ln K,
    /// threshold 0.3, 4 x 4 patches, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::sgd(2.5e-4),
            norm_mode: NormMode::Batch,
            entropy_margin: EntropyMargin::Share(0.5),
            weight_margin: EntropyMargin::Share(0.4),
            plpd_threshold: 0.3,
            grid: 4,
            param_rule: ParamRule::Sar,
        }
    }

    /// As published for streams with label shift, mixed corruptions or single images: threshold 0.2.
    pub fn wild() -> Self {
        Self { plpd_threshold: 0.2, ..Self::imagenet() }
    }

    /// As compared on CIFAR: Adam 1e-3, threshold 0.2, batches of 200.
    pub fn cifar() -> Self {
        Self { optimizer: OptimizerConfig::adam(1e-3), ..Self::wild() }
    }

    /// As published for a ViT-B: threshold 0.2; SGD 1e-3 for batches of 64 and in proportion for others (`main.py` of
    /// github.com/Jhyun17/DeYO at abfa82e).
    pub fn imagenet_vit() -> Self {
        Self { optimizer: OptimizerConfig::sgd(1e-3), ..Self::wild() }
    }

    /// As published for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet => Self::imagenet(),
            Recipe::ImageNetVit => Self::imagenet_vit(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        }
    }

    /// The default with the learning rate that suits `target`.
    pub fn for_target(target: Target) -> Self {
        let default = Self::default();
        Self { optimizer: target.optimizer(default.optimizer), ..default }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.entropy_margin.check()?;
        self.weight_margin.check()?;
        let plpd = self.plpd_threshold;
        let ok = (-1.0..1.0).contains(&plpd);
        AdaptError::unless(ok, "PLPD threshold", plpd, "-1 or more, and less than 1")?;
        let grid = self.grid as f64;
        AdaptError::unless(self.grid >= 2, "patches along a side", grid, "at least 2")?;
        Ok(self.optimizer.check()?)
    }
}

impl Default for DeyoConfig {
    /// Margins in shares of `ln K` fit any number of classes; the lower threshold is the one published for hard streams.
    fn default() -> Self {
        Self::wild()
    }
}

/// DeYO: entropy minimisation on images whose class depends on their shape.
///
/// *Idea.* Low entropy is not enough: a prediction from texture or background alone is certain too. Shuffled patches destroy
/// shape; if the class loses its probability then, it came from the shape.
/// *Formula.* `A` holds the images with `H_i < 0.5 ln K`, `x'` is `A` with the patches of each image shuffled, `y` the class of `x`,
/// `PLPD_i = p_y(x_i) - p_y(x'_i)`, and `B` holds those of `A` with `PLPD_i > tau`. Loss `mean_B w_i H_i` with
/// `w_i = exp(0.4 ln K - H_i) + exp(PLPD_i)` held constant; gradient with respect to the logits `-w_i p_k (log p_k + H_i) / |B|`. An
/// empty `A` or `B` changes nothing.
/// *Reference.* Lee et al., "Entropy is not enough for test-time adaptation: from the perspective of disentangled factors", ICLR 2024.
/// *Departures from the reference.* The pass over `x'` comes between the pass over `x` and its gradient, so `x` is passed a second time; the
/// numbers are the same. Rows and columns left over by the patches stay in place instead of being resized. Occlusion and
/// shuffled pixels, the other two ways of destroying shape, are not offered.
#[derive(Debug)]
pub struct Deyo {
    config: DeyoConfig,
    seed: u64,
    steps: u64,
    optimizer: Optimizer,
    kept: Kept,
    predictions: Predictions,
    /// Predictions of the shuffled images.
    shuffled: Predictions,
    reliable: Vec<usize>,
    used: Vec<usize>,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl Deyo {
    /// An adapter with these settings, whose patches are shuffled by `seed`.
    pub fn new(config: DeyoConfig, seed: u64) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimizer: Optimizer::new(config.optimizer),
            config,
            seed,
            steps: 0,
            kept: Kept::default(),
            predictions: Predictions::default(),
            shuffled: Predictions::default(),
            reliable: Vec::new(),
            used: Vec::new(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
        })
    }

    /// Fills `used` and the logit gradient from the reliable images and what shuffling their patches does.
    fn select(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<(), AdaptError> {
        self.used.clear();
        self.predictions.clear_gradient(&mut self.logit_gradient);
        if self.reliable.is_empty() {
            return Ok(());
        }
        let mut shuffled = take_images(batch, &self.reliable);
        let mut draws = Draws::new(self.seed, Purpose::Shuffle, self.steps);
        shuffle_patches(&mut shuffled, self.config.grid, &mut draws);
        self.shuffled.see(net.forward(&shuffled)?);
        let mut weights = Vec::with_capacity(self.reliable.len());
        let margin = self.config.weight_margin.nats(self.predictions.classes());
        for (place, &image) in self.reliable.iter().enumerate() {
            let class = self.predictions.class(image);
            let plpd = self.predictions.probs(image)[class] - self.shuffled.probs(place)[class];
            if plpd > self.config.plpd_threshold {
                self.used.push(image);
                weights.push((margin - self.predictions.entropy(image)).exp() + plpd.exp());
            }
        }
        for (&image, weight) in self.used.iter().zip(&weights) {
            let share = weight / self.used.len() as f64;
            self.predictions.write_entropy_gradient(image, share, &mut self.logit_gradient);
        }
        Ok(())
    }
}

impl Adapter for Deyo {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        let margin = self.config.entropy_margin.nats(self.predictions.classes());
        let predictions = &self.predictions;
        self.reliable.clear();
        self.reliable.extend((0..predictions.images()).filter(|&i| predictions.entropy(i) < margin));
        self.select(net, batch)?;
        self.steps += 1;
        if !self.used.is_empty() {
            net.forward(batch)?;
            self.gradient.clear();
            self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
            self.config.param_rule.mask(net, &mut self.gradient);
            self.optimizer.step(net.affine_mut(), &self.gradient);
        }
        Ok(StepOutput {
            logits: self.kept.logits(),
            mean_entropy: self.predictions.mean_entropy(),
            reliable: self.reliable.len(),
            used: self.used.len(),
            reset: false,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimizer.reset();
        self.steps = 0;
        Ok(())
    }
}

impl Method for DeyoConfig {
    fn name(&self) -> &'static str {
        "deyo"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode))
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Deyo::new(self.clone(), seed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{assert_adapts, residual_network};
    use crate::entropies;
    use flipcast_executor::Logits;

    /// Settings under which some images of a random network pass both filters.
    fn lenient() -> DeyoConfig {
        DeyoConfig {
            optimizer: OptimizerConfig::sgd(1e-3),
            entropy_margin: EntropyMargin::Nats(50.0),
            plpd_threshold: -0.999,
            ..DeyoConfig::imagenet()
        }
    }

    #[test]
    fn steps_lower_the_entropy_reset_restores_and_runs_repeat() {
        let loss = |logits: Logits<'_>| entropies(logits).iter().sum();
        assert_adapts(|| Box::new(Deyo::new(lenient(), 5).unwrap()), loss);
    }

    #[test]
    fn an_empty_keep_set_of_either_filter_skips_the_update() {
        let strict = [
            DeyoConfig { entropy_margin: EntropyMargin::Nats(1e-9), ..lenient() },
            DeyoConfig { plpd_threshold: 0.999_999, ..lenient() },
        ];
        let (mut net, batch) = residual_network();
        for (config, reliable) in strict.into_iter().zip([0, batch.images()]) {
            let mut deyo = Deyo::new(config, 5).unwrap();
            let output = deyo.step(&mut net, &batch).unwrap();
            assert_eq!((output.reliable, output.used), (reliable, 0));
            assert_eq!(net.affine(), net.source_affine());
        }
    }

    #[test]
    fn the_last_stage_stays_as_it_was() {
        let (mut net, batch) = residual_network();
        let mut deyo = Deyo::new(lenient(), 5).unwrap();
        deyo.step(&mut net, &batch).unwrap();
        let (now, then) = (net.affine(), net.source_affine());
        for entry in net.affine_table().entries() {
            let moved = now[entry.scale()] != then[entry.scale()];
            assert_eq!(moved, !entry.name.starts_with("layer4"), "{}", entry.name);
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let config = DeyoConfig { grid: 1, ..DeyoConfig::default() };
        assert!(Deyo::new(config, 0).is_err());
        let config = DeyoConfig { plpd_threshold: f64::NAN, ..DeyoConfig::default() };
        assert!(config.check().is_err());
    }
}
