use crate::rename::canonical_name;
use crate::{
    Architecture, ArchitectureConfig, Block, Family, ResNetConfig, Shortcut, Stem, TensorInfo, WideResNetConfig,
};
use std::collections::HashMap;

/// Reads the settings of a network that is in no table off the shapes of its tensors: residual networks with batch
/// norm of any width and depth, and wide ResNets. What the tensors cannot tell is taken as published: strides,
/// padding, and the stem, which is CIFAR's where its filter is 3x3.
pub(crate) fn infer_architecture<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Option<Architecture> {
    let shapes: HashMap<_, _> = tensors
        .map(|tensor| {
            let name = canonical_name(Family::ResNet, &tensor.name).into_owned();
            (name, tensor.shape.extents())
        })
        .collect();
    let shapes = Shapes(shapes);
    let found = infer_resnet(&shapes).or_else(|| infer_wide_resnet(&shapes))?;
    found.config.build().is_ok().then_some(found)
}

struct Shapes<'a>(HashMap<String, &'a [usize]>);

impl Shapes<'_> {
    fn get(&self, name: &str) -> Option<&[usize]> {
        self.0.get(name).copied()
    }

    fn filters(&self, name: &str) -> Option<[usize; 4]> {
        self.get(name)?.try_into().ok()
    }

    fn classes(&self) -> Option<usize> {
        let [classes, _] = *self.get("fc.weight")? else {
            return None;
        };
        Some(classes)
    }

    /// How many of `name(0)`, `name(1)`, ... are there.
    fn count(&self, name: impl Fn(usize) -> String) -> usize {
        (0..).take_while(|&i| self.0.contains_key(&name(i))).count()
    }
}

fn infer_resnet(shapes: &Shapes<'_>) -> Option<Architecture> {
    // Without running statistics the norm is of another kind, whose groups no tensor tells.
    shapes.get("bn1.running_mean")?;
    let [stem_width, 3, kernel, _] = shapes.filters("conv1.weight")? else {
        return None;
    };
    let stem = match kernel {
        3 => Stem::Cifar,
        7 => Stem::Imagenet,
        _ => return None,
    };
    let stages = shapes.count(|i| format!("layer{}.0.conv1.weight", i + 1));
    let layers: Vec<_> =
        (1..=stages).map(|stage| shapes.count(|unit| format!("layer{stage}.{unit}.conv1.weight"))).collect();
    let block = match shapes.get("layer1.0.conv3.weight") {
        Some(_) => Block::Bottleneck,
        None => Block::Basic,
    };
    let mut widths = Vec::new();
    for stage in 1..=stages {
        widths.push(match block {
            Block::Basic => shapes.filters(&format!("layer{stage}.0.conv1.weight"))?[0],
            Block::Bottleneck => shapes.filters(&format!("layer{stage}.0.conv3.weight"))?[0] / 4,
        });
    }
    if widths.first() != Some(&stem_width) {
        return None;
    }
    let mut config = ResNetConfig::plain(block, stem, &widths, &layers, shapes.classes()?);
    let projects = |name: &String| name.contains(".downsample.");
    if !shapes.0.keys().any(projects) {
        config.shortcut = Shortcut::A;
    }
    if block == Block::Bottleneck {
        let [inner, per_group, ..] = shapes.filters("layer1.0.conv2.weight")?;
        config.groups = inner.checked_div(per_group)?;
        let channels = widths[0].checked_mul(config.groups)?;
        config.width_per_group = inner.checked_mul(64)?.checked_div(channels)?;
    }
    let input_size = match stem {
        Stem::Imagenet => 224,
        Stem::Cifar => 32,
    };
    let name = config.cifar_name().unwrap_or_else(|| describe(&config));
    Some(Architecture { name, input_size, config: ArchitectureConfig::ResNet(config) })
}

/// A name for a residual network that has none.
fn describe(config: &ResNetConfig) -> String {
    let block = match config.block {
        Block::Basic => "basic",
        Block::Bottleneck => "bottleneck",
    };
    let stem = match config.stem {
        Stem::Imagenet => "imagenet",
        Stem::Cifar => "cifar",
    };
    let join = |numbers: &[usize]| {
        let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        texts.join("-")
    };
    let (layers, widths) = (join(&config.layers), join(&config.widths));
    format!("resnet_{stem}_{block}_l{layers}_w{widths}")
}

fn infer_wide_resnet(shapes: &Shapes<'_>) -> Option<Architecture> {
    let units = shapes.count(|unit| format!("block1.layer.{unit}.conv1.weight"));
    let [width, ..] = shapes.filters("block1.layer.0.conv1.weight")?;
    if !width.is_multiple_of(16) {
        return None;
    }
    let config = WideResNetConfig::new(6 * units + 4, width / 16, shapes.classes()?);
    Some(Architecture {
        name: format!("wrn_{}_{}", config.depth, config.widen_factor),
        input_size: 32,
        config: ArchitectureConfig::WideResNet(config),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_tensor::{DType, Shape};

    fn tensors_of(config: &ArchitectureConfig) -> Vec<TensorInfo> {
        let params = config.build().unwrap().params();
        let tensors = params.into_iter().map(|param| TensorInfo {
            name: param.name,
            dtype: DType::F32,
            shape: Shape::new(param.shape),
        });
        tensors.collect()
    }

    #[test]
    fn settings_come_back_from_shapes() {
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
            let found = infer_architecture(tensors_of(&config).iter()).unwrap();
            assert_eq!(found.config, config);
        }
        let config = ArchitectureConfig::WideResNet(WideResNetConfig::new(16, 4, 7));
        let found = infer_architecture(tensors_of(&config).iter()).unwrap();
        assert_eq!((found.config, found.name.as_str()), (config, "wrn_16_4"));
    }

    #[test]
    fn group_norm_is_not_guessed() {
        let config = ArchitectureConfig::ResNet(ResNetConfig::resnet50_gn(10));
        assert_eq!(infer_architecture(tensors_of(&config).iter()), None);
    }

    #[test]
    fn hostile_shapes_neither_panic_nor_pass() {
        let config = ArchitectureConfig::ResNet(ResNetConfig::grouped([1, 1, 1, 1], 2, 32, 5));
        let good = tensors_of(&config);
        let read = ["conv1.weight", "layer1.0.conv2.weight", "layer4.0.conv3.weight", "fc.weight"];
        for broken in 0..good.len() {
            for shape in [&[][..], &[0, 0, 0, 0], &[usize::MAX; 4], &[7]] {
                let mut tensors = good.clone();
                tensors[broken].shape = Shape::new(shape);
                let found = infer_architecture(tensors.iter());
                // The other tensors are compared with the inferred network's parameters later.
                let name = good[broken].name.as_str();
                assert!(!read.contains(&name) || found.is_none(), "{name} {shape:?}");
            }
        }
    }
}
