use crate::method::Method;
use crate::{AdaptError, Adapter, Bn};
use flipcast_executor::NormMode;
use serde::{Deserialize, Serialize};

/// Batch-norm adaptation of the first norms alone.
///
/// *Idea.* Noise, blur and light change what the first layers see; which classes a batch holds changes what the last layers see. So statistics of the batch in the first norms undo
/// part of a shift and, unlike those in all norms, do little harm where a batch holds few classes.
/// *Formula.* The first `ceil(share * n)` of `n` norms use mean and variance of the batch, the others their running statistics.
/// *Reference.* Flipcast's own; that norms differ in how far they should follow the batch was found by Lim et al., "TTN: A Domain-Shift Aware Batch Normalization in Test-Time
/// Adaptation", ICLR 2023, who learn a mixture for every channel.
/// *Departures from the reference.* Nothing is learned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BnEarlyConfig {
    /// Share of the norms, from the input on: 0 is the source model, 1 all of them.
    pub share: f32,
}

impl BnEarlyConfig {
    /// The first quarter of the norms.
    pub fn quarter() -> Self {
        Self { share: 0.25 }
    }

    /// The statistics it normalises with.
    pub fn norm_mode(&self) -> NormMode {
        NormMode::Early { share: self.share }
    }

    /// Refuses shares outside [0, 1].
    pub fn check(&self) -> Result<(), AdaptError> {
        let found = f64::from(self.share);
        AdaptError::unless((0.0..=1.0).contains(&found), "share of the norms", found, "a number from 0 to 1")
    }
}

impl Method for BnEarlyConfig {
    fn name(&self) -> &'static str {
        "bn_early"
    }

    fn norm_mode(&mut self) -> NormMode {
        BnEarlyConfig::norm_mode(self)
    }

    fn replaces_statistics(&self) -> bool {
        true
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Adapter + Send>, AdaptError> {
        self.check()?;
        Ok(Box::new(Bn::in_mode("bn_early", BnEarlyConfig::norm_mode(self))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_engine;
    use flipcast_executor::Executor;

    /// What it answers with this share of the norms, and what the network answers in `mode`.
    fn both(share: f32, mode: NormMode) -> [Vec<f32>; 2] {
        let (mut net, batch) = small_engine();
        let mut method = BnEarlyConfig { share }.build(0).unwrap();
        let early = method.step(&mut net, &batch).unwrap().logits.values().to_vec();
        net.set_norm_mode(mode).unwrap();
        [early, net.forward(&batch).unwrap().values().to_vec()]
    }

    #[test]
    fn no_norm_is_the_source_model_and_all_are_the_batchs() {
        for (share, mode) in [(0.0, NormMode::Running), (1.0, NormMode::Batch)] {
            let [early, whole] = both(share, mode);
            assert_eq!(early, whole);
        }
    }

    #[test]
    fn half_of_the_norms_are_neither() {
        for mode in [NormMode::Running, NormMode::Batch] {
            let [early, whole] = both(0.5, mode);
            assert_ne!(early, whole);
        }
    }

    #[test]
    fn a_share_above_one_is_refused() {
        assert!(BnEarlyConfig { share: 1.5 }.build(0).is_err());
        assert!(BnEarlyConfig { share: f32::NAN }.build(0).is_err());
    }
}
