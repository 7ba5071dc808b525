use flipcast_graph::{Arrangement, Graph, NodeId, Op};

/// How far the last stage of an ImageNet network has reduced its images.
const LAST_REDUCTION: usize = 32;
/// Of a transformer's blocks, one in this many counts as last: three of twelve.
const LAST_SHARE: usize = 4;
const ENCODER_LAYER: &str = "encoder.layers.encoder_layer_";

/// The part of a network a norm layer belongs to, for rules that adapt only some layers.
///
/// SAR leaves the last layers alone and names them as timm does: `layer4` of a ResNet, `blocks.9` to `blocks.11` and the last
/// norm of ViT-B. This is the same for every family: the stage in which images become 32 times as small, or the last quarter
/// of the blocks where nothing becomes smaller, and whatever follows. Networks for small images that never reduce them
/// so far have no such stage, as the published names find none in them.
///
/// *Reference*: Niu et al., "Towards Stable Test-Time Adaptation in Dynamic Wild World" (2023), and its published code.
///
/// *Departures from the reference*: the published names mean blocks 9 to 11 in transformers of any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormGroup {
    /// Everything before the last stage.
    Body,
    /// The last stage and what follows.
    Last,
}

/// The group of every norm layer, in the order of [`Graph::affine_table`].
pub fn norm_groups(graph: &Graph) -> Vec<NormGroup> {
    let blocks = graph.nodes().iter().filter_map(|node| block(&node.name));
    let is_last: Vec<bool> = match (blocks.max(), first_reduced(graph)) {
        (Some(last), _) => {
            let count = last + 1;
            let first = count - count / LAST_SHARE;
            // The final norm has no block.
            let is_last = |name: &str| block(name).is_none_or(|block| block >= first);
            let norms = graph.norms();
            norms.map(|(id, _)| is_last(&graph.node(id).name)).collect()
        }
        (None, Some(first)) => {
            let first_stage = stage(&graph.node(first).name);
            let is_last = |id: NodeId| match (stage(&graph.node(id).name), first_stage) {
                (Some(stage), Some(first)) => stage >= first,
                _ => id >= first,
            };
            graph.norms().map(|(id, _)| is_last(id)).collect()
        }
        (None, None) => vec![false; graph.norms().count()],
    };
    let group = |is_last| match is_last {
        true => NormGroup::Last,
        false => NormGroup::Body,
    };
    is_last.into_iter().map(group).collect()
}

/// The block of a vision transformer that a layer belongs to.
fn block(name: &str) -> Option<usize> {
    leading_number(name.strip_prefix(ENCODER_LAYER)?)
}

/// The number of the stage that a layer belongs to: `layer4.0.bn1`, `features.6.0`, `blocks.3.layers`.
fn stage(name: &str) -> Option<usize> {
    let prefixes = ["layer", "features.", "blocks.", "block"];
    prefixes
        .iter()
        .find_map(|prefix| leading_number(name.strip_prefix(prefix)?))
}

fn leading_number(text: &str) -> Option<usize> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The first node whose pixels each stand for 32 x 32 of the image.
fn first_reduced(graph: &Graph) -> Option<NodeId> {
    let mut reductions: Vec<usize> = Vec::new();
    for node in graph.nodes() {
        let step = match &node.op {
            Op::Conv2d(conv) => conv.stride,
            Op::MaxPool(pool) | Op::AvgPool(pool) => pool.stride,
            Op::ShortcutA { stride, .. } => *stride,
            Op::Arrange(Arrangement::MergePatches) => 2,
            _ => 1,
        };
        let inputs = node.inputs.iter().map(|id| reductions[id.index()]);
        let reduction = inputs.max().unwrap_or(1).saturating_mul(step);
        if reduction >= LAST_REDUCTION {
            return graph.find(&node.name);
        }
        reductions.push(reduction);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Architecture;

    /// Names of the first and the last layer of the last group, and how many it has.
    fn last_group(architecture: &str) -> Option<(String, String, usize)> {
        let graph = Architecture::find(architecture)
            .unwrap()
            .config
            .build()
            .unwrap();
        let table = graph.affine_table();
        let entries = table.entries().iter().zip(norm_groups(&graph));
        let last: Vec<_> = entries
            .filter(|(_, group)| *group == NormGroup::Last)
            .map(|(entry, _)| entry.name.clone())
            .collect();
        Some((last.first()?.clone(), last.last()?.clone(), last.len()))
    }

    #[test]
    fn every_family_has_its_last_stage() {
        for (architecture, first, last, count) in [
            ("resnet50", "layer4.0.bn1", "layer4.2.bn3", 10),
            ("resnet18", "layer4.0.bn1", "layer4.1.bn2", 5),
            ("mobilenet_v2", "features.14.conv.0.1", "features.18.1", 13),
            ("efficientnet_lite0", "blocks.5.0.bn1", "bn2", 16),
            (
                "efficientnet_b0",
                "features.6.0.block.0.1",
                "features.8.1",
                16,
            ),
            (
                "vit_b_16",
                "encoder.layers.encoder_layer_9.ln_1",
                "encoder.ln",
                7,
            ),
            (
                "vit_b_32",
                "encoder.layers.encoder_layer_9.ln_1",
                "encoder.ln",
                7,
            ),
            (
                "vit_tiny_p8",
                "encoder.layers.encoder_layer_6.ln_1",
                "encoder.ln",
                5,
            ),
            (
                "maxvit_t",
                "blocks.3.layers.0.layers.MBconv.layers.pre_norm",
                "classifier.2",
                15,
            ),
            ("swin_t", "features.6.norm", "norm", 6),
            ("convnext_tiny", "features.6.0", "classifier.0", 5),
        ] {
            let found = last_group(architecture).unwrap();
            let expected = (first.to_owned(), last.to_owned(), count);
            assert_eq!(found, expected, "{architecture}");
        }
    }

    #[test]
    fn networks_for_small_images_have_none() {
        for architecture in ["cifar_resnet20", "wrn_40_2"] {
            assert_eq!(last_group(architecture), None, "{architecture}");
        }
    }
}
