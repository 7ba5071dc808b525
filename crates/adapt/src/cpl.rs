use crate::adapter::Kept;
use crate::on_device::{Ask, OnDevice};
use crate::predictions::Predictions;
use crate::{AdaptError, Adapter, Optimiser, OptimiserConfig, ParamRule, SgdConfig, StepOutput};
use flipcast_exec::{Executor, NormMode, StepLoss, StepResult};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Cpl`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CplConfig {
    /// What moves the scales and shifts.
    pub optimiser: OptimiserConfig,
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
            optimiser: OptimiserConfig::sgd(1e-3),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            epsilon: 8.0,
        }
    }

    /// As published for CIFAR: SGD 1e-3 with Nesterov momentum 0.9, epsilon 6, batches of 200.
    pub fn cifar() -> Self {
        Self {
            optimiser: OptimiserConfig::Sgd(SgdConfig { lr: 1e-3, momentum: 0.9, nesterov: true }),
            norm_mode: NormMode::Batch,
            param_rule: ParamRule::AllNorm,
            epsilon: 6.0,
        }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let ok = (0.0..=1e3).contains(&self.epsilon);
        AdaptError::unless(ok, "epsilon", self.epsilon, "a number from 0 to 1000")?;
        self.optimiser.check()
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
#[derive(Debug)]
pub struct Cpl {
    config: CplConfig,
    optimiser: Optimiser,
    on_device: OnDevice,
    kept: Kept,
    predictions: Predictions,
    terms: Vec<Term>,
    logit_gradient: Vec<f32>,
    gradient: Vec<f32>,
}

/// What the gradient needs to know of one class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// The probability.
    s: f64,
    /// The pseudo-label.
    y: f64,
    /// What the label is multiplied with in the loss.
    u: f64,
    /// The derivative of `y.u` by `s` with `u` held.
    g: f64,
}

impl Cpl {
    /// An adapter with these settings.
    pub fn new(config: CplConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self {
            optimiser: Optimiser::new(config.optimiser),
            config,
            on_device: OnDevice::default(),
            kept: Kept::default(),
            predictions: Predictions::default(),
            terms: Vec::new(),
            logit_gradient: Vec::new(),
            gradient: Vec::new(),
        })
    }

    fn step_on_host(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepResult, AdaptError> {
        self.kept.keep(net.forward(batch)?);
        self.predictions.see(self.kept.logits());
        let epsilon = self.config.epsilon;
        conjugate_loss(&self.predictions, epsilon, &mut self.terms, &mut self.logit_gradient);
        self.gradient.clear();
        self.gradient.extend_from_slice(net.backward(&self.logit_gradient)?);
        self.config.param_rule.mask(net, &mut self.gradient);
        self.optimiser.step(net.affine_mut(), &self.gradient);
        Ok(StepResult { mean_entropy: self.predictions.mean_entropy(), reliable: batch.images(), used: batch.images() })
    }
}

impl Adapter for Cpl {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        self.config.param_rule.check(net)?;
        net.set_norm_mode(self.config.norm_mode)?;
        let ask = Ask {
            loss: StepLoss::Conjugate { epsilon: self.config.epsilon },
            optimiser: self.config.optimiser,
            param_rule: &self.config.param_rule,
            pull: None,
        };
        let result = match self.on_device.step(net, batch, &mut self.kept, ask)? {
            Some(result) => result,
            None => self.step_on_host(net, batch)?,
        };
        Ok(StepOutput::new(self.kept.logits(), result))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        net.reset_affine();
        self.optimiser.reset();
        self.on_device.forget_optimiser();
        Ok(())
    }

    fn norm_mode(&self) -> NormMode {
        self.config.norm_mode
    }
}

/// The mean conjugate loss of a batch; `gradient` receives its gradient, `terms` is overwritten.
pub(crate) fn conjugate_loss(
    predictions: &Predictions,
    epsilon: f64,
    terms: &mut Vec<Term>,
    gradient: &mut Vec<f32>,
) -> f64 {
    let images = predictions.images() as f64;
    let mut loss = 0.0;
    gradient.clear();
    for image in 0..predictions.images() {
        let probs = predictions.probs(image).iter();
        let total: f64 = probs.clone().map(|s| s / (1.0 + epsilon * s)).sum();
        terms.clear();
        terms.extend(probs.zip(predictions.log_probs(image)).map(|(&s, log_s)| Term {
            s,
            y: s / (1.0 + epsilon * s) / total,
            u: log_s - epsilon * (1.0 - s),
            g: 0.0,
        }));
        let y_u: f64 = terms.iter().map(|t| t.y * t.u).sum();
        loss -= y_u / images;
        for t in terms.iter_mut() {
            t.g = (t.u - y_u) / ((1.0 + epsilon * t.s).powi(2) * total);
        }
        let y_s: f64 = terms.iter().map(|t| t.y * t.s).sum();
        let g_s: f64 = terms.iter().map(|t| t.g * t.s).sum();
        gradient.extend(terms.iter().map(|t| {
            let through_label = t.s * (t.g - g_s);
            ((t.s - t.y - epsilon * t.s * (t.y - y_s) - through_label) / images) as f32
        }));
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_gradient::{CLASSES, LOGITS, assert_gradient};
    use crate::mean_entropy_gradient;
    use flipcast_exec::Logits;

    #[test]
    fn the_gradient_equals_differences_of_the_loss() {
        for epsilon in [0.0, 1.0, 6.0, 8.0] {
            assert_gradient(|predictions, gradient| conjugate_loss(predictions, epsilon, &mut Vec::new(), gradient));
        }
    }

    /// The published definition: `(I + eps diag(s) - eps s s^T) y = s`.
    #[test]
    fn the_label_solves_the_published_system() {
        let (epsilon, mut terms) = (8.0, Vec::new());
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(&LOGITS[..CLASSES], CLASSES));
        conjugate_loss(&predictions, epsilon, &mut terms, &mut Vec::new());
        let s_y: f64 = terms.iter().map(|t| t.s * t.y).sum();
        for t in &terms {
            let left = t.y + epsilon * t.s * t.y - epsilon * t.s * s_y;
            assert!((left - t.s).abs() < 1e-15, "{left} {}", t.s);
        }
    }

    #[test]
    fn without_epsilon_it_is_the_entropy() {
        let mut predictions = Predictions::default();
        predictions.see(Logits::new(&LOGITS, CLASSES));
        let (mut ours, mut entropys) = (Vec::new(), Vec::new());
        let loss = conjugate_loss(&predictions, 0.0, &mut Vec::new(), &mut ours);
        let entropy = mean_entropy_gradient(Logits::new(&LOGITS, CLASSES), &mut entropys);
        assert!((loss - entropy).abs() < 1e-15);
        for (a, b) in ours.iter().zip(&entropys) {
            assert!((a - b).abs() < 1e-7, "{a} {b}");
        }
    }
}
