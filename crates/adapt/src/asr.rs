use crate::adapter::Kept;
use crate::entropy::log_softmax;
use crate::eta::EtaCore;
use crate::{
    AdaptError, Adapter, EtaConfig, Optimiser, OptimiserConfig, SgdConfig, StepOutput, TentConfig,
    mean_entropy_gradient,
};
use flipcast_exec::{Executor, Logits, NormMode};
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
            optimiser: OptimiserConfig::Sgd(SgdConfig { lr: 2.5e-4, momentum: 0.9, nesterov: true }),
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

    /// The optimiser of the method that is reset.
    pub fn optimiser(&self) -> &OptimiserConfig {
        match &self.step {
            AsrStep::Eta(config) => &config.optimiser,
            AsrStep::Tent(config) => &config.optimiser,
        }
    }

    /// The statistics batch norms use in its forward passes.
    pub fn norm_mode(&self) -> NormMode {
        match &self.step {
            AsrStep::Eta(config) => config.norm_mode,
            AsrStep::Tent(config) => config.norm_mode,
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
/// restored, the optimiser and the threshold start anew; else `c <- m c + (1 - m) h` with `m = 1 - m0 + m0 r`. Between
/// resets the method's loss is joined by `p0 r^2 sum_j F_j (theta_j - mu_j)^2`, `r` being that of the batch before: `F` and `mu` are the mean square
/// gradient and mean parameter between two resets, averaged over resets with 0.9 of the old.
/// *Reference.* Lim, Hwang and Lee, "When and Where to Reset Matters for Long-Term Test-Time Adaptation", ICLR 2026.
/// *Departures from the reference.* Around ETA or Tent; the published variant around ROID is not offered. `reset` restores the
/// source and forgets the threshold and the penalty too. The source model's predictions are made by the same network with the
/// source's affine vector, in the same norm mode, as published.
#[derive(Debug)]
pub struct Asr {
    config: AsrConfig,
    core: Core,
    penalty: Penalty,
    /// `None` before the first step.
    threshold: Option<f64>,
    saved: Vec<f32>,
}

/// The method between resets.
#[derive(Debug)]
enum Core {
    Eta(Box<EtaCore>),
    Tent {
        config: TentConfig,
        optimiser: Box<Optimiser>,
        kept: Kept,
        mean_entropy: f64,
        logit_gradient: Vec<f32>,
        gradient: Vec<f32>,
    },
}

impl Asr {
    /// An adapter with these settings.
    pub fn new(config: AsrConfig) -> Result<Self, AdaptError> {
        config.check()?;
        let core = match config.step.clone() {
            AsrStep::Eta(config) => Core::Eta(Box::new(EtaCore::new(config)?)),
            AsrStep::Tent(config) => Core::Tent {
                optimiser: Box::new(Optimiser::new(config.optimiser)),
                config,
                kept: Kept::default(),
                mean_entropy: 0.0,
                logit_gradient: Vec::new(),
                gradient: Vec::new(),
            },
        };
        Ok(Self { config, core, penalty: Penalty::default(), threshold: None, saved: Vec::new() })
    }

    /// Share of the last predictions that differ from the source model's. The network keeps its parameters, whether the
    /// pass succeeds or not.
    fn flip_rate(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<f64, AdaptError> {
        self.saved.clear();
        self.saved.extend_from_slice(net.affine());
        net.reset_affine();
        let source = net.forward(batch).map(|logits| logits.argmax());
        net.affine_mut().copy_from_slice(&self.saved);
        let adapted = self.core.output().logits.argmax();
        let flips = adapted.iter().zip(&source?).filter(|(a, b)| a != b).count();
        Ok(flips as f64 / adapted.len() as f64)
    }

    /// Keeps the first `share` of the parameters and restores the others.
    fn restore(&mut self, net: &mut dyn Executor, share: f64) {
        self.saved.clear();
        self.saved.extend_from_slice(net.affine());
        self.core.reset(net);
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
        let penalty = &mut self.penalty;
        self.core.step(net, batch, |affine, gradient| {
            penalty.see(affine, gradient);
            penalty.add_gradient(affine, gradient);
        })?;
        let flip_rate = self.flip_rate(net, batch)?;
        let entropy = entropy_of_mean_logits(self.core.output().logits);
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
        Ok(StepOutput { reset, ..self.core.output() })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.core.reset(net);
        self.penalty = Penalty::default();
        self.threshold = None;
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.config.norm_mode()
    }
}

impl Core {
    /// One step. `penalise` sees the affine vector and the loss's gradient, which it may add to; where no image is used, a
    /// gradient of zeros that leads to no update.
    fn step(
        &mut self,
        net: &mut dyn Executor,
        batch: &Batch,
        mut penalise: impl FnMut(&[f32], &mut [f32]),
    ) -> Result<(), AdaptError> {
        match self {
            Self::Eta(core) => {
                let mut seen = false;
                core.step(net, batch, |net, gradient| {
                    seen = true;
                    penalise(net.affine(), gradient);
                })?;
                if !seen {
                    penalise(net.affine(), &mut vec![0.0; net.affine().len()]);
                }
            }
            Self::Tent { config, optimiser, kept, mean_entropy, logit_gradient, gradient } => {
                config.param_rule.check(net)?;
                net.set_norm_mode(config.norm_mode)?;
                kept.keep(net.forward(batch)?);
                *mean_entropy = mean_entropy_gradient(kept.logits(), logit_gradient);
                gradient.clear();
                gradient.extend_from_slice(net.backward(logit_gradient)?);
                penalise(net.affine(), gradient);
                config.param_rule.mask(net, gradient);
                optimiser.step(net.affine_mut(), gradient);
            }
        }
        Ok(())
    }

    fn output(&self) -> StepOutput<'_> {
        match self {
            Self::Eta(core) => core.output(),
            Self::Tent { kept, mean_entropy, .. } => StepOutput {
                logits: kept.logits(),
                mean_entropy: *mean_entropy,
                reliable: kept.logits().images(),
                used: kept.logits().images(),
                reset: false,
            },
        }
    }

    fn reset(&mut self, net: &mut dyn Executor) {
        match self {
            Self::Eta(core) => {
                core.reset(net);
                core.forget_average();
            }
            Self::Tent { optimiser, .. } => {
                net.reset_affine();
                optimiser.reset();
            }
        }
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
    log_softmax(&mean, &mut Vec::new())
}

#[cfg(test)]
mod tests;
