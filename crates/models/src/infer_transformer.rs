use crate::rename::canonical_name;
use crate::{
    Architecture, ArchitectureConfig, ClassToken, ConvNextConfig, Family, MaxVitConfig, Origin, SwinConfig, TensorInfo,
    TokenPool, VitConfig,
};
use std::collections::HashMap;

/// Channels of an attention head in every published vision transformer; no tensor tells it.
const VIT_HEAD: usize = 64;
/// Blocks or stages beyond which counting stops.
const MOST: usize = 1_000;

/// Reads the settings of a transformer or ConvNeXt that is in no table off the shapes of its tensors. What the tensors
/// cannot tell is taken as published: heads of 64 channels and square images in vision transformers.
pub(crate) fn infer_transformer(tensors: &[TensorInfo]) -> Option<Architecture> {
    let families = [Family::Vit, Family::Swin, Family::ConvNext, Family::MaxVit];
    families.into_iter().find_map(|family| {
        let shapes = Shapes::new(family, tensors);
        let found = match family {
            Family::Vit => infer_vit(&shapes),
            Family::Swin => infer_swin(&shapes),
            Family::ConvNext => infer_convnext(&shapes),
            _ => infer_maxvit(&shapes),
        }?;
        found.config.build().is_ok().then_some(found)
    })
}

struct Shapes<'a>(HashMap<String, &'a [usize]>);

impl<'a> Shapes<'a> {
    fn new(family: Family, tensors: &'a [TensorInfo]) -> Self {
        let named = tensors.iter().map(|tensor| {
            let name = canonical_name(family, &tensor.name).into_owned();
            (name, tensor.shape.extents())
        });
        Self(named.collect())
    }

    fn get<const RANK: usize>(&self, name: &str) -> Option<[usize; RANK]> {
        (*self.0.get(name)?).try_into().ok()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn count(&self, name: impl Fn(usize) -> String) -> usize {
        (0..MOST).take_while(|&i| self.has(&name(i))).count()
    }

    /// Side of the window and heads of the bias table called `name`, in either layout.
    fn window(&self, name: &str) -> Option<(usize, usize)> {
        let (side, heads) = match **self.0.get(name)? {
            [entries, heads] => (exact_root(entries)?, heads),
            [heads, rows, columns] if rows == columns => (rows, heads),
            _ => return None,
        };
        (side % 2 == 1).then_some((side.div_ceil(2), heads))
    }
}

fn exact_root(square: usize) -> Option<usize> {
    let root = square.isqrt();
    (root.checked_mul(root) == Some(square)).then_some(root)
}

fn infer_vit(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [hidden_dim, 3, patch, _] = shapes.get("conv_proj.weight")? else {
        return None;
    };
    let layer = |i: usize| format!("encoder.layers.encoder_layer_{i}");
    let layers = shapes.count(|i| format!("{}.ln_1.weight", layer(i)));
    let [mlp_dim, _] = shapes.get(&format!("{}.mlp.0.weight", layer(0)))?;
    let [1, positions, _] = shapes.get("encoder.pos_embedding")? else {
        return None;
    };
    let distilled = shapes.has("dist_token");
    // A square number of positions leaves none for the class token.
    let patches_only = exact_root(positions);
    let class_token = match (shapes.has("class_token"), patches_only) {
        (true, _) if distilled => ClassToken::Distilled,
        (false, _) => ClassToken::Absent,
        (true, None) => ClassToken::WithPosition,
        (true, Some(_)) => ClassToken::WithoutPosition,
    };
    let side = match class_token {
        ClassToken::WithPosition => exact_root(positions.checked_sub(1)?)?,
        ClassToken::Distilled => exact_root(positions.checked_sub(2)?)?,
        ClassToken::Absent | ClassToken::WithoutPosition => patches_only?,
    };
    let pool = match (shapes.has("fc_norm.weight"), class_token) {
        (true, _) => TokenPool::MeanThenNorm,
        (false, ClassToken::Absent) => TokenPool::NormThenMean,
        (false, _) => TokenPool::ClassToken,
    };
    let [classes, _] = shapes.get("heads.head.weight")?;
    let image = side.checked_mul(patch)?;
    let config = VitConfig {
        mlp_dim,
        class_token,
        pool,
        layer_scale: shapes.has(&format!("{}.ls1", layer(0))),
        ..VitConfig::new(image, patch, [hidden_dim, layers, hidden_dim / VIT_HEAD], classes)
    };
    if !hidden_dim.is_multiple_of(VIT_HEAD) {
        return None;
    }
    Some(Architecture { name: config.name(), input_size: image, config: ArchitectureConfig::Vit(config) })
}

fn infer_swin(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [width, 3, patch_size, _] = shapes.get("features.0.0.weight")? else {
        return None;
    };
    let table = |stage: usize, block: usize| {
        let stage = 2 * stage + 1;
        format!("features.{stage}.{block}.attn.relative_position_bias_table")
    };
    let stages = shapes.count(|stage| table(stage, 0));
    let layers: Vec<_> = (0..stages).map(|stage| shapes.count(|block| table(stage, block))).collect();
    let (window, _) = shapes.window(&table(0, 0))?;
    let heads: Option<Vec<_>> = (0..stages).map(|stage| Some(shapes.window(&table(stage, 0))?.1)).collect();
    let [classes, _] = shapes.get("head.weight")?;
    let config = SwinConfig { patch_size, width, heads: heads?, window, classes, layers };
    let layers = join(&config.layers);
    Some(Architecture {
        name: format!("swin_w{width}_l{layers}_patch{patch_size}_window{window}"),
        input_size: 224,
        config: ArchitectureConfig::Swin(config),
    })
}

fn infer_convnext(shapes: &Shapes<'_>) -> Option<Architecture> {
    let scale = |stage: usize, block: usize| {
        let stage = 2 * stage + 1;
        format!("features.{stage}.{block}.layer_scale")
    };
    let stages = shapes.count(|stage| scale(stage, 0));
    let layers: Vec<_> = (0..stages).map(|stage| shapes.count(|block| scale(stage, block))).collect();
    let widths: Option<Vec<_>> = (0..stages)
        .map(|stage| {
            let name = format!("features.{}.0.block.0.weight", 2 * stage + 1);
            let [width, 1, 7, 7] = shapes.get(&name)? else {
                return None;
            };
            Some(width)
        })
        .collect();
    let [classes, _] = shapes.get("classifier.2.weight")?;
    let config = ConvNextConfig { widths: widths?, layers, classes };
    let (layers, widths) = (join(&config.layers), join(&config.widths));
    Some(Architecture {
        name: format!("convnext_l{layers}_w{widths}"),
        input_size: 224,
        config: ArchitectureConfig::ConvNext(config),
    })
}

fn infer_maxvit(shapes: &Shapes<'_>) -> Option<Architecture> {
    let [stem_width, 3, 3, 3] = shapes.get("stem.0.0.weight")? else {
        return None;
    };
    let layer = |stage: usize, layer: usize| format!("blocks.{stage}.layers.{layer}.layers");
    let first = |stage, index| format!("{}.MBconv.layers.conv_c.weight", layer(stage, index));
    let stages = shapes.count(|stage| first(stage, 0));
    let layers: Vec<_> = (0..stages).map(|stage| shapes.count(|index| first(stage, index))).collect();
    let widths: Option<Vec<_>> = (0..stages).map(|stage| Some(shapes.get::<4>(&first(stage, 0))?[0])).collect();
    let widths = widths?;
    let table = ".window_attention.attn_layer.1.relative_position_bias_table";
    let (partition, heads) = shapes.window(&(layer(0, 0) + table))?;
    let origin = if shapes.has("classifier.5.bias") { Origin::Tensorflow } else { Origin::Pytorch };
    let [classes, _] = shapes.get("classifier.5.weight")?;
    let config = MaxVitConfig {
        stem_width,
        partition,
        head_dim: widths.first()?.checked_div(heads)?,
        origin,
        classes,
        widths,
        layers,
    };
    let (layers, widths) = (join(&config.layers), join(&config.widths));
    Some(Architecture {
        name: format!("maxvit_l{layers}_w{widths}_partition{partition}"),
        input_size: 224,
        config: ArchitectureConfig::MaxVit(config),
    })
}

fn join(numbers: &[usize]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join("-")
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

    fn configs() -> Vec<ArchitectureConfig> {
        let vit = VitConfig::new(48, 8, [128, 2, 2], 7);
        let mean = VitConfig { class_token: ClassToken::Absent, pool: TokenPool::MeanThenNorm, ..vit.clone() };
        let scaled =
            VitConfig { class_token: ClassToken::WithoutPosition, layer_scale: true, mlp_dim: 200, ..vit.clone() };
        let swin =
            SwinConfig { patch_size: 2, width: 12, layers: vec![2, 3], heads: vec![3, 4], window: 5, classes: 9 };
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
    fn settings_come_back_from_shapes() {
        for config in configs() {
            let found = infer_transformer(&tensors_of(&config)).unwrap();
            assert_eq!(found.config, config);
        }
    }

    #[test]
    fn heads_of_unusual_width_are_not_guessed() {
        let config = ArchitectureConfig::Vit(VitConfig::new(48, 8, [96, 2, 3], 7));
        assert_eq!(infer_transformer(&tensors_of(&config)), None);
    }

    #[test]
    fn hostile_shapes_do_not_panic() {
        for config in configs() {
            let good = tensors_of(&config);
            for broken in 0..good.len() {
                for shape in [&[][..], &[0, 0], &[0; 4], &[usize::MAX; 4], &[usize::MAX; 2]] {
                    let mut tensors = good.clone();
                    tensors[broken].shape = Shape::new(shape);
                    let _ = infer_transformer(&tensors);
                }
            }
        }
    }
}
