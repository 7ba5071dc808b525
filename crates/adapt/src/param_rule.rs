use flipcast_exec::Executor;
use serde::{Deserialize, Serialize};

/// Parts of a layer's name by which [`ParamRule::Sar`] leaves it alone: the published ones, which are timm's, and
/// torchvision's names of the same transformer blocks.
const SAR_SKIPS: [&str; 8] = [
    "layer4",
    "blocks.9",
    "blocks.10",
    "blocks.11",
    "norm.",
    "encoder_layer_9",
    "encoder_layer_10",
    "encoder_layer_11",
];

/// Names of the last norm of a transformer, in timm and in torchvision.
const SAR_LAST_NORMS: [&str; 2] = ["norm", "encoder.ln"];

/// Which norm layers a method may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParamRule {
    /// All of them.
    #[default]
    AllNorm,
    /// All but those of the last stage, as SAR has it: `layer4` of a ResNet; blocks 9 to 11 and the last norm of a ViT.
    Sar,
}

impl ParamRule {
    /// Whether the norm layer called `layer` may change.
    pub fn adapts(self, layer: &str) -> bool {
        match self {
            Self::AllNorm => true,
            Self::Sar => {
                !SAR_LAST_NORMS.contains(&layer)
                    && !SAR_SKIPS.iter().any(|skip| layer.contains(skip))
            }
        }
    }

    /// Whether `net` has a norm layer that may change.
    pub(crate) fn adapts_any(self, net: &dyn Executor) -> bool {
        let entries = net.affine_table().entries();
        entries.iter().any(|entry| self.adapts(&entry.name))
    }

    /// Makes zero what `gradient` says of the layers that may not change, so that no optimiser here moves them.
    pub(crate) fn mask(self, net: &dyn Executor, gradient: &mut [f32]) {
        for entry in net.affine_table().entries() {
            if !self.adapts(&entry.name) {
                gradient[entry.scale()].fill(0.0);
                gradient[entry.shift()].fill(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_network::small_network;

    #[test]
    fn sar_leaves_the_last_stage_alone() {
        for layer in [
            "layer4.0.bn1",
            "blocks.9.norm1",
            "blocks.11.norm2",
            "norm",
            "encoder.layers.encoder_layer_10.ln_1",
            "encoder.ln",
        ] {
            assert!(!ParamRule::Sar.adapts(layer), "{layer}");
            assert!(ParamRule::AllNorm.adapts(layer), "{layer}");
        }
        for layer in [
            "bn1",
            "layer3.5.bn2",
            "blocks.8.norm1",
            "encoder.layers.encoder_layer_1.ln_1",
        ] {
            assert!(ParamRule::Sar.adapts(layer), "{layer}");
        }
    }

    #[test]
    fn a_mask_keeps_the_gradient_of_layers_that_adapt() {
        let (net, _) = small_network();
        let mut gradient = vec![1.0; net.affine().len()];
        ParamRule::Sar.mask(&net, &mut gradient);
        assert!(ParamRule::Sar.adapts_any(&net) && gradient.iter().all(|&g| g == 1.0));
    }
}
