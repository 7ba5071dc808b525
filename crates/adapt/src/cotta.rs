use crate::adapter::Kept;
use crate::augment::augment;
use crate::cross_entropy::{Prediction, add_cross_entropy_gradient, add_symmetric_gradient};
use crate::method::{Method, Recipe, SharedSettings};
use crate::random::{Draws, Purpose};
use crate::{
    AdaptError, Adapter, AugmentConfig, Optimizer, OptimizerConfig, ParamRule, PixelSpace, SgdConfig, StepOutput,
};
use flipcast_executor::loss::Predictions;
use flipcast_executor::{Executor, Logits, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// How the student follows the teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CottaLoss {
    /// Half of the cross-entropy in each direction, as published for ImageNet.
    Symmetric,
    /// Cross-entropy of the student under the teacher, as published for CIFAR.
    CrossEntropy,
}

/// Settings of [`Cotta`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CottaConfig {
    /// What moves the student's scales and shifts.
    #[serde(rename = "optimiser")]
    pub optimizer: OptimizerConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
    /// How the student follows the teacher.
    pub loss: CottaLoss,
    /// Share of the teacher that a step leaves in place.
    pub teacher_momentum: f64,
    /// The teacher averages over augmentations where the source model's mean confidence is below this.
    pub confidence_threshold: f64,
    /// Number of augmentations.
    pub augmentations: usize,
    /// How images are augmented.
    pub augment: AugmentConfig,
    /// Chance of each of the student's parameters to be restored after a step.
    pub restore: f64,
}

impl CottaConfig {
    /// As published for ImageNet: SGD 0.01 with Nesterov 0.9, threshold 0.1, 32 augmentations, restore 0.001, batches of 64.
    pub fn imagenet() -> Self {
        Self {
            optimizer: OptimizerConfig::Sgd(SgdConfig { lr: 0.01, momentum: 0.9, nesterov: true }),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            loss: CottaLoss::Symmetric,
            teacher_momentum: 0.999,
            confidence_threshold: 0.1,
            augmentations: 32,
            augment: AugmentConfig::cotta(PixelSpace::imagenet()),
            restore: 0.001,
        }
    }

    /// As published for CIFAR-10: Adam 1e-3, threshold 0.92, restore 0.01, batches of 200; the networks normalise on their own.
    pub fn cifar10() -> Self {
        Self {
            optimizer: OptimizerConfig::adam(1e-3),
            loss: CottaLoss::CrossEntropy,
            confidence_threshold: 0.92,
            augment: AugmentConfig::cotta(PixelSpace::AsIs),
            restore: 0.01,
            ..Self::imagenet()
        }
    }

    /// As published for CIFAR-100: as for CIFAR-10, threshold 0.72.
    pub fn cifar100() -> Self {
        Self { confidence_threshold: 0.72, ..Self::cifar10() }
    }

    /// As for ImageNet, with the confidence threshold of the published setting whose number of classes is nearest to `num_classes` as
    /// a ratio: models of few classes are sure even where they fail, so their threshold must be higher.
    pub fn for_classes(num_classes: usize) -> Self {
        let published = [(10.0, Self::cifar10()), (100.0, Self::cifar100()), (1000.0, Self::imagenet())];
        let ratio = |classes: f64| (classes / num_classes.max(1) as f64).ln().abs();
        let nearest = published.iter().min_by(|a, b| ratio(a.0).total_cmp(&ratio(b.0)));
        let threshold = nearest.map(|(_, config)| config.confidence_threshold);
        let imagenet = Self::imagenet();
        Self { confidence_threshold: threshold.unwrap_or(imagenet.confidence_threshold), ..imagenet }
    }

    /// As published for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        match recipe {
            Recipe::ImageNet | Recipe::ImageNetVit => Self::imagenet(),
            Recipe::Cifar10 => Self::cifar10(),
            Recipe::Cifar100 => Self::cifar100(),
        }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let shares = [
            ("teacher momentum", self.teacher_momentum),
            ("confidence threshold", self.confidence_threshold),
            ("chance to restore a parameter", self.restore),
        ];
        for (setting, found) in shares {
            let ok = (0.0..=1.0).contains(&found);
            AdaptError::unless(ok, setting, found, "a number from 0 to 1")?;
        }
        let count = self.augmentations as f64;
        AdaptError::unless(count >= 1.0, "augmentations", count, "at least 1")?;
        self.augment.check()?;
        Ok(self.optimizer.check()?)
    }
}

/// CoTTA: a student follows a slow teacher, and now and then forgets.
///
/// *Idea.* A moving average of the student gives steadier targets than the student itself, more so if it averages over
/// augmentations of images the source model is unsure of. Restoring a few parameters to the source at random keeps
/// long runs from drifting away.
/// *Formula.* Teacher logits `t` are those of the batch, or their mean over `N` augmentations if the source model's mean largest probability is
/// below the threshold. With `p` the student's prediction and `q = softmax(t)`, loss `mean_i -sum_k q_k log p_k`, or half of it and half of
/// `-sum_k p_k log q_k`; gradients with respect to the student's logits `p_k - q_k` and
/// `(p_k - q_k)/2 - p_k (log q_k - sum_j p_j log q_j)/2`, over the images. Then
/// `teacher <- 0.999 teacher + 0.001 student`, and each of the student's parameters returns to the source with chance `restore`.
/// *Reference.* Wang et al., "Continual Test-Time Domain Adaptation", CVPR 2022.
/// *Departures from the reference.* Only scales and shifts of norms adapt, as in the CCC benchmark's copy; the original moves all weights.
/// Student, teacher and source are three affine vectors of one network. Between steps the network holds the teacher's, so
/// that whoever passes a batch predicts as the method does. Logits returned are the teacher's, as published. Augmentations act on
/// pixels unless [`PixelSpace::AsIs`] asks for the published quirk, and are only run where they are used. Gradients flow
/// through the student alone, as in the reference.
#[derive(Debug)]
pub struct Cotta {
    config: CottaConfig,
    seed: u64,
    steps: u64,
    optimizer: Optimizer,
    kept: Kept,
    /// Empty before the first step, when it equals the network's.
    student: Vec<f32>,
    teacher: Vec<f32>,
    predictions: Predictions,
    targets: Predictions,
    logit_sum: Vec<f64>,
    logit_gradient: Vec<f32>,
}

impl Cotta {
    /// An adapter with these settings, whose chances are drawn by `seed`.
    pub fn new(config: CottaConfig, seed: u64) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimizer: Optimizer::new(config.optimizer),
            config,
            seed,
            steps: 0,
            kept: Kept::default(),
            student: Vec::new(),
            teacher: Vec::new(),
            predictions: Predictions::default(),
            targets: Predictions::default(),
            logit_sum: Vec::new(),
            logit_gradient: Vec::new(),
        })
    }

    /// Runs the source, the teacher and the student, and moves the student. The network is left with any of the three.
    fn follow(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<(), AdaptError> {
        net.reset_affine();
        self.predictions.see(net.forward(batch)?);
        let confidence = mean_confidence(&self.predictions);
        net.affine_mut().copy_from_slice(&self.teacher);
        if confidence < self.config.confidence_threshold {
            self.average_views(net, batch)?;
        } else {
            self.kept.keep(net.forward(batch)?);
        }
        self.targets.see(self.kept.logits());
        net.affine_mut().copy_from_slice(&self.student);
        self.predictions.see(net.forward(batch)?);
        follow_gradient(&self.predictions, &self.targets, self.config.loss, &mut self.logit_gradient);
        let mut gradient = net.backward(&self.logit_gradient)?.to_vec();
        self.config.param_rule.mask(net, &mut gradient);
        self.optimizer.step(&mut self.student, &gradient);
        Ok(())
    }

    /// Keeps the teacher's mean logits over augmentations.
    fn average_views(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<(), AdaptError> {
        let mut draws = Draws::new(self.seed, Purpose::Augment, self.steps);
        self.logit_sum.clear();
        self.logit_sum.resize(batch.images() * net.num_classes(), 0.0);
        for _ in 0..self.config.augmentations {
            let view = augment(batch, &self.config.augment, &mut draws)?;
            let logits = net.forward(&view)?;
            for (sum, &z) in self.logit_sum.iter_mut().zip(logits.values()) {
                *sum += f64::from(z);
            }
        }
        let count = self.config.augmentations as f64;
        let mean: Vec<f32> = self.logit_sum.iter().map(|z| (z / count) as f32).collect();
        self.kept.keep(Logits::new(&mean, net.num_classes()));
        Ok(())
    }

    /// Lets the teacher follow the student, then restores some of the student.
    fn average_and_restore(&mut self, source: &[f32]) {
        let momentum = self.config.teacher_momentum;
        for (teacher, &student) in self.teacher.iter_mut().zip(&self.student) {
            let mean = momentum * f64::from(*teacher) + (1.0 - momentum) * f64::from(student);
            *teacher = mean as f32;
        }
        let mut draws = Draws::new(self.seed, Purpose::Restore, self.steps);
        for (student, &source) in self.student.iter_mut().zip(source) {
            if draws.uniform() < self.config.restore {
                *student = source;
            }
        }
    }
}

impl Adapter for Cotta {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        if self.student.is_empty() {
            self.student = net.affine().to_vec();
            self.teacher = net.affine().to_vec();
        }
        let followed = self.follow(net, batch);
        if followed.is_ok() {
            self.average_and_restore(net.source_affine());
            self.steps += 1;
        }
        net.affine_mut().copy_from_slice(&self.teacher);
        followed?;
        Ok(StepOutput {
            logits: self.kept.logits(),
            mean_entropy: self.targets.mean_entropy(),
            reliable: batch.images(),
            used: batch.images(),
            reset: false,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimizer.reset();
        self.student.clear();
        self.teacher.clear();
        self.steps = 0;
        Ok(())
    }
}

impl Method for CottaConfig {
    fn name(&self) -> &'static str {
        "cotta"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(SharedSettings::new(&mut self.optimizer, &mut self.param_rule, &mut self.norm_mode))
    }

    fn set_pixels(&mut self, pixels: PixelSpace) {
        self.augment.pixels = pixels;
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Cotta::new(self.clone(), seed)?))
    }
}

/// The mean of every image's largest probability.
fn mean_confidence(predictions: &Predictions) -> f64 {
    let largest = |image| predictions.probs(image).iter().copied().fold(0.0, f64::max);
    (0..predictions.images()).map(largest).sum::<f64>() / predictions.images() as f64
}

/// The gradient of the student's mean loss with respect to its logits.
fn follow_gradient(student: &Predictions, teacher: &Predictions, loss: CottaLoss, gradient: &mut Vec<f32>) {
    student.clear_gradient(gradient);
    let weight = 1.0 / student.images() as f64;
    for (image, row) in gradient.chunks_exact_mut(student.classes()).enumerate() {
        let (p, q) = (Prediction::of(student, image), Prediction::of(teacher, image));
        match loss {
            CottaLoss::Symmetric => add_symmetric_gradient(p, q, weight, row),
            CottaLoss::CrossEntropy => add_cross_entropy_gradient(p, q, weight, row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{assert_adapts, residual_network};
    use crate::cross_entropy::{cross_entropy, symmetric_cross_entropy};
    use crate::entropies;
    use flipcast_testkit::{CLASSES, assert_gradient};

    fn config(confidence_threshold: f64) -> CottaConfig {
        CottaConfig {
            optimizer: OptimizerConfig::sgd(1e-3),
            confidence_threshold,
            augmentations: 3,
            teacher_momentum: 0.9,
            restore: 0.05,
            ..CottaConfig::imagenet()
        }
    }

    #[test]
    fn the_gradient_equals_differences_with_the_teacher_held() {
        let mut teacher = Predictions::default();
        teacher.see(Logits::new(&[1.5, 0.25, -0.5, 0.0, -2.0, 0.5, 1.0, 3.0], CLASSES));
        for loss in [CottaLoss::Symmetric, CottaLoss::CrossEntropy] {
            assert_gradient(|student, gradient| {
                follow_gradient(student, &teacher, loss, gradient);
                let one = |image| {
                    let (p, q) = (Prediction::of(student, image), Prediction::of(&teacher, image));
                    match loss {
                        CottaLoss::Symmetric => symmetric_cross_entropy(p, q),
                        CottaLoss::CrossEntropy => cross_entropy(p, q),
                    }
                };
                (one(0) + one(1)) / 2.0
            });
        }
    }

    #[test]
    fn steps_lower_the_entropy_reset_restores_and_runs_repeat() {
        // With itself as teacher, the symmetric loss is the student's entropy at first.
        let loss = |logits: Logits<'_>| entropies(logits).iter().sum();
        assert_adapts(|| Box::new(Cotta::new(config(0.0), 5).unwrap()), loss);
    }

    #[test]
    fn unsure_images_are_averaged_over_views_by_the_seed() {
        let first = |threshold, seed| {
            let (mut net, batch) = residual_network();
            let mut cotta = Cotta::new(config(threshold), seed).unwrap();
            let output = cotta.step(&mut net, &batch).unwrap();
            output.logits.values().to_vec()
        };
        assert_eq!(first(1.0, 1), first(1.0, 1));
        assert_ne!(first(1.0, 1), first(1.0, 2));
        assert_ne!(first(1.0, 1), first(0.0, 1));
        assert_eq!(first(0.0, 1), first(0.0, 2), "nothing is drawn before the prediction");
    }

    #[test]
    fn the_network_holds_the_teacher_between_steps_even_after_a_failure() {
        let (mut net, batch) = residual_network();
        let mut cotta = Cotta::new(config(0.0), 5).unwrap();
        cotta.step(&mut net, &batch).unwrap();
        assert_eq!(net.affine(), cotta.teacher);
        assert_ne!(net.affine(), cotta.student);
        let teacher = cotta.teacher.clone();
        let broken = Batch::new([1, 2, 2, 3], vec![0.0; 12]).unwrap();
        assert!(cotta.step(&mut net, &broken).is_err());
        assert_eq!(net.affine(), teacher);
    }

    #[test]
    fn certain_restoration_keeps_the_student_at_the_source() {
        let (mut net, batch) = residual_network();
        let settings = CottaConfig { restore: 1.0, ..config(0.0) };
        let mut cotta = Cotta::new(settings, 5).unwrap();
        cotta.step(&mut net, &batch).unwrap();
        assert_eq!(cotta.student, net.source_affine());
        assert_ne!(cotta.teacher, net.source_affine());
    }

    #[test]
    fn the_threshold_falls_with_the_number_of_classes() {
        let threshold = |k| CottaConfig::for_classes(k).confidence_threshold;
        let found = [2, 10, 31, 32, 100, 316, 317, 1000, 21_841].map(threshold);
        assert_eq!(found, [0.92, 0.92, 0.92, 0.72, 0.72, 0.72, 0.1, 0.1, 0.1]);
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        for config in [
            CottaConfig { augmentations: 0, ..CottaConfig::imagenet() },
            CottaConfig { restore: 1.5, ..CottaConfig::imagenet() },
        ] {
            assert!(Cotta::new(config, 0).is_err());
        }
    }
}
