use crate::adapter::Kept;
use crate::entropy::log_softmax;
use crate::{AdaptError, Adapter, Optimiser, OptimiserConfig, ParamRule, StepOutput, entropies};
use flipcast_exec::{Executor, Logits, NormMode};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Come`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComeConfig {
    /// What moves the scales and shifts.
    pub optimiser: OptimiserConfig,
    /// Which statistics batch norms use while adapting.
    pub norm_mode: NormMode,
    /// Which norm layers adapt.
    #[serde(default, skip_serializing_if = "ParamRule::is_all")]
    pub param_rule: ParamRule,
}

impl ComeConfig {
    /// Tent's settings for ImageNet: SGD 2.5e-4, momentum 0.9, batches of 64.
    pub fn imagenet() -> Self {
        Self { optimiser: OptimiserConfig::sgd(2.5e-4), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// Tent's settings for CIFAR: Adam 1e-3, batches of 200.
    pub fn cifar() -> Self {
        Self { optimiser: OptimiserConfig::adam(1e-3), norm_mode: NormMode::Batch, param_rule: ParamRule::AllNorm }
    }

    /// Tent's settings for a ViT-B: SGD 1e-3, momentum 0.9, batches of 64.
    pub fn imagenet_vit() -> Self {
        Self { optimiser: OptimiserConfig::sgd(1e-3), ..Self::imagenet() }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        self.optimiser.check()
    }
}

/// COME: Tent with an entropy that leaves room for not knowing.
///
/// *Idea.* The softmax cannot say "none of these", so its entropy can be lowered without end. An opinion has one more outcome,
/// uncertainty, whose share depends on how large the logits are; and the step may not change how large they are.
/// *Formula.* `b_k = e^{z_k} / (sum_j e^{z_j} + K)`, `u = K / (sum_j e^{z_j} + K)`; loss `mean_i -(sum_k b_k log b_k + u log u)`. This is the
/// entropy `H` of a softmax over `z` and one more logit `ln K`, so `g_k = -b_k (log b_k + H)`. The length of `z` is held constant, so the
/// gradient is what `g` leaves across `z`: `g - z (z . g) / |z|^2`.
/// *Reference.* Zhang et al., "COME: Test-time Adaption by Conservatively Minimizing Entropy", ICLR 2025.
/// *Departures from the reference.* `K` is the network's number of classes (published code: 1000). The softmax is shifted by its
/// largest logit, so nothing overflows, and the 1e-7 added to every outcome is not needed. Logits that are all zero, which
/// have no direction, get no gradient.
#[derive(Debug)]
pub struct Come {
    config: ComeConfig,
    optimiser: Optimiser,
    kept: Kept,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

impl Come {
    /// An adapter with these settings.
    pub fn new(config: ComeConfig) -> Result<Self, AdaptError> {
        config.check()?;
        let optimiser = Optimiser::new(config.optimiser);
        Ok(Self { config, optimiser, kept: Kept::default(), logit_gradient: Vec::new(), gradient: Vec::new() })
    }
}

impl Adapter for Come {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        self.kept.keep(net.forward(batch)?);
        let logits = self.kept.logits();
        opinion_entropy_gradient(logits, &mut self.logit_gradient);
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimiser.step(net.affine_mut(), &self.gradient);
        let entropies = entropies(logits);
        Ok(StepOutput {
            logits,
            mean_entropy: entropies.iter().sum::<f64>() / entropies.len() as f64,
            reliable: batch.images(),
            used: batch.images(),
            reset: false,
        })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimiser.reset();
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.config.norm_mode
    }
}

/// The mean entropy of the opinions of a batch, as [`Come`] has it; `gradient` receives its gradient with respect to the
/// logits, their lengths held constant.
pub fn opinion_entropy_gradient(logits: Logits, gradient: &mut Vec<f32>) -> f64 {
    let images = logits.images() as f64;
    let none_of_these = (logits.classes() as f64).ln() as f32;
    let (mut outcomes, mut log_probs) = (Vec::new(), Vec::new());
    let mut total = 0.0;
    gradient.clear();
    for row in logits.rows() {
        outcomes.clear();
        outcomes.extend_from_slice(row);
        outcomes.push(none_of_these);
        let entropy = log_softmax(&outcomes, &mut log_probs);
        total += entropy;
        let pull = |log_p: &f64| -log_p.exp() * (log_p + entropy) / images;
        let (mut along, mut square) = (0.0, 0.0);
        for (&z, log_p) in row.iter().zip(&log_probs) {
            along += f64::from(z) * pull(log_p);
            square += f64::from(z).powi(2);
        }
        let share = if square > 0.0 { along / square } else { 0.0 };
        gradient.extend(
            row.iter()
                .zip(&log_probs)
                .map(|(&z, log_p)| if square > 0.0 { (pull(log_p) - share * f64::from(z)) as f32 } else { 0.0 }),
        );
    }
    total / images
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::assert_adapts;
    use crate::check_gradient::{CLASSES, LOGITS};

    /// The loss with the logits scaled to the lengths they have in `LOGITS`, as the stopped gradient has it, in `f64`.
    fn loss_at_length(logits: &[f64]) -> f64 {
        let mut total = 0.0;
        for (row, start) in logits.chunks_exact(CLASSES).zip(LOGITS.chunks_exact(CLASSES)) {
            let length = |square: f64| square.sqrt();
            let held = length(start.iter().map(|&z| f64::from(z).powi(2)).sum());
            let scale = held / length(row.iter().map(|z| z * z).sum());
            let strength = row.iter().map(|z| (z * scale).exp()).sum::<f64>() + CLASSES as f64;
            let outcomes = row.iter().map(|z| (z * scale).exp()).chain([CLASSES as f64]);
            total -= outcomes.map(|e| e / strength * (e / strength).ln()).sum::<f64>();
        }
        total / 2.0
    }

    #[test]
    fn the_gradient_equals_differences_with_lengths_held() {
        let mut gradient = Vec::new();
        let loss = opinion_entropy_gradient(Logits::new(&LOGITS, CLASSES), &mut gradient);
        let at_start = LOGITS.map(f64::from);
        // The extra logit ln K is rounded to single precision.
        assert!((loss - loss_at_length(&at_start)).abs() < 1e-7);
        for (i, &found) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = at_start;
                moved[i] += step;
                loss_at_length(&moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((f64::from(found) - expected).abs() < 2e-7, "{i}: {found} {expected}");
        }
    }

    #[test]
    fn huge_logits_do_not_overflow_and_zero_ones_have_no_gradient() {
        let mut gradient = Vec::new();
        let logits = [3000.0f32, -50.0, 2990.0, 0.0, 0.0, 0.0];
        let loss = opinion_entropy_gradient(Logits::new(&logits, 3), &mut gradient);
        assert!(loss.is_finite() && gradient.iter().all(|g| g.is_finite()));
        assert!(gradient[3..].iter().all(|g| *g == 0.0));
        // Equal shares of b, and u as much as all three of them: H = ln 2 + (ln 3) / 2.
        let zeros = opinion_entropy_gradient(Logits::new(&[0.0; 3], 3), &mut gradient);
        assert!((zeros - (2f64.ln() + 3f64.ln() / 2.0)).abs() < 1e-6, "{zeros}");
    }

    #[test]
    fn steps_lower_the_loss_reset_restores_and_runs_repeat() {
        let loss = |logits: Logits| opinion_entropy_gradient(logits, &mut Vec::new());
        assert_adapts(|| Box::new(Come::new(ComeConfig::imagenet()).unwrap()), loss);
    }
}
