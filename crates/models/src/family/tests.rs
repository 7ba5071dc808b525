use super::*;
use crate::{
    Block, ClassToken, ConvNextConfig, MaxVitConfig, Origin, ResNetConfig, Shortcut, Stem, SwinConfig, TokenPool,
    VitConfig, WideResNetConfig,
};
use flipcast_tensor::{DType, Shape};

/// What a weight file of this network holds.
pub(crate) fn tensors_of(config: &ArchitectureConfig) -> Vec<TensorInfo> {
    let params = config.build().unwrap().params();
    let tensors = params.into_iter().map(|param| TensorInfo {
        name: param.name,
        dtype: DType::F32,
        shape: Shape::new(param.shape),
    });
    tensors.collect()
}

#[test]
fn residual_networks_come_back_from_shapes() {
    use Block::{Basic, Bottleneck};
    for config in [
        ResNetConfig::plain(Basic, Stem::Imagenet, &[8, 16, 32, 64], &[1, 1, 1, 1], 1000),
        ResNetConfig::plain(Bottleneck, Stem::Imagenet, &[4, 8, 16, 16], &[1, 2, 1, 1], 1000),
        ResNetConfig::plain(Basic, Stem::Cifar, &[8, 16, 32], &[2, 1, 1], 10),
        ResNetConfig::cifar(26, 32, Shortcut::B, 100).unwrap(),
        ResNetConfig::cifar(20, 16, Shortcut::A, 10).unwrap(),
        ResNetConfig::grouped([3, 4, 6, 3], 32, 4, 1000),
        ResNetConfig::grouped([3, 4, 6, 3], 1, 128, 1000),
    ] {
        let config = ArchitectureConfig::ResNet(config);
        let found = infer_architecture(&tensors_of(&config)).unwrap();
        assert_eq!(found.config, config);
    }
    let config = ArchitectureConfig::WideResNet(WideResNetConfig::new(16, 4, 7));
    let found = infer_architecture(&tensors_of(&config)).unwrap();
    assert_eq!((found.config, found.name.as_str()), (config, "wrn_16_4"));
}

#[test]
fn group_norm_is_not_guessed() {
    let config = ArchitectureConfig::ResNet(ResNetConfig::resnet50_gn(10));
    assert_eq!(infer_architecture(&tensors_of(&config)), None);
}

#[test]
fn hostile_residual_shapes_neither_panic_nor_pass() {
    let config = ArchitectureConfig::ResNet(ResNetConfig::grouped([1, 1, 1, 1], 2, 32, 5));
    let good = tensors_of(&config);
    let read = ["conv1.weight", "layer1.0.conv2.weight", "layer4.0.conv3.weight", "fc.weight"];
    for broken in 0..good.len() {
        for shape in [&[][..], &[0, 0, 0, 0], &[usize::MAX; 4], &[7]] {
            let mut tensors = good.clone();
            tensors[broken].shape = Shape::new(shape);
            let found = infer_architecture(&tensors);
            // The other tensors are compared with the inferred network's parameters later.
            let name = good[broken].name.as_str();
            assert!(!read.contains(&name) || found.is_none(), "{name} {shape:?}");
        }
    }
}

fn configs() -> Vec<ArchitectureConfig> {
    let vit = VitConfig::new(48, 8, [128, 2, 2], 7);
    let mean = VitConfig { class_token: ClassToken::Absent, pool: TokenPool::MeanThenNorm, ..vit.clone() };
    let scaled = VitConfig { class_token: ClassToken::WithoutPosition, layer_scale: true, mlp_dim: 200, ..vit.clone() };
    let swin = SwinConfig { patch_size: 2, width: 12, layers: vec![2, 3], heads: vec![3, 4], window: 5, classes: 9 };
    let convnext = ConvNextConfig { widths: vec![8, 12], layers: vec![1, 2], classes: 9 };
    let maxvit = |origin| MaxVitConfig {
        stem_width: 8,
        widths: vec![8, 12],
        layers: vec![1, 2],
        partition: 3,
        head_dim: 4,
        origin,
        classes: 5,
    };
    vec![
        ArchitectureConfig::Vit(vit),
        ArchitectureConfig::Vit(mean),
        ArchitectureConfig::Vit(scaled),
        ArchitectureConfig::Swin(swin),
        ArchitectureConfig::ConvNext(convnext),
        ArchitectureConfig::MaxVit(maxvit(Origin::Pytorch)),
        ArchitectureConfig::MaxVit(maxvit(Origin::Tensorflow)),
    ]
}

#[test]
fn transformers_come_back_from_shapes() {
    for config in configs() {
        let found = infer_architecture(&tensors_of(&config)).unwrap();
        assert_eq!(found.config, config);
    }
}

#[test]
fn heads_of_unusual_width_are_not_guessed() {
    let config = ArchitectureConfig::Vit(VitConfig::new(48, 8, [96, 2, 3], 7));
    assert_eq!(infer_architecture(&tensors_of(&config)), None);
}

#[test]
fn hostile_shapes_do_not_panic() {
    for config in configs() {
        let good = tensors_of(&config);
        for broken in 0..good.len() {
            for shape in [&[][..], &[0, 0], &[0; 4], &[usize::MAX; 4], &[usize::MAX; 2]] {
                let mut tensors = good.clone();
                tensors[broken].shape = Shape::new(shape);
                let _ = infer_architecture(&tensors);
            }
        }
    }
}
