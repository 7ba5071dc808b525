use crate::{Arrangement, Graph, NodeId, Op};

/// How far the last stage of an ImageNet network has reduced its images.
const LAST_REDUCTION: usize = 32;
/// Of a transformer's blocks, one in this many counts as last: three of twelve.
const LAST_SHARE: usize = 4;
const LAST_RESNET_STAGE: &str = "layer4.";
const ENCODER_LAYER: &str = "encoder.layers.encoder_layer_";

/// The part of a network a norm layer belongs to, for rules that adapt only some layers.
///
/// SAR leaves the last layers alone and names them as timm does: `layer4` of a ResNet, `blocks.9` to `blocks.11` and the last
/// norm of ViT-B. This is the same for every family: the stage in which images become 32 times as small, or the last quarter
/// of the blocks where nothing becomes smaller, and whatever follows. Networks for small images that never reduce them
/// so far have no such stage unless it is called `layer4`, as the published names find none in them.
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
        // A ResNet for small images never reduces them so far, but the published names find its last stage.
        (None, None) => {
            let is_last = |id: NodeId| graph.node(id).name.starts_with(LAST_RESNET_STAGE);
            graph.norms().map(|(id, _)| is_last(id)).collect()
        }
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
    prefixes.iter().find_map(|prefix| leading_number(name.strip_prefix(prefix)?))
}

fn leading_number(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
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
