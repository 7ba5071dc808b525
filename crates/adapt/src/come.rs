use crate::method::{Recipe, SharedSettings};
use crate::minimizer::{LossMethod, Minimize};
use crate::{AdaptError, Target, TentConfig};
use flipcast_executor::StepLoss;
use serde::{Deserialize, Serialize};

/// Settings of [`Come`]: Tent's, with another loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComeConfig {
    /// The settings it shares with [`Tent`](crate::Tent).
    pub tent: TentConfig,
}

impl ComeConfig {
    /// Tent's settings for the data of `recipe`.
    pub fn published(recipe: Recipe) -> Self {
        Self { tent: TentConfig::published(recipe) }
    }

    /// Tent's settings for `target`.
    pub fn for_target(target: Target) -> Self {
        Self { tent: TentConfig::for_target(target) }
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
pub type Come = Minimize<ComeConfig>;

impl LossMethod for ComeConfig {
    const NAME: &'static str = "come";

    fn check(&self) -> Result<(), AdaptError> {
        self.tent.check()
    }

    fn loss(&self, _num_classes: usize) -> StepLoss {
        StepLoss::OpinionEntropy
    }

    fn settings(&mut self) -> SharedSettings<'_> {
        self.tent.settings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::assert_adapts;
    use flipcast_executor::Logits;
    use flipcast_executor::loss::opinion_entropy_gradient;

    #[test]
    fn steps_lower_the_loss_reset_restores_and_runs_repeat() {
        let loss = |logits: Logits| opinion_entropy_gradient(logits, &mut Vec::new());
        assert_adapts(|| Box::new(Come::new(ComeConfig::published(Recipe::ImageNet)).unwrap()), loss);
    }
}
