use super::*;
use crate::{Block, ResNetConfig, Shortcut, Stem};

const OWN: &str = r#"{
    "flipcast_model": 1, "name": "resnet50.pets", "architecture": "resnet50", "classes": ["cat", "dog"],
    "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "resize": {"short_side": 232}, "crop": 224,
    "interpolation": "bicubic", "weights_sha256": "ab"
}"#;

const TRAINED: &str = r#"{
    "name": "resnet26.cifar100", "architecture": "cifar_resnet", "num_classes": 100, "native_image_size": 32,
    "input_size": [3, 32, 32], "mean": [0.5071, 0.4865, 0.4409], "std": [0.2673, 0.2564, 0.2762],
    "resize": "none", "classes": "cifar100_classes.txt (100 fine names)",
    "config": {"style": "CIFAR ResNet", "block": "basic", "layers": [4, 4, 4], "widths": [32, 64, 128],
               "stem": "3x3 stride 1, no max pool", "shortcut": "option B: 1x1 conv + bn", "bn_eps": 1e-05},
    "training": {"epochs": 61.5}, "file": {"bytes": 5967456, "sha256": "fd02"}
}"#;

const ENLARGED: &str = r#"{
    "architecture": "resnet18", "num_classes": 200, "input_size": [3, 128, 128],
    "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225],
    "resize": "64x64 to 128x128, bilinear on float pixels, half-pixel centres (align_corners=false), edges clamped, no crop; then (x-mean)/std"
}"#;

const TRANSFORMER: &str = r#"{
    "name": "vit_tiny_p8.tiny_in200", "architecture": "vit", "num_classes": 200, "input_size": [3, 64, 64],
    "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "resize": "none",
    "config": {"style": "torchvision VisionTransformer", "image_size": 64, "layer_norm_eps": 1e-06,
               "activation": "gelu (erf)", "pre_norm": true, "class_token": true, "patch_size": 8, "num_layers": 8,
               "num_heads": 4, "hidden_dim": 256, "mlp_dim": 1024}
}"#;

fn read(text: &str) -> Result<ModelCard, CardError> {
    ModelCard::read(text.as_bytes())
}

#[test]
fn an_own_card_gives_every_setting() {
    let card = read(OWN).unwrap();
    assert_eq!(card.architecture.as_ref().unwrap().name, "resnet50");
    assert_eq!(card.classes, 2);
    assert_eq!(card.class_names.unwrap(), ["cat", "dog"]);
    assert_eq!(card.preprocess.resize, Resize::ShortSide(232));
    assert_eq!(card.preprocess.crop, Some(Size::square(224)));
    assert_eq!(card.preprocess.interpolation, Interpolation::Bicubic);
    assert_eq!(card.weights_sha256.as_deref(), Some("ab"));
}

#[test]
fn a_training_script_s_card_gives_settings_in_words() {
    let card = read(TRAINED).unwrap();
    let config = ResNetConfig::cifar(26, 32, Shortcut::B, 100).unwrap();
    assert_eq!(card.architecture.as_ref().unwrap().name, "cifar_resnet26_w32");
    assert_eq!(card.architecture.unwrap().config, ArchitectureConfig::ResNet(config));
    assert_eq!(card.preprocess.resize, Resize::None);
    assert_eq!(card.class_names, None);
    assert_eq!(card.weights_sha256.as_deref(), Some("fd02"));
}

#[test]
fn the_float_enlargement_is_understood() {
    let card = read(ENLARGED).unwrap();
    assert_eq!(card.preprocess, Preprocess::tiny_imagenet_128());
    assert_eq!(card.architecture.unwrap().input_size, 128);
}

#[test]
fn a_transformer_s_card_gives_its_sizes() {
    let card = read(TRANSFORMER).unwrap();
    assert_eq!(card.architecture.as_ref().unwrap().name, "vit_tiny_p8");
    let named = Architecture::find("vit_tiny_p8").unwrap();
    assert_eq!(card.architecture, Some(named));
    for (from, to) in [
        ("1e-06", "1e-05"),
        ("gelu (erf)", "gelu (tanh)"),
        ("\"pre_norm\": true", "\"pre_norm\": false"),
        ("\"class_token\": true", "\"class_token\": false"),
    ] {
        let error = read(&TRANSFORMER.replace(from, to)).unwrap_err();
        assert!(matches!(error, CardError::NotUnderstood { .. }), "{error}");
    }
    let error = read(&TRANSFORMER.replace("\"num_heads\"", "\"heads\"")).unwrap_err();
    let CardError::Json { source } = error else { panic!("{error}") };
    assert_eq!(source.to_string(), "missing field `num_heads`");
}

#[test]
fn settings_no_network_here_has_are_refused() {
    for (from, to) in [
        ("\"bn_eps\": 1e-05", "\"bn_eps\": 1e-03"),
        ("\"input_size\": [3, 32, 32]", "\"input_size\": [3, 32, 48]"),
        ("option B", "option C"),
        ("\"stem\": \"3x3", "\"stem\": \"5x5"),
    ] {
        let error = read(&TRAINED.replace(from, to)).unwrap_err();
        assert!(matches!(error, CardError::NotUnderstood { .. }), "{error}");
    }
}

#[test]
fn another_target_size_is_not_guessed() {
    let error = read(&ENLARGED.replace("3, 128, 128", "3, 96, 96")).unwrap_err();
    assert!(matches!(error, CardError::NotUnderstood { field: "resize", .. }));
}

#[test]
fn cards_round_trip_through_json() {
    for text in [OWN, TRAINED, ENLARGED, TRANSFORMER] {
        let card = read(text).unwrap();
        assert_eq!(read(&card.to_json()).unwrap(), card);
    }
    let mut card = read(OWN).unwrap();
    let config = ResNetConfig::plain(Block::Basic, Stem::Cifar, &[8, 24], &[2, 1], 2);
    card.architecture =
        Some(Architecture { name: "my_net".into(), input_size: 48, config: ArchitectureConfig::ResNet(config) });
    card.preprocess.normalise = Normalise::centred_bytes();
    assert_eq!(read(&card.to_json()).unwrap(), card);
}

#[test]
fn a_card_may_leave_the_architecture_to_the_file() {
    let text = OWN.replace("\"architecture\": \"resnet50\",", "");
    let card = read(&text).unwrap();
    assert_eq!((card.architecture.as_ref(), card.classes), (None, 2));
    assert_eq!(read(&card.to_json()).unwrap(), card);
}

#[test]
fn a_misspelt_field_is_refused() {
    let error = read(&OWN.replace("\"crop\"", "\"corp\"")).unwrap_err();
    let CardError::Json { source } = error else { panic!("{error}") };
    assert!(source.to_string().contains("unknown field `corp`"), "{source}");
}

#[test]
fn a_newer_format_is_refused() {
    let error = read(&OWN.replace("\"flipcast_model\": 1", "\"flipcast_model\": 2")).unwrap_err();
    assert!(matches!(error, CardError::Version { found: 2 }));
}

#[test]
fn half_a_normalisation_is_refused() {
    let error = read(&OWN.replace("\"std\": [0.2, 0.3, 0.4],", "")).unwrap_err();
    assert!(matches!(error, CardError::Normalise));
}

#[test]
fn impossible_preprocessing_is_refused() {
    let error = read(&OWN.replace("\"crop\": 224", "\"crop\": 0")).unwrap_err();
    assert!(matches!(error, CardError::Preprocess { .. }));
    let error = read(&OWN.replace("\"std\": [0.2,", "\"std\": [0.0,")).unwrap_err();
    assert!(matches!(error, CardError::Preprocess { .. }));
}

#[test]
fn names_and_number_of_classes_must_agree() {
    let text = TRAINED.replace("\"cifar100_classes.txt (100 fine names)\"", "[\"a\", \"b\"]");
    let error = read(&text).unwrap_err();
    assert_eq!(error.to_string(), "the card names 2 classes, but gives their number as 100");
}

#[test]
fn an_unknown_architecture_is_refused() {
    let error = read(&OWN.replace("\"resnet50\"", "\"vit\"")).unwrap_err();
    assert!(matches!(error, CardError::Architecture { .. }));
}

#[test]
fn text_that_is_no_card_is_refused() {
    for text in ["", "[]", "{}", "{\"architecture\": 3}", "nonsense"] {
        assert!(matches!(read(text), Err(CardError::Json { .. })), "{text}");
    }
}
