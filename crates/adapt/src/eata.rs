use crate::method::{Method, Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimizer};
use crate::{AdaptError, Adapter, EtaConfig, StepOutput, Target};
use flipcast_executor::Executor;
use flipcast_executor::loss::Predictions;
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Settings of [`Eata`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EataConfig {
    /// The settings it shares with [`Eta`](crate::Eta).
    pub eta: EtaConfig,
    /// Weight of the penalty on leaving the source parameters.
    pub fisher_alpha: f64,
}

impl EataConfig {
    /// As published for ImageNet: ETA's settings, weight 2000, Fisher information from 2000 clean images in batches of 64.
    pub fn imagenet() -> Self {
        Self { eta: EtaConfig::imagenet(), fisher_alpha: 2000.0 }
    }

    /// As SAR's released code compares it on a ViT-B: ETA's settings there, weight 2000.
    pub fn imagenet_vit() -> Self {
        Self { eta: EtaConfig::imagenet_vit(), ..Self::imagenet() }
    }

    /// As compared on CIFAR-10: ETA's settings, weight 1.
    pub fn cifar10() -> Self {
        Self { eta: EtaConfig::cifar10(), fisher_alpha: 1.0 }
    }

    /// As compared on CIFAR-100: ETA's settings, weight 1.
    pub fn cifar100() -> Self {
        Self { eta: EtaConfig::cifar100(), fisher_alpha: 1.0 }
    }

    /// As published for the data of `recipe`, with the quirks of the released code.
    pub fn published(recipe: Recipe) -> Self {
        let fisher_alpha = match recipe {
            Recipe::ImageNet => Self::imagenet().fisher_alpha,
            Recipe::ImageNetVit => Self::imagenet_vit().fisher_alpha,
            Recipe::Cifar10 => Self::cifar10().fisher_alpha,
            Recipe::Cifar100 => Self::cifar100().fisher_alpha,
        };
        Self { eta: EtaConfig::published(recipe), fisher_alpha }
    }

    /// ETA's settings for `target` with the weight published for the nearer number of classes: 1 up to 100, 2000 above.
    pub fn for_target(target: Target) -> Self {
        let fisher_alpha = if target.num_classes <= 100 { 1.0 } else { 2000.0 };
        Self { eta: EtaConfig::for_target(target), fisher_alpha }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let ok = self.fisher_alpha >= 0.0 && self.fisher_alpha.is_finite();
        let expected = "a number of at least 0";
        AdaptError::unless(ok, "fisher alpha", self.fisher_alpha, expected)?;
        self.eta.check()
    }
}

/// EATA: ETA with a penalty on changing what mattered on clean images.
///
/// *Idea.* Parameters on which the predictions of clean images depend strongly are held near their source values, so that
/// adapting forgets little.
/// *Formula.* ETA's loss plus `alpha sum_j F_j (theta_j - theta0_j)^2`. `F_j` is the mean over clean batches of the squared gradient
/// of the batch's mean cross-entropy against its own predicted classes, at the source parameters.
/// *Reference.* Niu et al., "Efficient test-time model adaptation without forgetting", ICML 2022.
/// *Departures from the reference.* Those of [`Eta`](crate::Eta). [`Adapter::prepare`] must have seen clean batches before the first step,
/// and restores the source parameters; `reset` keeps what it measured.
#[derive(Debug)]
pub struct Eata {
    config: EataConfig,
    minimizer: Minimizer,
    /// Per parameter `2 alpha F`, the slope of the penalty; empty until prepared.
    pull: Arc<[f64]>,
}

impl Eata {
    /// An adapter with these settings.
    pub fn new(config: EataConfig) -> Result<Self, AdaptError> {
        config.check()?;
        Ok(Self { minimizer: Minimizer::new(&config.eta.clone().settings()), config, pull: Arc::default() })
    }
}

impl Adapter for Eata {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        if self.pull.len() != net.affine().len() {
            return Err(AdaptError::NotPrepared { method: "eata" });
        }
        let loss = self.config.eta.loss(net.num_classes());
        let run = self.minimizer.run_on(net, loss, Some(&self.pull))?;
        let result = net.step(run, batch)?;
        Ok(StepOutput::new(run.logits(), result))
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.minimizer.reset(net);
        if !self.config.eta.published_code {
            self.minimizer.forget_average();
        }
        Ok(())
    }

    fn prepare(&mut self, net: &mut dyn Executor, clean: &[Batch]) -> Result<(), AdaptError> {
        self.config.eta.param_rule.check(net)?;
        let batches = clean.len() as f64;
        AdaptError::unless(batches > 0.0, "number of clean batches", batches, "at least 1")?;
        net.reset_affine();
        net.set_norm_mode(self.config.eta.norm_mode)?;
        let mut predictions = Predictions::default();
        let (mut fisher, mut logit_gradient) = (vec![0.0; net.affine().len()], Vec::new());
        for batch in clean {
            predictions.see(net.forward(batch)?);
            own_label_loss(&predictions, &mut logit_gradient);
            let gradient = net.backward(&logit_gradient)?;
            for (sum, &g) in fisher.iter_mut().zip(gradient) {
                *sum += f64::from(g).powi(2) / batches;
            }
        }
        let slope = 2.0 * self.config.fisher_alpha;
        self.pull = fisher.into_iter().map(|f| slope * f).collect();
        Ok(())
    }
}

impl Method for EataConfig {
    fn name(&self) -> &'static str {
        "eata"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        self.eta.shared()
    }

    fn needs_clean(&self) -> bool {
        true
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Eata::new(self.clone())?))
    }
}

/// The mean cross-entropy of a batch against its own classes; `gradient` receives its gradient, `(p_k - [k = y]) / images`.
fn own_label_loss(predictions: &Predictions, gradient: &mut Vec<f32>) -> f64 {
    let images = predictions.images() as f64;
    let mut loss = 0.0;
    gradient.clear();
    for image in 0..predictions.images() {
        let class = predictions.class(image);
        loss -= predictions.log_probs(image)[class] / images;
        let probs = predictions.probs(image).iter().enumerate();
        gradient.extend(probs.map(|(k, p)| {
            let target = f64::from(u8::from(k == class));
            ((p - target) / images) as f32
        }));
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_network;
    use crate::{EntropyMargin, Eta, RedundancyMargin};
    use flipcast_ground::Hint;
    use flipcast_testkit::assert_gradient;

    /// Everything is kept.
    fn open() -> EtaConfig {
        EtaConfig {
            entropy_margin: EntropyMargin::Nats(5.0),
            redundancy_margin: RedundancyMargin::Off,
            ..EtaConfig::imagenet()
        }
    }

    /// The parameters after one step from an eighth above the source, and the Fisher information.
    fn step_from_above(fisher_alpha: f64) -> (Vec<f32>, Vec<f64>) {
        let (mut net, batch) = small_network();
        let eta = open();
        let mut eata = Eata::new(EataConfig { eta, fisher_alpha }).unwrap();
        eata.prepare(&mut net, std::slice::from_ref(&batch)).unwrap();
        net.affine_mut().iter_mut().for_each(|p| *p += 0.125);
        eata.step(&mut net, &batch).unwrap();
        let fisher = eata.pull.iter().map(|pull| pull / (2.0 * fisher_alpha));
        (net.affine().to_vec(), fisher.collect())
    }

    #[test]
    fn the_gradient_equals_differences_of_the_loss() {
        assert_gradient(own_label_loss);
    }

    #[test]
    fn the_penalty_pulls_back_what_mattered() {
        let (free, _) = step_from_above(0.0);
        let (held, fisher) = step_from_above(50.0);
        assert!(fisher.iter().any(|&f| f > 1e-4), "{fisher:?}");
        for ((free, held), fisher) in free.iter().zip(held).zip(fisher) {
            let expected = 2.5e-4 * 2.0 * 50.0 * fisher * 0.125;
            let found = f64::from(*free) - f64::from(held);
            assert!((found - expected).abs() < 3e-7, "{found} {expected}");
        }
    }

    #[test]
    fn without_a_penalty_it_is_eta() {
        let (mut net, batch) = small_network();
        net.affine_mut().iter_mut().for_each(|p| *p += 0.125);
        Eta::new(open()).unwrap().step(&mut net, &batch).unwrap();
        assert_eq!(net.affine(), step_from_above(0.0).0);
    }

    #[test]
    fn a_step_before_preparation_is_refused() {
        let (mut net, batch) = small_network();
        let mut eata = Eata::new(EataConfig::imagenet()).unwrap();
        let error = eata.step(&mut net, &batch).unwrap_err();
        assert!(matches!(error, AdaptError::NotPrepared { .. }) && error.hint().is_some());
        let error = eata.prepare(&mut net, &[]).unwrap_err();
        assert_eq!(error.to_string(), "number of clean batches is 0, expected at least 1");
    }
}
