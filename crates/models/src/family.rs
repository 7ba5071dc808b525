use crate::layout::Layout;
use crate::shapes::Shapes;
use crate::{Architecture, TensorInfo};
use flipcast_graph::{Graph, GraphError};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Networks that share a builder and a naming scheme, and what their weight files may look like.
#[derive(Clone, Copy)]
pub struct Family {
    pub(crate) name: &'static str,
    /// This workspace's name for a tensor that files may call otherwise.
    pub(crate) rename: fn(&str) -> Option<String>,
    /// Whether published files hold a tensor although the network never reads it.
    pub(crate) ignores: fn(&str) -> bool,
    /// How a tensor of the first extents becomes a parameter of the second, where they differ.
    pub(crate) find_layout: fn(&[usize], &[usize]) -> Option<Layout>,
    /// Reads the settings of a network that is in no table off the shapes of its tensors. What these cannot tell is
    /// taken as published, such as strides and padding.
    pub(crate) infer: fn(&Shapes<'_>) -> Option<Architecture>,
}

impl Family {
    /// Networks of no known family: names and extents are taken as they are.
    pub(crate) const CUSTOM: Self = Self::new("custom");

    /// A family whose files hold its parameters as they are and whose settings no shapes tell.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, rename: |_| None, ignores: |_| false, find_layout: |_, _| None, infer: |_| None }
    }

    /// The name this workspace uses for the tensor that files of this family call `name`: torchvision's, where it has
    /// the network. Names that are not understood stay as they are.
    pub fn canonical_name(self, name: &str) -> Cow<'_, str> {
        (self.rename)(name).map_or(Cow::Borrowed(name), Cow::Owned)
    }

    /// Whether published files hold `name` although the network never reads it.
    pub(crate) fn is_ignored(self, name: &str) -> bool {
        name.ends_with("num_batches_tracked") || (self.ignores)(name)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Makes [`ArchitectureConfig`] and everything that differs from family to family out of one table. A row is a variant
/// with its settings, the key of the settings in model cards, and the family's module with its builder; the module also
/// has a constant `FAMILY`.
macro_rules! families {
    ($($(#[$doc:meta])* $variant:ident($config:ident), $key:literal, $module:ident::$build:ident;)*) => {
        /// The settings of one network of any family.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum ArchitectureConfig {
            $($(#[$doc])* #[serde(rename = $key)] $variant(crate::$config),)*
        }

        $(impl From<crate::$config> for ArchitectureConfig {
            fn from(config: crate::$config) -> Self {
                Self::$variant(config)
            }
        })*

        impl ArchitectureConfig {
            /// The family.
            pub fn family(&self) -> Family {
                match self {
                    $(Self::$variant(_) => crate::$module::FAMILY,)*
                }
            }

            /// Outputs of the head.
            pub fn classes(&self) -> usize {
                match self {
                    $(Self::$variant(config) => config.classes,)*
                }
            }

            /// The same network with another head.
            pub fn with_classes(mut self, classes: usize) -> Self {
                match &mut self {
                    $(Self::$variant(config) => config.classes = classes,)*
                }
                self
            }

            /// The layers.
            pub fn build(&self) -> Result<Graph, GraphError> {
                match self {
                    $(Self::$variant(config) => crate::$module::$build(config),)*
                }
            }
        }

        const FAMILIES: &[Family] = &[$(crate::$module::FAMILY,)*];
    };
}

families! {
    /// A residual network, for ImageNet or CIFAR.
    ResNet(ResNetConfig), "resnet", resnet::build_resnet;
    /// A pre-activation wide residual network.
    WideResNet(WideResNetConfig), "wide_resnet", wide_resnet::build_wide_resnet;
    /// MobileNetV2.
    MobileNetV2(MobileNetV2Config), "mobilenet_v2", mobilenet_v2::build_mobilenet_v2;
    /// EfficientNet-Lite.
    EfficientNetLite(EfficientNetLiteConfig), "efficientnet_lite", efficientnet_lite::build_efficientnet_lite;
    /// A vision transformer, DeiT among them.
    Vit(VitConfig), "vit", vit::build_vit;
    /// MaxViT.
    MaxVit(MaxVitConfig), "maxvit", maxvit::build_maxvit;
    /// A Swin Transformer.
    Swin(SwinConfig), "swin", swin::build_swin;
    /// ConvNeXt.
    ConvNext(ConvNextConfig), "convnext", convnext::build_convnext;
    /// EfficientNet.
    EfficientNet(EfficientNetConfig), "efficientnet", efficientnet::build_efficientnet;
}

/// The network of any family whose settings the shapes of `tensors` tell.
pub(crate) fn infer_architecture(tensors: &[TensorInfo]) -> Option<Architecture> {
    FAMILIES.iter().find_map(|&family| {
        let found = (family.infer)(&Shapes::new(family, tensors))?;
        found.config.build().is_ok().then_some(found)
    })
}

#[cfg(test)]
pub(crate) mod tests;
