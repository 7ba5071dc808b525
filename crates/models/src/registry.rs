use crate::efficientnet_lite::Origin;
use crate::{
    Architecture, ArchitectureConfig, ConvNextConfig, EfficientNetConfig, EfficientNetLiteConfig, MaxVitConfig,
    MobileNetV2Config, ResNetConfig, Shortcut, SwinConfig, VitConfig, WideResNetConfig,
};

/// One row of the table of architectures.
#[derive(Clone, Copy, Debug)]
pub struct ArchitectureEntry {
    /// The name, torchvision's where it has the network.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub aliases: &'static [&'static str],
    /// Usual height and width of the images.
    pub input_size: usize,
    /// Usual number of classes.
    pub classes: usize,
    /// The settings for a number of classes.
    pub config: fn(usize) -> ArchitectureConfig,
}

impl ArchitectureEntry {
    /// The architecture with a head for `classes`.
    pub fn architecture(&self, classes: usize) -> Architecture {
        Architecture { name: self.name.to_owned(), input_size: self.input_size, config: (self.config)(classes) }
    }
}

/// Every architecture with a name of its own; `cifar_resnet` takes further depths and widths in its name, `vit` further
/// patches and images.
#[rustfmt::skip]
pub const ARCHITECTURES: &[ArchitectureEntry] = &[
    entry("resnet18", &[], [224, 1000], |n| ResNetConfig::imagenet_basic([2, 2, 2, 2], n).into()),
    entry("resnet34", &[], [224, 1000], |n| ResNetConfig::imagenet_basic([3, 4, 6, 3], n).into()),
    entry("resnet50", &[], [224, 1000], |n| ResNetConfig::imagenet_bottleneck([3, 4, 6, 3], n).into()),
    entry("resnet101", &[], [224, 1000], |n| ResNetConfig::imagenet_bottleneck([3, 4, 23, 3], n).into()),
    entry("resnet152", &[], [224, 1000], |n| ResNetConfig::imagenet_bottleneck([3, 8, 36, 3], n).into()),
    entry("resnext50_32x4d", &[], [224, 1000], |n| ResNetConfig::grouped([3, 4, 6, 3], 32, 4, n).into()),
    entry("resnext101_32x8d", &[], [224, 1000], |n| ResNetConfig::grouped([3, 4, 23, 3], 32, 8, n).into()),
    entry("resnext101_64x4d", &[], [224, 1000], |n| ResNetConfig::grouped([3, 4, 23, 3], 64, 4, n).into()),
    entry("wide_resnet50_2", &[], [224, 1000], |n| ResNetConfig::grouped([3, 4, 6, 3], 1, 128, n).into()),
    entry("resnet50_gn", &[], [224, 1000], |n| ResNetConfig::resnet50_gn(n).into()),
    entry("mobilenet_v2", &["mobilenetv2", "mobilenetv2_100"], [224, 1000], |n| MobileNetV2Config::new(n).into()),
    entry("efficientnet_lite0", &[], [224, 1000], |n| EfficientNetLiteConfig::lite0(Origin::Pytorch, n).into()),
    entry("efficientnet_lite1", &[], [240, 1000], |n| EfficientNetLiteConfig::lite1(Origin::Pytorch, n).into()),
    entry("efficientnet_lite2", &[], [260, 1000], |n| EfficientNetLiteConfig::lite2(Origin::Pytorch, n).into()),
    entry("tf_efficientnet_lite0", &[], [224, 1000], |n| EfficientNetLiteConfig::lite0(Origin::Tensorflow, n).into()),
    entry("tf_efficientnet_lite1", &[], [240, 1000], |n| EfficientNetLiteConfig::lite1(Origin::Tensorflow, n).into()),
    entry("tf_efficientnet_lite2", &[], [260, 1000], |n| EfficientNetLiteConfig::lite2(Origin::Tensorflow, n).into()),
    entry("efficientnet_b0", &[], [224, 1000], |n| EfficientNetConfig::b0(Origin::Pytorch, n).into()),
    entry("tf_efficientnet_b0", &[], [224, 1000], |n| EfficientNetConfig::b0(Origin::Tensorflow, n).into()),
    entry("vit_tiny_patch16_224", &["vit_ti_16", "deit_tiny_patch16_224"], [224, 1000], |n| vit(224, 16, [192, 12, 3], n)),
    entry("vit_small_patch16_224", &["vit_s_16", "deit_small_patch16_224"], [224, 1000], |n| vit(224, 16, [384, 12, 6], n)),
    entry("vit_small_patch32_224", &["vit_s_32"], [224, 1000], |n| vit(224, 32, [384, 12, 6], n)),
    entry("vit_base_patch8_224", &["vit_b_8"], [224, 1000], |n| vit(224, 8, [768, 12, 12], n)),
    entry("vit_b_16", &["vit_base_patch16_224", "deit_base_patch16_224"], [224, 1000], |n| vit(224, 16, [768, 12, 12], n)),
    entry("vit_b_32", &["vit_base_patch32_224"], [224, 1000], |n| vit(224, 32, [768, 12, 12], n)),
    entry("vit_l_16", &["vit_large_patch16_224"], [224, 1000], |n| vit(224, 16, [1024, 24, 16], n)),
    entry("vit_l_32", &["vit_large_patch32_224"], [224, 1000], |n| vit(224, 32, [1024, 24, 16], n)),
    entry("vit_tiny_p8", &[], [64, 200], |n| vit(64, 8, [256, 8, 4], n)),
    entry("maxvit_t", &[], [224, 1000], |n| MaxVitConfig::tiny(Origin::Pytorch, n).into()),
    entry("maxvit_tiny_tf_224", &[], [224, 1000], |n| MaxVitConfig::tiny(Origin::Tensorflow, n).into()),
    entry("swin_t", &["swin_tiny_patch4_window7_224"], [224, 1000], |n| SwinConfig::tiny(n).into()),
    entry("swin_s", &["swin_small_patch4_window7_224"], [224, 1000], |n| SwinConfig::small(n).into()),
    entry("swin_b", &["swin_base_patch4_window7_224"], [224, 1000], |n| SwinConfig::base(n).into()),
    entry("convnext_tiny", &["convnext_t"], [224, 1000], |n| ConvNextConfig::tiny(n).into()),
    entry("convnext_small", &["convnext_s"], [224, 1000], |n| ConvNextConfig::small(n).into()),
    entry("convnext_base", &["convnext_b"], [224, 1000], |n| ConvNextConfig::base(n).into()),
    entry("cifar_resnet20", &[], [32, 10], |n| cifar_resnet(20, n)),
    entry("cifar_resnet26", &[], [32, 10], |n| cifar_resnet(26, n)),
    entry("cifar_resnet32", &[], [32, 10], |n| cifar_resnet(32, n)),
    entry("cifar_resnet44", &[], [32, 10], |n| cifar_resnet(44, n)),
    entry("cifar_resnet56", &[], [32, 10], |n| cifar_resnet(56, n)),
    entry("cifar_resnet110", &[], [32, 10], |n| cifar_resnet(110, n)),
    entry("wrn_40_2", &["wrn40_2", "wideresnet40_2", "wide_resnet40_2"], [32, 10], |n| WideResNetConfig::new(40, 2, n).into()),
    entry("wrn_28_10", &["wrn28_10", "wideresnet28_10", "wide_resnet28_10"], [32, 10], |n| WideResNetConfig::new(28, 10, n).into()),
];

const fn entry(
    name: &'static str,
    aliases: &'static [&'static str],
    [input_size, classes]: [usize; 2],
    config: fn(usize) -> ArchitectureConfig,
) -> ArchitectureEntry {
    ArchitectureEntry { name, aliases, input_size, classes, config }
}

fn vit(image: usize, patch: usize, sizes: [usize; 3], classes: usize) -> ArchitectureConfig {
    VitConfig::new(image, patch, sizes, classes).into()
}

fn cifar_resnet(depth: usize, classes: usize) -> ArchitectureConfig {
    let config = ResNetConfig::cifar(depth, 16, Shortcut::B, 1).expect("depths in the table divide");
    ResNetConfig { classes, ..config }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_and_takes_its_usual_images() {
        for entry in ARCHITECTURES {
            let graph = (entry.config)(entry.classes).build().unwrap();
            let dims = graph.infer_dims(entry.input_size, entry.input_size);
            assert!(dims.is_ok(), "{}", entry.name);
            assert_eq!(graph.num_classes(), entry.classes);
        }
    }

    #[test]
    fn no_two_entries_share_a_name() {
        let mut names: Vec<_> =
            ARCHITECTURES.iter().flat_map(|entry| std::iter::once(&entry.name).chain(entry.aliases)).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
