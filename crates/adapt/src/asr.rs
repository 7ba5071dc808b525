use crate::method::{Method, Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimizer};
use crate::{AdaptError, Adapter, EtaConfig, OptimizerConfig, SgdConfig, StepOutput, TentConfig};
use flipcast_executor::loss::log_softmax_entropy;
use flipcast_executor::{Executor, Logits, StepLoss};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

mod penalty;

use penalty::Penalty;

/// The method that [`Asr`] resets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AsrStep {
    /// ETA.
    Eta(EtaConfig),
    /// Tent.
    Tent(TentConfig),
}

impl AsrStep {
    fn loss(&self, num_classes: usize) -> StepLoss {
        match self {
            Self::Eta(config) => config.loss(num_classes),
            Self::Tent(config) => config.loss(num_classes),
        }
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        match self {
            Self::Eta(config) => config.settings(),
            Self::Tent(config) => config.settings(),
        }
    }
}

/// Settings of [`Asr`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AsrConfig {
    /// What is done between resets.
    pub step: AsrStep,
    /// Share of a batch in the threshold where no prediction has flipped (`m0`); less the more have.
    pub threshold_rate: f64,
    /// Strength of the penalty where all predictions have flipped (`p0`); its square-law share where fewer have.
    pub penalty: f64,
    /// The threshold starts at the entropy of this share of the classes (`a0`).
    pub start_share: f64,
    /// Share of the parameters that a reset keeps where entropy has just reached the threshold (`r0`).
    pub kept_share: f64,
    /// How much less is kept per nat below the threshold (`r1`).
    pub kept_slope: f64,
}

impl AsrConfig {
    /// As published for a ResNet-50 on ImageNet, around ETA: SGD 2.5e-4 with Nesterov 0.9, rate 0.15, penalty 5, start 0.5, kept share
    /// 0.5 less 20 per nat, batches of 64.
    pub fn imagenet() -> Self {
        let eta = EtaConfig {
            optimizer: OptimizerConfig::Sgd(SgdConfig { lr: 2.5e-4, momentum: 0.9, nesterov: true }),
            ..EtaConfig::imagenet()
        };
        Self {
            step: AsrStep::Eta(eta),
            threshold_rate: 0.15,
            penalty: 5.0,
            start_share: 0.5,
            kept_share: 0.5,
            kept_slope: 20.0,
        }
    }

    /// The same constants around ETA's settings for CIFAR-10; none were published.
    pub fn cifar10() -> Self {
        Self { step: AsrStep::Eta(EtaConfig::cifar10()), ..Self::imagenet() }
    }

    /// The same constants around ETA's settings for CIFAR-100; none were published.
    pub fn cifar100() -> Self {
        Self { step: AsrStep::Eta(EtaConfig::cifar100()), ..Self::imagenet() }
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
            ("threshold rate", self.threshold_rate),
            ("share of classes the threshold starts at", self.start_share),
            ("share of parameters a reset keeps", self.kept_share),
        ];
        for (setting, found) in shares {
            let ok = (0.0..=1.0).contains(&found);
            AdaptError::unless(ok, setting, found, "a number from 0 to 1")?;
        }
        let ok = self.start_share > 0.0;
        let setting = "share of classes the threshold starts at";
        AdaptError::unless(ok, setting, self.start_share, "more than 0")?;
        for (setting, found) in [("penalty", self.penalty), ("kept slope", self.kept_slope)] {
            let ok = found >= 0.0 && found.is_finite();
            AdaptError::unless(ok, setting, found, "a number of at least 0")?;
        }
        match &self.step {
            AsrStep::Eta(config) => config.check(),
            AsrStep::Tent(config) => config.check(),
        }
    }
}

impl Default for AsrConfig {
    /// The published constants around ETA's defaults, which fit any number of classes.
    fn default() -> Self {
        Self { step: AsrStep::Eta(EtaConfig::default()), ..Self::imagenet() }
    }
}

/// ASR: adaptation that resets when, and as deeply as, predictions concentrate.
///
/// *Idea.* A collapsing model's mean prediction loses entropy before its accuracy does. The last layers go wrong first, so a mild case restores
/// only those. The more predictions have flipped from the source model's, the harder the stream, so the slower the threshold
/// follows and the more the parameters are held to where they did well before.
/// *Formula.* `h` is the entropy of the softmax of the batch's mean logits, `r` the share of its predictions that differ from the source
/// model's, `c` the threshold, `ln(a0 K)` at first. If `h < c`, the first `max(r0 - r1 (c - h), 0)` of the parameters are kept, the others
/// restored, the optimizer and the threshold start anew; else `c <- m c + (1 - m) h` with `m = 1 - m0 + m0 r`. Between
/// resets the method's loss is joined by `p0 r^2 sum_j F_j (theta_j - mu_j)^2`, `r` being that of the batch before: `F` and `mu` are the mean square
/// gradient and mean parameter between two resets, averaged over resets with 0.9 of the old.
/// *Reference.* Lim, Hwang and Lee, "When and Where to Reset Matters for Long-Term Test-Time Adaptation", ICLR 2026.
/// *Departures from the reference.* Around ETA or Tent; the published variant around ROID is not offered. `reset` restores the
/// source and forgets the threshold and the penalty too. The source model's predictions are made by the same network with the
/// source's affine vector, in the same norm mode, as published.
#[derive(Debug)]
pub struct Asr {
    config: AsrConfig,
    minimizer: Minimizer,
    penalty: Penalty,
    /// `None` before the first step.
    threshold: Option<f64>,
    saved: Vec<f32>,
}

impl Asr {
    /// An adapter with these settings.
    pub fn new(config: AsrConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            minimizer: Minimizer::new(&config.step.clone().settings()),
            config,
            penalty: Penalty::default(),
            threshold: None,
            saved: Vec::new(),
        })
    }

    /// Share of the last predictions that differ from the source model's. The network keeps its parameters, whether the
    /// pass succeeds or not.
    fn flip_rate(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<f64, AdaptError> {
        self.saved.clear();
        self.saved.extend_from_slice(net.affine());
        net.reset_affine();
        let source = net.forward(batch).map(|logits| logits.argmax());
        net.affine_mut().copy_from_slice(&self.saved);
        let adapted = self.minimizer.logits().argmax();
        let flips = adapted.iter().zip(&source?).filter(|(a, b)| a != b).count();
        Ok(flips as f64 / adapted.len() as f64)
    }

    /// Keeps the first `share` of the parameters and restores the others.
    fn restore(&mut self, net: &mut dyn Executor, share: f64) {
        self.saved.clear();
        self.saved.extend_from_slice(net.affine());
        self.minimizer.reset(net);
        self.minimizer.forget_average();
        let names = 2 * net.affine_table().entries().len();
        // In whole scales and shifts, as the published code counts parameters.
        let keeps = |&(place, _): &(usize, _)| (place as f64) < share * names as f64;
        let ranges: Vec<_> = net.affine_table().names().map(|(_, range)| range).collect();
        for (_, range) in ranges.into_iter().enumerate().filter(keeps) {
            net.affine_mut()[range.clone()].copy_from_slice(&self.saved[range]);
        }
    }
}

impl Adapter for Asr {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        let loss = self.config.step.loss(net.num_classes());
        let run = self.minimizer.run_on(net, loss, None)?;
        let result = run.step_on_host(net, batch, |affine, gradient| {
            self.penalty.see(affine, gradient);
            self.penalty.add_gradient(affine, gradient);
        })?;
        if result.used == 0 {
            // A step without a loss has a gradient of zeros, as in the published code.
            self.penalty.see(net.affine(), &vec![0.0; net.affine().len()]);
        }
        let flip_rate = self.flip_rate(net, batch)?;
        let entropy = entropy_of_mean_logits(self.minimizer.logits());
        let start = (self.config.start_share * net.num_classes() as f64).ln();
        let threshold = *self.threshold.get_or_insert(start);
        self.penalty.strength = self.config.penalty * flip_rate * flip_rate;
        let reset = entropy < threshold;
        if reset {
            self.penalty.learn();
            let share = self.config.kept_share - self.config.kept_slope * (threshold - entropy);
            self.restore(net, share.max(0.0));
            self.threshold = Some(start);
        } else {
            let rate = self.config.threshold_rate;
            let keep = rate * flip_rate + 1.0 - rate;
            self.threshold = Some(keep * threshold + (1.0 - keep) * entropy);
        }
        Ok(StepOutput { reset, ..StepOutput::new(self.minimizer.logits(), result) })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.minimizer.reset(net);
        self.minimizer.forget_average();
        self.penalty = Penalty::default();
        self.threshold = None;
        Ok(())
    }
}

impl Method for AsrConfig {
    fn name(&self) -> &'static str {
        "asr"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        Some(self.step.settings())
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Asr::new(self.clone())?))
    }
}

/// The entropy of the softmax of the mean row, in nats.
fn entropy_of_mean_logits(logits: Logits) -> f64 {
    let mut mean = vec![0.0f64; logits.classes()];
    for row in logits.rows() {
        for (sum, &z) in mean.iter_mut().zip(row) {
            *sum += f64::from(z) / logits.images() as f64;
        }
    }
    let mean: Vec<f32> = mean.into_iter().map(|z| z as f32).collect();
    log_softmax_entropy(&mean, &mut Vec::new())
}

#[cfg(test)]
mod tests;
