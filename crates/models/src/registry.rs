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
    imagenet("resnet18", &[], 224, |n| resnet(ResNetConfig::imagenet_basic([2, 2, 2, 2], n))),
    imagenet("resnet34", &[], 224, |n| resnet(ResNetConfig::imagenet_basic([3, 4, 6, 3], n))),
    imagenet("resnet50", &[], 224, |n| resnet(ResNetConfig::imagenet_bottleneck([3, 4, 6, 3], n))),
    imagenet("resnet101", &[], 224, |n| resnet(ResNetConfig::imagenet_bottleneck([3, 4, 23, 3], n))),
    imagenet("resnet152", &[], 224, |n| resnet(ResNetConfig::imagenet_bottleneck([3, 8, 36, 3], n))),
    imagenet("resnext50_32x4d", &[], 224, |n| resnet(ResNetConfig::grouped([3, 4, 6, 3], 32, 4, n))),
    imagenet("resnext101_32x8d", &[], 224, |n| resnet(ResNetConfig::grouped([3, 4, 23, 3], 32, 8, n))),
    imagenet("resnext101_64x4d", &[], 224, |n| resnet(ResNetConfig::grouped([3, 4, 23, 3], 64, 4, n))),
    imagenet("wide_resnet50_2", &[], 224, |n| resnet(ResNetConfig::grouped([3, 4, 6, 3], 1, 128, n))),
    imagenet("resnet50_gn", &[], 224, |n| resnet(ResNetConfig::resnet50_gn(n))),
    imagenet("mobilenet_v2", &["mobilenetv2", "mobilenetv2_100"], 224, |n| ArchitectureConfig::MobileNetV2(MobileNetV2Config::new(n))),
    imagenet("efficientnet_lite0", &[], 224, |n| lite(EfficientNetLiteConfig::lite0(Origin::Pytorch, n))),
    imagenet("efficientnet_lite1", &[], 240, |n| lite(EfficientNetLiteConfig::lite1(Origin::Pytorch, n))),
    imagenet("efficientnet_lite2", &[], 260, |n| lite(EfficientNetLiteConfig::lite2(Origin::Pytorch, n))),
    imagenet("tf_efficientnet_lite0", &[], 224, |n| lite(EfficientNetLiteConfig::lite0(Origin::Tensorflow, n))),
    imagenet("tf_efficientnet_lite1", &[], 240, |n| lite(EfficientNetLiteConfig::lite1(Origin::Tensorflow, n))),
    imagenet("tf_efficientnet_lite2", &[], 260, |n| lite(EfficientNetLiteConfig::lite2(Origin::Tensorflow, n))),
    imagenet("efficientnet_b0", &[], 224, |n| efficientnet(EfficientNetConfig::b0(Origin::Pytorch, n))),
    imagenet("tf_efficientnet_b0", &[], 224, |n| efficientnet(EfficientNetConfig::b0(Origin::Tensorflow, n))),
    imagenet("vit_tiny_patch16_224", &["vit_ti_16", "deit_tiny_patch16_224"], 224, |n| vit(224, 16, [192, 12, 3], n)),
    imagenet("vit_small_patch16_224", &["vit_s_16", "deit_small_patch16_224"], 224, |n| vit(224, 16, [384, 12, 6], n)),
    imagenet("vit_small_patch32_224", &["vit_s_32"], 224, |n| vit(224, 32, [384, 12, 6], n)),
    imagenet("vit_base_patch8_224", &["vit_b_8"], 224, |n| vit(224, 8, [768, 12, 12], n)),
    imagenet("vit_b_16", &["vit_base_patch16_224", "deit_base_patch16_224"], 224, |n| vit(224, 16, [768, 12, 12], n)),
    imagenet("vit_b_32", &["vit_base_patch32_224"], 224, |n| vit(224, 32, [768, 12, 12], n)),
    imagenet("vit_l_16", &["vit_large_patch16_224"], 224, |n| vit(224, 16, [1024, 24, 16], n)),
    imagenet("vit_l_32", &["vit_large_patch32_224"], 224, |n| vit(224, 32, [1024, 24, 16], n)),
    tiny_imagenet("vit_tiny_p8", |n| vit(64, 8, [256, 8, 4], n)),
    imagenet("maxvit_t", &[], 224, |n| maxvit(MaxVitConfig::tiny(Origin::Pytorch, n))),
    imagenet("maxvit_tiny_tf_224", &[], 224, |n| maxvit(MaxVitConfig::tiny(Origin::Tensorflow, n))),
    imagenet("swin_t", &["swin_tiny_patch4_window7_224"], 224, |n| swin(SwinConfig::tiny(n))),
    imagenet("swin_s", &["swin_small_patch4_window7_224"], 224, |n| swin(SwinConfig::small(n))),
    imagenet("swin_b", &["swin_base_patch4_window7_224"], 224, |n| swin(SwinConfig::base(n))),
    imagenet("convnext_tiny", &["convnext_t"], 224, |n| convnext(ConvNextConfig::tiny(n))),
    imagenet("convnext_small", &["convnext_s"], 224, |n| convnext(ConvNextConfig::small(n))),
    imagenet("convnext_base", &["convnext_b"], 224, |n| convnext(ConvNextConfig::base(n))),
    cifar("cifar_resnet20", &[], |n| cifar_resnet(20, n)),
    cifar("cifar_resnet26", &[], |n| cifar_resnet(26, n)),
    cifar("cifar_resnet32", &[], |n| cifar_resnet(32, n)),
    cifar("cifar_resnet44", &[], |n| cifar_resnet(44, n)),
    cifar("cifar_resnet56", &[], |n| cifar_resnet(56, n)),
    cifar("cifar_resnet110", &[], |n| cifar_resnet(110, n)),
    cifar("wrn_40_2", &["wrn40_2", "wideresnet40_2", "wide_resnet40_2"], |n| ArchitectureConfig::WideResNet(WideResNetConfig::new(40, 2, n))),
    cifar("wrn_28_10", &["wrn28_10", "wideresnet28_10", "wide_resnet28_10"], |n| ArchitectureConfig::WideResNet(WideResNetConfig::new(28, 10, n))),
];

const fn imagenet(
    name: &'static str,
    aliases: &'static [&'static str],
    input_size: usize,
    config: fn(usize) -> ArchitectureConfig,
) -> ArchitectureEntry {
    ArchitectureEntry { name, aliases, input_size, classes: 1000, config }
}

const fn cifar(
    name: &'static str,
    aliases: &'static [&'static str],
    config: fn(usize) -> ArchitectureConfig,
) -> ArchitectureEntry {
    ArchitectureEntry { name, aliases, input_size: 32, classes: 10, config }
}

const fn tiny_imagenet(name: &'static str, config: fn(usize) -> ArchitectureConfig) -> ArchitectureEntry {
    ArchitectureEntry { name, aliases: &[], input_size: 64, classes: 200, config }
}

fn resnet(config: ResNetConfig) -> ArchitectureConfig {
    ArchitectureConfig::ResNet(config)
}

fn lite(config: EfficientNetLiteConfig) -> ArchitectureConfig {
    ArchitectureConfig::EfficientNetLite(config)
}

fn efficientnet(config: EfficientNetConfig) -> ArchitectureConfig {
    ArchitectureConfig::EfficientNet(config)
}

fn vit(image: usize, patch: usize, sizes: [usize; 3], classes: usize) -> ArchitectureConfig {
    ArchitectureConfig::Vit(VitConfig::new(image, patch, sizes, classes))
}

fn maxvit(config: MaxVitConfig) -> ArchitectureConfig {
    ArchitectureConfig::MaxVit(config)
}

fn swin(config: SwinConfig) -> ArchitectureConfig {
    ArchitectureConfig::Swin(config)
}

fn convnext(config: ConvNextConfig) -> ArchitectureConfig {
    ArchitectureConfig::ConvNext(config)
}

fn cifar_resnet(depth: usize, classes: usize) -> ArchitectureConfig {
    let config = ResNetConfig::cifar(depth, 16, Shortcut::B, 1).expect("depths in the table divide");
    resnet(ResNetConfig { classes, ..config })
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
