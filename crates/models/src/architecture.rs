use crate::nearest::nearest_names;
use crate::registry::ARCHITECTURES;
use crate::{
    ConvNextConfig, EfficientNetConfig, EfficientNetLiteConfig, MaxVitConfig, MobileNetV2Config, ResNetConfig,
    SwinConfig, VitConfig, WideResNetConfig, build_convnext, build_efficientnet, build_efficientnet_lite, build_maxvit,
    build_mobilenet_v2, build_resnet, build_swin, build_vit, build_wide_resnet,
};
use flipcast_graph::{Graph, GraphError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Networks that share a builder and a naming scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Residual networks, for ImageNet and CIFAR.
    ResNet,
    /// Pre-activation wide residual networks.
    WideResNet,
    /// MobileNetV2.
    MobileNetV2,
    /// EfficientNet-Lite.
    EfficientNetLite,
    /// Vision transformers, DeiT among them.
    Vit,
    /// MaxViT.
    MaxVit,
    /// Swin Transformer.
    Swin,
    /// ConvNeXt.
    ConvNext,
    /// EfficientNet.
    EfficientNet,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResNet => "ResNet",
            Self::WideResNet => "WideResNet",
            Self::MobileNetV2 => "MobileNetV2",
            Self::EfficientNetLite => "EfficientNet-Lite",
            Self::Vit => "ViT",
            Self::MaxVit => "MaxViT",
            Self::Swin => "Swin",
            Self::ConvNext => "ConvNeXt",
            Self::EfficientNet => "EfficientNet",
        })
    }
}

/// The settings of one network of any family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArchitectureConfig {
    /// A residual network.
    #[serde(rename = "resnet")]
    ResNet(ResNetConfig),
    /// A wide residual network.
    #[serde(rename = "wide_resnet")]
    WideResNet(WideResNetConfig),
    /// MobileNetV2.
    #[serde(rename = "mobilenet_v2")]
    MobileNetV2(MobileNetV2Config),
    /// EfficientNet-Lite.
    #[serde(rename = "efficientnet_lite")]
    EfficientNetLite(EfficientNetLiteConfig),
    /// A vision transformer.
    #[serde(rename = "vit")]
    Vit(VitConfig),
    /// MaxViT.
    #[serde(rename = "maxvit")]
    MaxVit(MaxVitConfig),
    /// A Swin Transformer.
    #[serde(rename = "swin")]
    Swin(SwinConfig),
    /// ConvNeXt.
    #[serde(rename = "convnext")]
    ConvNext(ConvNextConfig),
    /// EfficientNet.
    #[serde(rename = "efficientnet")]
    EfficientNet(EfficientNetConfig),
}

impl ArchitectureConfig {
    /// The family.
    pub fn family(&self) -> Family {
        match self {
            Self::ResNet(_) => Family::ResNet,
            Self::WideResNet(_) => Family::WideResNet,
            Self::MobileNetV2(_) => Family::MobileNetV2,
            Self::EfficientNetLite(_) => Family::EfficientNetLite,
            Self::Vit(_) => Family::Vit,
            Self::MaxVit(_) => Family::MaxVit,
            Self::Swin(_) => Family::Swin,
            Self::ConvNext(_) => Family::ConvNext,
            Self::EfficientNet(_) => Family::EfficientNet,
        }
    }

    /// Outputs of the head.
    pub fn classes(&self) -> usize {
        match self {
            Self::ResNet(config) => config.classes,
            Self::WideResNet(config) => config.classes,
            Self::MobileNetV2(config) => config.classes,
            Self::EfficientNetLite(config) => config.classes,
            Self::Vit(config) => config.classes,
            Self::MaxVit(config) => config.classes,
            Self::Swin(config) => config.classes,
            Self::ConvNext(config) => config.classes,
            Self::EfficientNet(config) => config.classes,
        }
    }

    /// The same network with another head.
    pub fn with_classes(mut self, classes: usize) -> Self {
        match &mut self {
            Self::ResNet(config) => config.classes = classes,
            Self::WideResNet(config) => config.classes = classes,
            Self::MobileNetV2(config) => config.classes = classes,
            Self::EfficientNetLite(config) => config.classes = classes,
            Self::Vit(config) => config.classes = classes,
            Self::MaxVit(config) => config.classes = classes,
            Self::Swin(config) => config.classes = classes,
            Self::ConvNext(config) => config.classes = classes,
            Self::EfficientNet(config) => config.classes = classes,
        }
        self
    }

    /// The layers.
    pub fn build(&self) -> Result<Graph, GraphError> {
        match self {
            Self::ResNet(config) => build_resnet(config),
            Self::WideResNet(config) => build_wide_resnet(config),
            Self::MobileNetV2(config) => build_mobilenet_v2(config),
            Self::EfficientNetLite(config) => build_efficientnet_lite(config),
            Self::Vit(config) => build_vit(config),
            Self::MaxVit(config) => build_maxvit(config),
            Self::Swin(config) => build_swin(config),
            Self::ConvNext(config) => build_convnext(config),
            Self::EfficientNet(config) => build_efficientnet(config),
        }
    }
}

/// A network by name: its settings and the image size it is usually given.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// The registered name, or a description for settings without one.
    pub name: String,
    /// Usual height and width of the images.
    pub input_size: usize,
    /// The settings, class count included.
    pub config: ArchitectureConfig,
}

/// Why a name gives no architecture.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum ArchitectureError {
    /// The name is not in the table.
    #[error("there is no architecture `{name}`; the nearest names are {}", quoted(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// The name has the form `<architecture>.<weights>`, but is in no table.
    #[error("there are no weights `{name}`; the nearest names are {}", quoted(nearest))]
    UnknownWeights {
        /// The name asked for.
        name: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// The name has a known form, but its settings make no network.
    #[error("`{name}` cannot be built")]
    Settings {
        /// The name asked for.
        name: String,
        /// The setting at fault.
        #[source]
        source: GraphError,
    },
}

pub(crate) fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Case and the choice between `-` and `_` do not matter in names.
pub(crate) fn normalised(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// The network whose settings stand in its name.
fn spelt_out(name: &str) -> Option<Result<Architecture, GraphError>> {
    let architecture = |input_size, config| Architecture { name: name.to_owned(), input_size, config };
    if let Some(config) = ResNetConfig::from_cifar_name(name, 10) {
        return Some(config.map(|config| architecture(32, ArchitectureConfig::ResNet(config))));
    }
    let config = VitConfig::from_name(name, 1000)?;
    Some(config.map(|config| {
        let [image, _] = config.image_size;
        architecture(image, ArchitectureConfig::Vit(config))
    }))
}

impl Architecture {
    /// The architecture called `name`, with its usual number of classes. Spellings of torchvision and timm are
    /// understood, and so is every `cifar_resnet<depth>[_w<width>][_a]` and `vit_<size>_patch<side>_<image side>`.
    pub fn find(name: &str) -> Result<Self, ArchitectureError> {
        let wanted = normalised(name);
        let entry = ARCHITECTURES.iter().find(|entry| entry.name == wanted || entry.aliases.contains(&wanted.as_str()));
        if let Some(entry) = entry {
            return Ok(entry.architecture(entry.classes));
        }
        if let Some(found) = spelt_out(&wanted) {
            return found.map_err(|source| ArchitectureError::Settings { name: name.to_owned(), source });
        }
        let known = ARCHITECTURES.iter().flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases));
        Err(ArchitectureError::Unknown { name: name.to_owned(), nearest: nearest_names(&wanted, known.copied()) })
    }

    /// The same network with another head.
    pub fn with_classes(mut self, classes: usize) -> Self {
        self.config = self.config.with_classes(classes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_variants_find_the_same_network() {
        for name in ["mobilenet_v2", "MobileNetV2", "mobilenetv2_100"] {
            assert_eq!(Architecture::find(name).unwrap().name, "mobilenet_v2");
        }
        assert_eq!(Architecture::find("WRN-40-2").unwrap().name, "wrn_40_2");
    }

    #[test]
    fn an_unknown_name_lists_the_nearest() {
        let error = Architecture::find("resnet51").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no architecture `resnet51`; the nearest names are `resnet50`, `resnet18`, `resnet34`"
        );
    }

    #[test]
    fn any_cifar_width_has_a_name() {
        let found = Architecture::find("cifar_resnet26_w64").unwrap();
        let graph = found.with_classes(100).config.build().unwrap();
        assert_eq!(graph.num_classes(), 100);
        assert!(matches!(Architecture::find("cifar_resnet27"), Err(ArchitectureError::Settings { .. })));
    }

    #[test]
    fn any_patch_and_image_of_a_vision_transformer_has_a_name() {
        let found = Architecture::find("vit_small_patch8_96").unwrap();
        assert_eq!(found.input_size, 96);
        assert_eq!(Architecture::find("ViT-B-16").unwrap(), Architecture::find("deit_base_patch16_224").unwrap());
        assert!(matches!(Architecture::find("vit_small_patch8_100"), Err(ArchitectureError::Settings { .. })));
    }

    #[test]
    fn settings_round_trip_through_json() {
        for name in [
            "resnet50_gn",
            "wrn_28_10",
            "mobilenet_v2",
            "tf_efficientnet_lite1",
            "vit_base_patch16_384",
            "maxvit_t",
            "swin_s",
            "convnext_base",
            "efficientnet_b0",
        ] {
            let config = Architecture::find(name).unwrap().config;
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<ArchitectureConfig>(&text).unwrap(), config);
        }
    }
}
