use crate::adapter::Kept;
use crate::augment::{augment, take_images};
use crate::cross_entropy::{Prediction, add_symmetric_gradient};
use crate::method::{Method, Recipe, SharedSettings};
use crate::prior_correction::PriorCorrection;
use crate::random::{Draws, Purpose};
use crate::soft_likelihood_ratio::add_slr_gradient;
use crate::{
    AdaptError, Adapter, AugmentConfig, Optimizer, OptimizerConfig, ParamRule, PixelSpace, SgdConfig, StepOutput,
    entropies,
};
use flipcast_executor::loss::Predictions;
use flipcast_executor::loss::cosine;
use flipcast_executor::{Executor, Logits, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Roid`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoidConfig {
    /// What moves the scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
    /// Softness of the images' weights: lower prefers certain and rare ones more.
    pub temperature: f64,
    /// Share of the parameters that the source leaves in place after each step.
    pub source_momentum: f64,
    /// Share of the average prediction that a batch leaves in place.
    pub class_momentum: f64,
    /// What sums over images are divided by, however many images a batch has.
    pub batch_size: usize,
    /// How images are augmented for the consistency loss; none, no such loss.
    pub consistency: Option<AugmentConfig>,
    /// What the batch's own class frequencies do to its predictions.
    pub prior: PriorCorrection,
}

impl RoidConfig {
    /// As published for ImageNet: SGD 2.5e-4 with Nesterov 0.9, temperature 1/3, momenta 0.99 and 0.9, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::Sgd(SgdConfig { lr: 2.5e-4, momentum: 0.9, nesterov: true }),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            temperature: 1.0 / 3.0,
            source_momentum: 0.99,
            class_momentum: 0.9,
            batch_size: 64,
            consistency: Some(AugmentConfig::roid(PixelSpace::imagenet())),
            prior: PriorCorrection::Logits,
        }
    }

    /// As published for CIFAR: Adam 1e-3, batches of 200; the networks normalise on their own.
    pub fn cifar() -> Self {
        Self {
            optimizer: OptimizerConfig::adam(1e-3),
            batch_size: 200,
            consistency: Some(AugmentConfig::roid(PixelSpace::AsIs)),
            ..Self::imagenet()
        }
    }

    /// As published for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet | Recipe::ImageNetVit => Self::imagenet(),
            Recipe::Cifar10 | Recipe::Cifar100 => Self::cifar(),
        }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let heat = self.temperature;
        let ok = heat > 0.0 && heat.is_finite();
        AdaptError::unless(ok, "temperature", heat, "a number of more than 0")?;
        let momenta = [("source momentum", self.source_momentum), ("class momentum", self.class_momentum)];
        for (setting, found) in momenta {
            let ok = (0.0..=1.0).contains(&found);
            AdaptError::unless(ok, setting, found, "a number from 0 to 1")?;
        }
        let images = self.batch_size as f64;
        AdaptError::unless(images >= 1.0, "batch size", images, "at least 1")?;
        if let Some(augment) = &self.consistency {
            augment.check()?;
        }
        Ok(self.optimizer.check()?)
    }
}

impl Default for RoidConfig {
    /// As for ImageNet, but the prior corrects probabilities instead of scaling logits.
    fn default() -> Self {
        Self { prior: PriorCorrection::Probabilities, ..Self::imagenet() }
    }
}

/// ROID: a likelihood ratio on certain and rare images, consistency, and a constant pull to the source.
///
/// *Idea.* Entropy's gradient vanishes for certain predictions; a likelihood ratio's does not. Certain images and images of
/// classes not seen lately count more, a light augmentation must not change the prediction, and averaging with the source's
/// parameters after every step keeps the model from drifting away.
/// *Formula.* `q` is the average prediction, uniform at first, `q <- 0.9 q + 0.1 mean p`. `a_i = 1 - cos(q, p_i)` and `b_i = -H_i`, both scaled to
/// 0..1 within the batch. Images with `a_i < mean a` are left out; the others have `w_i = exp(a_i b_i / T)`, held constant. Loss
/// `sum_i w_i (SLR_i + SCE_i) / batch size`, where `SLR = -sum_k p_k log(p_k / (1 - p_k) + 1e-5)` with `p` at most 0.99, and
/// `SCE` is the symmetric cross-entropy between the image and its augmented view. Then
/// `theta <- 0.99 theta + 0.01 theta_source`. Predictions are corrected by the batch's prior ([`PriorCorrection`]).
/// *Reference.* Marsden, Doebler and Yang, "Universal Test-time Adaptation through Weight Ensembling, Diversity Weighting, and Prior
/// Correction", WACV 2024.
/// *Departures from the reference.* `SCE` has a gradient through both of its passes, as published: the views' pass and its gradient come first,
/// then the batch is passed a second time for its own, and the two are summed; the numbers are the same. Where all images
/// are equally rare or certain, the published scaling divides 0 by 0; here the scaled value is 0. The default corrects probabilities
/// by the prior; `imagenet` and `cifar` scale logits, as published.
#[derive(Debug)]
pub struct Roid {
    config: RoidConfig,
    seed: u64,
    steps: u64,
    optimizer: Optimizer,
    kept: Kept,
    predictions: Predictions,
    /// Predictions of the augmented views.
    views: Predictions,
    /// Average prediction; empty before the first batch.
    average: Vec<f64>,
    /// Images that count, and their weights.
    used: Vec<usize>,
    weights: Vec<f64>,
    logit_gradient: Vec<f32>,
    view_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl Roid {
    /// An adapter with these settings, whose augmentations are drawn by `seed`.
    pub fn new(config: RoidConfig, seed: u64) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimizer: Optimizer::new(config.optimizer),
            config,
            seed,
            steps: 0,
            kept: Kept::default(),
            predictions: Predictions::default(),
            views: Predictions::default(),
            average: Vec::new(),
            used: Vec::new(),
            weights: Vec::new(),
            logit_gradient: Vec::new(),
            view_gradient: Vec::new(),
            gradient: Vec::new(),
        })
    }

    /// Chooses and weighs images, then lets the average prediction follow the batch.
    fn weigh(&mut self) {
        let (images, classes) = (self.predictions.images(), self.predictions.classes());
        if self.average.is_empty() {
            self.average.resize(classes, 1.0 / classes as f64);
        }
        let rarity = |image| 1.0 - cosine(&self.average, self.predictions.probs(image));
        let rarity = to_unit_range((0..images).map(rarity).collect());
        let certainty = (0..images).map(|image| -self.predictions.entropy(image));
        let certainty = to_unit_range(certainty.collect());
        let mean = rarity.iter().sum::<f64>() / images as f64;
        self.used.clear();
        self.weights.clear();
        for image in (0..images).filter(|&image| rarity[image] >= mean) {
            self.used.push(image);
            let weight = (rarity[image] * certainty[image] / self.config.temperature).exp();
            self.weights.push(weight);
        }
        let keep = self.config.class_momentum;
        let batch_mean = mean_probs(&self.predictions);
        for (average, new) in self.average.iter_mut().zip(batch_mean) {
            *average = keep * *average + (1.0 - keep) * new;
        }
    }

    /// Fills the logit gradient with the likelihood ratio's part.
    fn ratio_gradient(&mut self) {
        self.predictions.clear_gradient(&mut self.logit_gradient);
        let classes = self.predictions.classes();
        for (&image, weight) in self.used.iter().zip(&self.weights) {
            let row = &mut self.logit_gradient[image * classes..][..classes];
            let share = weight / self.config.batch_size as f64;
            add_slr_gradient(self.predictions.probs(image), share, row);
        }
    }

    /// Adds the consistency loss's part to the logit gradient, and fills the gradient with the part that flows through the views.
    fn consistency_gradient(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        config: &AugmentConfig,
    ) -> Result<(), AdaptError> {
        let mut draws = Draws::new(self.seed, Purpose::Augment, self.steps);
        let views = augment(&take_images(batch, &self.used), config, &mut draws)?;
        self.views.see(net.forward(&views)?);
        self.views.clear_gradient(&mut self.view_gradient);
        let classes = self.predictions.classes();
        for (place, (&image, weight)) in self.used.iter().zip(&self.weights).enumerate() {
            let share = weight / self.config.batch_size as f64;
            let plain = Prediction::of(&self.predictions, image);
            let view = Prediction::of(&self.views, place);
            let row = &mut self.view_gradient[place * classes..][..classes];
            add_symmetric_gradient(view, plain, share, row);
            let row = &mut self.logit_gradient[image * classes..][..classes];
            add_symmetric_gradient(plain, view, share, row);
        }
        self.gradient.extend_from_slice(net.backward(&self.view_gradient)?);
        net.forward(batch)?;
        Ok(())
    }

    /// Moves the parameters by what both passes say, and a little back to the source.
    fn update(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<(), AdaptError> {
        self.ratio_gradient();
        self.gradient.clear();
        if let Some(augment) = self.config.consistency {
            self.consistency_gradient(net, batch, &augment)?;
        }
        let through_batch = net.backward(&self.logit_gradient)?;
        self.gradient.resize(through_batch.len(), 0.0);
        for (sum, g) in self.gradient.iter_mut().zip(through_batch) {
            *sum += g;
        }
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimizer.step(net.affine_mut(), &self.gradient);
        let keep = self.config.source_momentum;
        let mut ensemble = net.affine().to_vec();
        for (p, &source) in ensemble.iter_mut().zip(net.source_affine()) {
            *p = (keep * f64::from(*p) + (1.0 - keep) * f64::from(source)) as f32;
        }
        net.affine_mut().copy_from_slice(&ensemble);
        Ok(())
    }
}

impl Adapter for Roid {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        self.weigh();
        self.update(net, batch)?;
        self.steps += 1;
        let prior = mean_probs(&self.predictions);
        let mut corrected = self.kept.logits().values().to_vec();
        self.config.prior.apply(&prior, batch.images(), &mut corrected);
        self.kept.keep(Logits::new(&corrected, prior.len()));
        let logits = self.kept.logits();
        Ok(StepOutput {
            logits,
            mean_entropy: entropies(logits).iter().sum::<f64>() / batch.images() as f64,
            reliable: batch.images(),
            used: self.used.len(),
            reset: false,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimizer.reset();
        self.average.clear();
        self.steps = 0;
        Ok(())
    }
}

impl Method for RoidConfig {
    fn name(&self) -> &'static str {
        "roid"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode))
    }

    fn set_pixels(&mut self, pixels: PixelSpace) {
        if let Some(augment) = &mut self.consistency {
            augment.pixels = pixels;
        }
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Roid::new(self.clone(), seed)?))
    }
}

/// The mean prediction of a batch.
fn mean_probs(predictions: &Predictions) -> Vec<f64> {
    let mut mean = vec![0.0; predictions.classes()];
    for image in 0..predictions.images() {
        for (sum, p) in mean.iter_mut().zip(predictions.probs(image)) {
            *sum += p / predictions.images() as f64;
        }
    }
    mean
}

/// Moves and scales values to 0..1; equal ones, which have no scale, become 0.
fn to_unit_range(mut values: Vec<f64>) -> Vec<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    for value in &mut values {
        *value = if range > 0.0 { (*value - low) / range } else { 0.0 };
    }
    values
}

#[cfg(test)]
mod tests;
