use crate::architecture::normalised;
use crate::{Architecture, ArchitectureError};
use flipcast_ground::nearest_quoted;
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess};

/// Published weights by name, `<architecture>.<weights>`; the part after the dot fixes preprocessing and class count.
#[derive(Clone, Copy, Debug)]
pub struct WeightTag {
    /// The full name.
    pub name: &'static str,
    /// The architecture, as [`Architecture::find`] knows it.
    pub architecture: &'static str,
    /// Number of classes.
    pub classes: usize,
    /// The preprocessing the weights were evaluated with.
    pub preprocess: fn() -> Preprocess,
}

/// Every known set of weights. `tv`, `tv2` and `swag` are torchvision's, `cifar10`, `cifar100` and
/// `tiny_in200` this project's own, `standard` and `augmix` RobustBench's; the others carry timm's names.
#[rustfmt::skip]
pub const WEIGHT_TAGS: &[WeightTag] = &[
    tag("resnet18.tv_in1k", "resnet18", 1000, Preprocess::torchvision_v1),
    tag("resnet34.tv_in1k", "resnet34", 1000, Preprocess::torchvision_v1),
    tag("resnet50.tv_in1k", "resnet50", 1000, Preprocess::torchvision_v1),
    tag("resnet101.tv_in1k", "resnet101", 1000, Preprocess::torchvision_v1),
    tag("resnet152.tv_in1k", "resnet152", 1000, Preprocess::torchvision_v1),
    tag("resnext50_32x4d.tv_in1k", "resnext50_32x4d", 1000, Preprocess::torchvision_v1),
    tag("resnext101_32x8d.tv_in1k", "resnext101_32x8d", 1000, Preprocess::torchvision_v1),
    // Published late: torchvision's first weights of this network already use the second preprocessing.
    tag("resnext101_64x4d.tv_in1k", "resnext101_64x4d", 1000, Preprocess::torchvision_v2),
    tag("wide_resnet50_2.tv_in1k", "wide_resnet50_2", 1000, Preprocess::torchvision_v1),
    tag("mobilenet_v2.tv_in1k", "mobilenet_v2", 1000, Preprocess::torchvision_v1),
    tag("resnet50.tv2_in1k", "resnet50", 1000, Preprocess::torchvision_v2),
    tag("resnet101.tv2_in1k", "resnet101", 1000, Preprocess::torchvision_v2),
    tag("resnet152.tv2_in1k", "resnet152", 1000, Preprocess::torchvision_v2),
    tag("resnext50_32x4d.tv2_in1k", "resnext50_32x4d", 1000, Preprocess::torchvision_v2),
    tag("resnext101_32x8d.tv2_in1k", "resnext101_32x8d", 1000, Preprocess::torchvision_v2),
    tag("wide_resnet50_2.tv2_in1k", "wide_resnet50_2", 1000, Preprocess::torchvision_v2),
    tag("mobilenet_v2.tv2_in1k", "mobilenet_v2", 1000, Preprocess::torchvision_v2),
    tag("resnet50.a1_in1k", "resnet50", 1000, || timm(224, 0.95, Normalise::imagenet())),
    tag("resnet50.am_in1k", "resnet50", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("resnet50_gn.a1h_in1k", "resnet50_gn", 1000, || timm(224, 0.94, Normalise::imagenet())),
    tag("mobilenet_v2.ra_in1k", "mobilenet_v2", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("efficientnet_lite0.ra_in1k", "efficientnet_lite0", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("tf_efficientnet_lite0.in1k", "tf_efficientnet_lite0", 1000, || timm(224, 0.875, Normalise::half())),
    tag("tf_efficientnet_lite1.in1k", "tf_efficientnet_lite1", 1000, || timm(240, 0.882, Normalise::half())),
    tag("tf_efficientnet_lite2.in1k", "tf_efficientnet_lite2", 1000, || timm(260, 0.89, Normalise::half())),
    tag("efficientnet_b0.tv_in1k", "efficientnet_b0", 1000, || torchvision_bicubic(256, 224)),
    tag("efficientnet_b0.ra_in1k", "efficientnet_b0", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("efficientnet_b0.ra4_e3600_r224_in1k", "efficientnet_b0", 1000, || timm(224, 0.9, Normalise::half())),
    tag("tf_efficientnet_b0.in1k", "tf_efficientnet_b0", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("tf_efficientnet_b0.aa_in1k", "tf_efficientnet_b0", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("tf_efficientnet_b0.ap_in1k", "tf_efficientnet_b0", 1000, || timm(224, 0.875, Normalise::half())),
    tag("tf_efficientnet_b0.ns_jft_in1k", "tf_efficientnet_b0", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("vit_b_16.tv_in1k", "vit_b_16", 1000, Preprocess::torchvision_v1),
    tag("vit_b_32.tv_in1k", "vit_b_32", 1000, Preprocess::torchvision_v1),
    tag("vit_l_16.tv_in1k", "vit_l_16", 1000, || Preprocess::torchvision(242, 224)),
    tag("vit_l_32.tv_in1k", "vit_l_32", 1000, Preprocess::torchvision_v1),
    tag("vit_b_16.swag_linear_in1k", "vit_b_16", 1000, || torchvision_bicubic(224, 224)),
    tag("vit_l_16.swag_linear_in1k", "vit_l_16", 1000, || torchvision_bicubic(224, 224)),
    // timm's own vision transformers want pixels from -1 to 1, DeiT's ImageNet's statistics.
    tag("vit_tiny_patch16_224.augreg_in21k_ft_in1k", "vit_tiny_patch16_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_small_patch16_224.augreg_in1k", "vit_small_patch16_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_small_patch16_224.augreg_in21k_ft_in1k", "vit_small_patch16_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_small_patch32_224.augreg_in21k_ft_in1k", "vit_small_patch32_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_base_patch8_224.augreg_in21k_ft_in1k", "vit_base_patch8_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_base_patch8_224.augreg2_in21k_ft_in1k", "vit_base_patch8_224", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_16.augreg_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_16.augreg_in21k_ft_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_16.augreg2_in21k_ft_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_16.orig_in21k_ft_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_16.sam_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_32.augreg_in1k", "vit_b_32", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_32.augreg_in21k_ft_in1k", "vit_b_32", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_b_32.sam_in1k", "vit_b_32", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_l_16.augreg_in21k_ft_in1k", "vit_l_16", 1000, || timm(224, 0.9, Normalise::half())),
    tag("vit_tiny_patch16_224.fb_in1k", "vit_tiny_patch16_224", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("vit_small_patch16_224.fb_in1k", "vit_small_patch16_224", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("vit_b_16.fb_in1k", "vit_b_16", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("deit_base_patch16_384.fb_in1k", "deit_base_patch16_384", 1000, || timm(384, 1.0, Normalise::imagenet())),
    tag("deit3_small_patch16_224.fb_in1k", "deit3_small_patch16_224", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("deit3_base_patch16_224.fb_in1k", "deit3_base_patch16_224", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("deit3_large_patch16_224.fb_in1k", "deit3_large_patch16_224", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("vit_base_patch16_384.augreg_in1k", "vit_base_patch16_384", 1000, || timm(384, 1.0, Normalise::half())),
    tag("vit_base_patch16_384.augreg_in21k_ft_in1k", "vit_base_patch16_384", 1000, || timm(384, 1.0, Normalise::half())),
    tag("vit_base_patch32_384.augreg_in21k_ft_in1k", "vit_base_patch32_384", 1000, || timm(384, 1.0, Normalise::half())),
    tag("vit_base_patch16_384.swag_e2e_in1k", "vit_base_patch16_384", 1000, || torchvision_bicubic(384, 384)),
    tag("vit_large_patch16_512.swag_e2e_in1k", "vit_large_patch16_512", 1000, || torchvision_bicubic(512, 512)),
    tag("maxvit_t.tv_in1k", "maxvit_t", 1000, || torchvision_bicubic(224, 224)),
    tag("maxvit_tiny_tf_224.in1k", "maxvit_tiny_tf_224", 1000, || timm(224, 0.95, Normalise::imagenet())),
    tag("swin_t.tv_in1k", "swin_t", 1000, || torchvision_bicubic(232, 224)),
    tag("swin_s.tv_in1k", "swin_s", 1000, || torchvision_bicubic(246, 224)),
    tag("swin_b.tv_in1k", "swin_b", 1000, || torchvision_bicubic(238, 224)),
    tag("swin_t.ms_in1k", "swin_t", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("swin_s.ms_in1k", "swin_s", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("swin_b.ms_in1k", "swin_b", 1000, || timm(224, 0.9, Normalise::imagenet())),
    tag("convnext_tiny.tv_in1k", "convnext_tiny", 1000, || Preprocess::torchvision(236, 224)),
    tag("convnext_small.tv_in1k", "convnext_small", 1000, || Preprocess::torchvision(230, 224)),
    tag("convnext_base.tv_in1k", "convnext_base", 1000, || Preprocess::torchvision(232, 224)),
    tag("convnext_tiny.fb_in1k", "convnext_tiny", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("convnext_small.fb_in1k", "convnext_small", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("convnext_base.fb_in1k", "convnext_base", 1000, || timm(224, 0.875, Normalise::imagenet())),
    tag("vit_tiny_p8.tiny_in200", "vit_tiny_p8", 200, || Preprocess::normalise_only(Normalise::imagenet())),
    tag("resnet18.tiny_in200", "resnet18", 200, Preprocess::tiny_imagenet_128),
    tag("resnet50.tiny_in200", "resnet50", 200, Preprocess::tiny_imagenet_128),
    tag("resnet20.cifar10", "cifar_resnet20", 10, || Preprocess::normalise_only(Normalise::cifar10())),
    tag("resnet26.cifar100", "cifar_resnet26_w32", 100, || Preprocess::normalise_only(Normalise::cifar100())),
    tag("wrn_28_10.standard_cifar10", "wrn_28_10", 10, || Preprocess::normalise_only(UNIT_RANGE)),
    tag("wrn_40_2.augmix_cifar10", "wrn_40_2", 10, || Preprocess::normalise_only(Normalise::half())),
    tag("wrn_40_2.augmix_cifar100", "wrn_40_2", 100, || Preprocess::normalise_only(Normalise::half())),
];

/// Pixels as 0 to 1, as RobustBench hands them to networks that do not normalise.
const UNIT_RANGE: Normalise = Normalise::Bytes { offset: 0.0, divisor: 255.0 };

const fn tag(
    name: &'static str,
    architecture: &'static str,
    classes: usize,
    preprocess: fn() -> Preprocess,
) -> WeightTag {
    WeightTag { name, architecture, classes, preprocess }
}

/// torchvision's rule with the filter of its newer networks.
fn torchvision_bicubic(resize: usize, crop: usize) -> Preprocess {
    Preprocess { interpolation: Interpolation::Bicubic, ..Preprocess::torchvision(resize, crop) }
}

fn timm(input: usize, crop_pct: f64, normalise: Normalise) -> Preprocess {
    Preprocess::timm(input, crop_pct, Interpolation::Bicubic, normalise)
        .expect("published fractions lie between 0 and 1")
}

impl WeightTag {
    /// The weights called `name`; the architecture before the dot may have any spelling that is understood.
    pub fn find(name: &str) -> Result<&'static Self, ArchitectureError> {
        let mut wanted = normalised(name);
        if let Some((architecture, weights)) = wanted.split_once('.')
            && let Ok(architecture) = Architecture::find(architecture)
        {
            wanted = format!("{}.{weights}", architecture.name);
        }
        let found = WEIGHT_TAGS.iter().find(|tag| tag.name == wanted);
        found.ok_or_else(|| ArchitectureError::UnknownWeights {
            name: name.to_owned(),
            nearest: nearest_quoted(&wanted, WEIGHT_TAGS.iter().map(|tag| tag.name)),
        })
    }

    /// The architecture with these weights' class count.
    pub fn architecture(&self) -> Architecture {
        Architecture::find(self.architecture)
            .expect("a test finds every architecture of the table")
            .with_classes(self.classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::preprocess::{Resize, Size};

    #[test]
    fn every_tag_names_an_architecture_and_a_sound_preprocessing() {
        for tag in WEIGHT_TAGS {
            let graph = tag.architecture().config.build().unwrap();
            assert_eq!(graph.num_classes(), tag.classes, "{}", tag.name);
            (tag.preprocess)().check().unwrap();
            assert_eq!(WeightTag::find(tag.name).unwrap().name, tag.name);
        }
    }

    #[test]
    fn the_architecture_may_be_spelt_as_in_timm() {
        let tag = WeightTag::find("mobilenetv2_100.ra_in1k").unwrap();
        assert_eq!(tag.name, "mobilenet_v2.ra_in1k");
    }

    #[test]
    fn unknown_weights_list_the_nearest() {
        let error = WeightTag::find("resnet50.tv3_in1k").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there are no weights `resnet50.tv3_in1k`; the nearest names are `resnet50.tv_in1k`, `resnet50.tv2_in1k`, `resnet18.tv_in1k`"
        );
    }

    #[test]
    fn normalisation_comes_with_the_weights_of_one_network() {
        let normalise = |name: &str| (WeightTag::find(name).unwrap().preprocess)().normalise;
        assert_eq!(normalise("vit_base_patch16_224.augreg2_in21k_ft_in1k"), Normalise::half());
        assert_eq!(normalise("vit_b_16.tv_in1k"), Normalise::imagenet());
        let deit = WeightTag::find("deit_base_patch16_224.fb_in1k").unwrap();
        assert_eq!(deit.name, "vit_b_16.fb_in1k");
        assert_eq!((deit.preprocess)().normalise, Normalise::imagenet());
    }

    #[test]
    fn group_norm_weights_resize_to_238() {
        let rule = (WeightTag::find("resnet50_gn.a1h_in1k").unwrap().preprocess)();
        assert_eq!(rule.resize, Resize::ShortSide(238));
        assert_eq!(rule.crop, Some(Size::square(224)));
        assert_eq!(rule.interpolation, Interpolation::Bicubic);
    }
}
