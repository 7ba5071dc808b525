use crate::family::ArchitectureConfig;
use crate::registry::ARCHITECTURES;
use crate::{ResNetConfig, VitConfig};
use flipcast_graph::GraphError;
use flipcast_ground::{Hint, nearest_quoted};

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
pub enum ArchitectureError {
    /// The name is not in the table.
    #[error("there is no architecture `{name}`; the nearest names are {nearest}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The most similar names in backticks.
        nearest: String,
    },
    /// The name has the form `<architecture>.<weights>`, but is in no table.
    #[error("there are no weights `{name}`; the nearest names are {nearest}")]
    UnknownWeights {
        /// The name asked for.
        name: String,
        /// The most similar names in backticks.
        nearest: String,
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

impl Hint for ArchitectureError {
    fn hint(&self) -> Option<String> {
        Some("`flipcast models` lists every known name".into())
    }
}

/// Case and the choice between `-` and `_` do not matter in names.
pub(crate) fn normalised(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// The network whose settings stand in its name.
fn spelled_out(name: &str) -> Option<Result<Architecture, GraphError>> {
    if let Some(config) = ResNetConfig::from_cifar_name(name, 10) {
        return Some(config.map(|config| Architecture::new(name, 32, config)));
    }
    let config = VitConfig::from_name(name, 1000)?;
    Some(config.map(|config| Architecture::new(name, config.image_size[0], config)))
}

impl Architecture {
    pub(crate) fn new(name: impl Into<String>, input_size: usize, config: impl Into<ArchitectureConfig>) -> Self {
        Self { name: name.into(), input_size, config: config.into() }
    }

    /// The architecture called `name`, with its usual number of classes. Spellings of torchvision and timm are
    /// understood, and so is every `cifar_resnet<depth>[_w<width>][_a]` and `vit_<size>_patch<side>_<image side>`.
    ///
    /// ```
    /// use flipcast_models::Architecture;
    ///
    /// let found = Architecture::find("ViT-B-16")?.with_classes(10);
    /// assert_eq!((found.name.as_str(), found.input_size), ("vit_b_16", 224));
    /// assert!(Architecture::find("resnet51").unwrap_err().to_string().contains("`resnet50`"));
    /// # Ok::<(), flipcast_models::ArchitectureError>(())
    /// ```
    pub fn find(name: &str) -> Result<Self, ArchitectureError> {
        let wanted = normalised(name);
        let entry = ARCHITECTURES.iter().find(|entry| entry.name == wanted || entry.aliases.contains(&wanted.as_str()));
        if let Some(entry) = entry {
            return Ok(entry.architecture(entry.classes));
        }
        if let Some(found) = spelled_out(&wanted) {
            return found.map_err(|source| ArchitectureError::Settings { name: name.to_owned(), source });
        }
        let known = ARCHITECTURES.iter().flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases));
        Err(ArchitectureError::Unknown { name: name.to_owned(), nearest: nearest_quoted(&wanted, known.copied()) })
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
