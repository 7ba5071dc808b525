//! Optimizers of a flat vector, as PyTorch defines them.

use serde::{Deserialize, Serialize};

/// Stochastic gradient descent: `v <- momentum * v + g` (first step `v = g`), then `p <- p - lr * v`, or with Nesterov
/// `p <- p - lr * (g + momentum * v)`. No dampening, no weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SgdConfig {
    /// Learning rate.
    pub lr: f32,
    /// Share of the last velocity that is kept.
    pub momentum: f32,
    /// Look ahead along the velocity.
    pub nesterov: bool,
}

/// Adam (Kingma and Ba, 2015) with bias correction and no weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamConfig {
    /// Learning rate.
    pub lr: f32,
    /// Decay of the mean gradient and of its mean square.
    pub betas: [f32; 2],
    /// Added to the root of the mean square.
    pub eps: f32,
}

impl AdamConfig {
    /// The usual constants with this learning rate.
    pub fn with_lr(lr: f32) -> Self {
        Self { lr, betas: [0.9, 0.999], eps: 1e-8 }
    }
}

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{setting} is {found}, expected {expected}")]
pub struct SettingError {
    /// The setting.
    pub setting: &'static str,
    /// Its value.
    pub found: f64,
    /// The allowed range.
    pub expected: &'static str,
}

impl SettingError {
    /// An error that names the setting, unless it is `ok`.
    pub fn unless(ok: bool, setting: &'static str, found: f64, expected: &'static str) -> Result<(), Self> {
        if ok { Ok(()) } else { Err(Self { setting, found, expected }) }
    }
}

/// Which optimizer, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Stochastic gradient descent.
    Sgd(SgdConfig),
    /// Adam.
    Adam(AdamConfig),
}

impl OptimizerConfig {
    /// SGD with momentum 0.9 and no Nesterov, as the original repositories use it.
    pub fn sgd(lr: f32) -> Self {
        Self::Sgd(SgdConfig { lr, momentum: 0.9, nesterov: false })
    }

    /// Adam with the usual constants.
    pub fn adam(lr: f32) -> Self {
        Self::Adam(AdamConfig::with_lr(lr))
    }

    /// Its learning rate.
    pub fn lr(&self) -> f32 {
        match self {
            Self::Sgd(sgd) => sgd.lr,
            Self::Adam(adam) => adam.lr,
        }
    }

    /// The same with another learning rate.
    pub fn with_lr(self, lr: f32) -> Self {
        match self {
            Self::Sgd(sgd) => Self::Sgd(SgdConfig { lr, ..sgd }),
            Self::Adam(adam) => Self::Adam(AdamConfig { lr, ..adam }),
        }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), SettingError> {
        let within =
            |setting, found: f32, ok: bool, expected| SettingError::unless(ok, setting, f64::from(found), expected);
        let rate = |lr: f32| within("learning rate", lr, lr.is_finite() && lr >= 0.0, "a number of at least 0");
        match *self {
            Self::Sgd(sgd) => {
                rate(sgd.lr)?;
                let ok = (0.0..1.0).contains(&sgd.momentum);
                within("momentum", sgd.momentum, ok, "0 or more, and less than 1")?;
                let ok = !sgd.nesterov || sgd.momentum > 0.0;
                within("momentum", sgd.momentum, ok, "more than 0, since Nesterov needs it")
            }
            Self::Adam(adam) => {
                rate(adam.lr)?;
                for beta in adam.betas {
                    within("beta", beta, (0.0..1.0).contains(&beta), "0 or more, and less than 1")?;
                }
                within("eps", adam.eps, adam.eps > 0.0, "more than 0")
            }
        }
    }
}

/// What an optimizer remembers between steps; empty before the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerMemory {
    /// Velocity, or mean gradient.
    pub first: Vec<f32>,
    /// Mean square gradient, where the optimizer has one.
    pub second: Vec<f32>,
    /// Steps so far.
    pub steps: i32,
}

/// An optimizer and its memory, empty until the first step.
///
/// ```
/// use flipcast_executor::{Optimizer, OptimizerConfig};
///
/// let mut optimizer = Optimizer::new(OptimizerConfig::sgd(0.5));
/// let mut params = [1.0];
/// optimizer.step(&mut params, &[1.0]);
/// assert_eq!(params, [0.5]);
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    memory: OptimizerMemory,
}

impl Optimizer {
    /// An optimizer that has made no step.
    pub fn new(config: OptimizerConfig) -> Self {
        Self { config, memory: OptimizerMemory::default() }
    }

    /// Its settings.
    pub fn config(&self) -> &OptimizerConfig {
        &self.config
    }

    /// Forgets all memory.
    pub fn reset(&mut self) {
        self.memory = OptimizerMemory::default();
    }

    /// What it remembers.
    pub fn memory(&self) -> &OptimizerMemory {
        &self.memory
    }

    /// Goes on from what an optimizer with the same settings remembered.
    pub fn set_memory(&mut self, memory: OptimizerMemory) {
        self.memory = memory;
    }

    /// Moves `params` against `gradient`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn step(&mut self, params: &mut [f32], gradient: &[f32]) {
        assert_eq!(params.len(), gradient.len(), "one gradient per parameter");
        let OptimizerMemory { first, second, steps } = &mut self.memory;
        let opening = *steps == 0;
        *steps += 1;
        first.resize(params.len(), 0.0);
        match self.config {
            OptimizerConfig::Sgd(SgdConfig { lr, momentum, nesterov }) => {
                for ((p, &g), v) in params.iter_mut().zip(gradient).zip(first) {
                    *v = if opening { g } else { momentum * *v + g };
                    *p -= lr * if nesterov { g + momentum * *v } else { *v };
                }
            }
            OptimizerConfig::Adam(AdamConfig { lr, betas: [b1, b2], eps }) => {
                second.resize(params.len(), 0.0);
                let correct = |beta: f32| 1.0 - f64::from(beta).powi(*steps);
                let step = f64::from(lr) / correct(b1);
                let root = correct(b2).sqrt();
                let memory = first.iter_mut().zip(second);
                for ((p, &g), (m, v)) in params.iter_mut().zip(gradient).zip(memory) {
                    *m += (1.0 - b1) * (g - *m);
                    *v = b2 * *v + (1.0 - b2) * g * g;
                    let scale = f64::from(v.sqrt()) / root + f64::from(eps);
                    *p -= (step * f64::from(*m) / scale) as f32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: OptimizerConfig, gradients: &[f32]) -> f32 {
        let mut optimizer = Optimizer::new(config);
        let mut p = [1.0];
        gradients.iter().for_each(|&g| optimizer.step(&mut p, &[g]));
        p[0]
    }

    #[test]
    fn momentum_starts_with_the_first_gradient() {
        let p = run(OptimizerConfig::sgd(0.1), &[1.0, 2.0]);
        assert!((p - (1.0 - 0.1 - 0.1 * 2.9)).abs() < 1e-6, "{p}");
    }

    #[test]
    fn nesterov_looks_ahead() {
        let config = OptimizerConfig::Sgd(SgdConfig { lr: 0.1, momentum: 0.9, nesterov: true });
        let p = run(config, &[1.0, 2.0]);
        assert!((p - (1.0 - 0.1 * 1.9 - 0.1 * (2.0 + 0.9 * 2.9))).abs() < 1e-6, "{p}");
    }

    #[test]
    fn adams_first_step_is_the_learning_rate_whatever_the_gradient() {
        for g in [1e-3, 1.0, -50.0] {
            let p = run(OptimizerConfig::adam(0.01), &[g]);
            assert!((p - (1.0 - 0.01 * g.signum())).abs() < 1e-6, "{p}");
        }
    }

    #[test]
    fn a_reset_optimizer_starts_over() {
        let mut optimizer = Optimizer::new(OptimizerConfig::sgd(0.1));
        let mut p = [1.0];
        optimizer.step(&mut p, &[1.0]);
        optimizer.reset();
        let mut q = [1.0];
        optimizer.step(&mut q, &[1.0]);
        assert_eq!(p, q);
    }

    #[test]
    fn a_negative_rate_is_named_with_its_range() {
        let error = OptimizerConfig::sgd(-1.0).check().unwrap_err();
        assert_eq!(error.to_string(), "learning rate is -1, expected a number of at least 0");
    }
}
