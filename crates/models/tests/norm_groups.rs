//! Which norm layers belong to the last stage of every family.

use flipcast_models::{Architecture, NormGroup, norm_groups};

/// Names of the first and the last layer of the last group, and how many it has.
fn last_group(architecture: &str) -> Option<(String, String, usize)> {
    let graph = Architecture::find(architecture).unwrap().config.build().unwrap();
    let table = graph.affine_table();
    let entries = table.entries().iter().zip(norm_groups(&graph));
    let last: Vec<_> =
        entries.filter(|(_, group)| *group == NormGroup::Last).map(|(entry, _)| entry.name.clone()).collect();
    Some((last.first()?.clone(), last.last()?.clone(), last.len()))
}

#[test]
fn every_family_has_its_last_stage() {
    for (architecture, first, last, count) in [
        ("resnet50", "layer4.0.bn1", "layer4.2.bn3", 10),
        ("resnet18", "layer4.0.bn1", "layer4.1.bn2", 5),
        ("mobilenet_v2", "features.14.conv.0.1", "features.18.1", 13),
        ("efficientnet_lite0", "blocks.5.0.bn1", "bn2", 16),
        ("efficientnet_b0", "features.6.0.block.0.1", "features.8.1", 16),
        ("vit_b_16", "encoder.layers.encoder_layer_9.ln_1", "encoder.ln", 7),
        ("vit_b_32", "encoder.layers.encoder_layer_9.ln_1", "encoder.ln", 7),
        ("vit_tiny_p8", "encoder.layers.encoder_layer_6.ln_1", "encoder.ln", 5),
        ("maxvit_t", "blocks.3.layers.0.layers.MBconv.layers.pre_norm", "classifier.2", 15),
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
