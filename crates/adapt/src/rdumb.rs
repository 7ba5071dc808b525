use crate::method::{Method, Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimizer};
use crate::{AdaptError, Adapter, EtaConfig, RedundancyMargin, StepOutput, Target};
use flipcast_executor::Executor;
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};

/// Settings of [`Rdumb`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdumbConfig {
    /// The settings it shares with [`Eta`](crate::Eta); `published_code` has no meaning here.
    pub eta: EtaConfig,
    /// Steps from one return to the source to the next.
    pub reset_every: u64,
    /// The step counter before the first step.
    #[serde(default)]
    pub start: u64,
}

impl RdumbConfig {
    /// As published for ImageNet: ETA's settings, a reset every 1000 steps.
    pub fn imagenet() -> Self {
        Self { eta: EtaConfig::imagenet(), reset_every: 1000, start: 0 }
    }

    /// As compared on CIFAR-10 and CIFAR-100 alike: Adam 1e-3, margins 0.4 ln K and 0.4, a reset every 1000 steps.
    pub fn cifar() -> Self {
        Self {
            eta: EtaConfig { redundancy_margin: RedundancyMargin::Cosine(0.4), ..EtaConfig::cifar10() },
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

    /// ETA's settings for `target`, a reset every 1000 steps.
    pub fn for_target(target: Target) -> Self {
        Self { eta: EtaConfig::for_target(target), ..Self::imagenet() }
    }

    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), AdaptError> {
        let steps = self.reset_every as f64;
        AdaptError::unless(steps > 0.0, "steps between resets", steps, "at least 1")?;
        self.eta.check()
    }
}

impl Default for RdumbConfig {
    /// ETA's default settings, a reset every 1000 steps.
    fn default() -> Self {
        Self { eta: EtaConfig::default(), ..Self::imagenet() }
    }
}

/// RDumb: ETA that returns to the source at fixed intervals.
///
/// *Idea.* Every method that adapts for long enough ends below the source; starting over in time prevents it.
/// *Formula.* ETA's step; before a step whose counter is a multiple of `reset_every`, parameters, optimizer and average prediction are as
/// at the start.
/// *Reference.* Press et al., "RDumb: a simple approach that questions our progress in continual test-time adaptation", NeurIPS 2023.
/// *Departures from the reference.* The reset before the very first step, which has nothing to undo, is not made. The default redundancy
/// margin depends on the number of classes ([`RedundancyMargin`]).
#[derive(Debug)]
pub struct Rdumb {
    config: RdumbConfig,
    minimizer: Minimizer,
    counter: u64,
    is_fresh: bool,
}

impl Rdumb {
    /// An adapter with these settings.
    pub fn new(config: RdumbConfig) -> Result<Self, AdaptError> {
        config.check()?;
        let minimizer = Minimizer::new(&config.eta.clone().settings());
        Ok(Self { minimizer, counter: config.start, config, is_fresh: true })
    }

    fn restore(&mut self, net: &mut dyn Executor) {
        self.minimizer.reset(net);
        self.minimizer.forget_average();
    }
}

impl Adapter for Rdumb {
    fn step(&mut self, net: &mut dyn Executor, batch: &Batch) -> Result<StepOutput<'_>, AdaptError> {
        let reset = !self.is_fresh && self.counter.is_multiple_of(self.config.reset_every);
        if reset {
            self.restore(net);
        }
        let loss = self.config.eta.loss(net.num_classes());
        let run = self.minimizer.run_on(net, loss, None)?;
        let result = net.step(run, batch)?;
        self.counter = self.counter.wrapping_add(1);
        self.is_fresh = false;
        Ok(StepOutput { reset, ..StepOutput::new(run.logits(), result) })
    }

    fn reset(&mut self, net: &mut dyn Executor) -> Result<(), AdaptError> {
        self.restore(net);
        self.counter = self.config.start;
        self.is_fresh = true;
        Ok(())
    }
}

impl Method for RdumbConfig {
    fn name(&self) -> &'static str {
        "rdumb"
    }

    fn shared(&mut self) -> Option<SharedSettings<'_>> {
        self.eta.shared()
    }

    fn reset_every(&self) -> Option<u64> {
        Some(self.reset_every)
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        Ok(Box::new(Rdumb::new(self.clone())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntropyMargin;
    use crate::small_network::small_network;

    fn every_three(start: u64) -> Rdumb {
        Rdumb::new(RdumbConfig {
            eta: EtaConfig {
                entropy_margin: EntropyMargin::Nats(5.0),
                redundancy_margin: RedundancyMargin::Cosine(1e-3),
                published_code: true,
                ..EtaConfig::imagenet()
            },
            reset_every: 3,
            start,
        })
        .unwrap()
    }

    #[test]
    fn resets_come_before_multiples_of_the_interval_and_forget_the_average() {
        let (mut net, batch) = small_network();
        let all = batch.images();
        let mut rdumb = every_three(0);
        for round in 0..2 {
            for step in 0..7 {
                let output = rdumb.step(&mut net, &batch).unwrap();
                let at_multiple = step % 3 == 0;
                assert_eq!(output.reset, at_multiple && step > 0, "{round} {step}");
                // The first batch of a new average is kept, and then found again and again.
                assert_eq!(output.used, if at_multiple { all } else { 0 }, "{step}");
            }
            rdumb.reset(&mut net).unwrap();
            assert_eq!(net.affine(), net.source_affine());
        }
    }

    #[test]
    fn the_counter_starts_where_it_is_told() {
        let (mut net, batch) = small_network();
        let mut rdumb = every_three(2);
        let resets: Vec<bool> = (0..4).map(|_| rdumb.step(&mut net, &batch).unwrap().reset).collect();
        assert_eq!(resets, [false, true, false, false]);
    }

    #[test]
    fn an_interval_of_no_steps_is_refused() {
        let config = RdumbConfig { reset_every: 0, ..RdumbConfig::imagenet() };
        assert!(config.check().is_err());
    }
}
