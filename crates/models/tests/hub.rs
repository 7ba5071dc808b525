//! Folders of model hubs: those that Transformers saved against what it computes (`golden/hub`), and timm's.
#![forbid(unsafe_code)]

use flipcast_exec::{Executor, Network, NetworkOptions};
use flipcast_images::preprocess::{Interpolation, Preprocess, Resize, Size};
use flipcast_models::{HubError, KnownFrom, LoadRequest, Model, ModelError};
use flipcast_tensor::Batch;
use flipcast_testkit::{TensorFile, relative_l2};
use std::path::{Path, PathBuf};

/// Bound on the relative error of the engine's logits; measured 4.1e-7.
const LOGITS: f64 = 1.6e-6;
const NETWORKS: [&str; 7] = ["resnet", "resnet_basic", "vit", "deit", "convnext", "swin", "mobilenet_v2"];

fn golden(network: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/hub")).join(network)
}

fn load(folder: &Path) -> Result<Model, ModelError> {
    Model::load(LoadRequest::new(folder))
}

/// A copy of a golden folder for a test to change, removed at its end.
struct Copy(PathBuf);

impl Copy {
    fn new(network: &str, test: &str) -> Self {
        let place = std::env::temp_dir().join(format!("flipcast-hub-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        for file in std::fs::read_dir(golden(network)).unwrap() {
            let file = file.unwrap().path();
            std::fs::copy(&file, place.join(file.file_name().unwrap())).unwrap();
        }
        Self(place)
    }

    /// Changes the text of a file.
    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.0.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    fn refused(&self) -> HubError {
        match load(&self.0) {
            Err(ModelError::Hub { source, .. }) => *source,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_engine_equals_transformers() {
    for network in NETWORKS {
        let folder = golden(network);
        let model = load(&folder).unwrap();
        let expected = TensorFile::load(&folder.join("expected.safetensors")).unwrap();
        let images: Vec<f32> = expected.values("images").unwrap().iter().map(|&value| value as f32).collect();
        // Channels last.
        let (pixels, count) = (32 * 32, 2);
        let at = |i: usize| images[i / (3 * pixels) * 3 * pixels + i % 3 * pixels + i / 3 % pixels];
        let batch = Batch::new([count, 32, 32, 3], (0..images.len()).map(at).collect()).unwrap();
        let options = NetworkOptions::predict(count, 32, 32);
        let mut engine = Network::new(model.graph(), model.params(), &options).unwrap();
        let logits = engine.forward(&batch).unwrap();
        let found: Vec<f64> = logits.values().iter().map(|&value| f64::from(value)).collect();
        let error = relative_l2(&found, expected.values("logits").unwrap());
        println!("{network}: {error:.1e}");
        assert!(error < LOGITS, "{network}: {error}");
    }
}

#[test]
fn classes_and_preprocessing_come_from_the_configuration() {
    let model = load(&golden("convnext")).unwrap();
    assert_eq!(model.class_names().unwrap(), ["ant", "bee", "cat", "dog", "elk"]);
    let rule = model.preprocess().unwrap();
    assert_eq!((rule.resize, rule.crop), (Resize::ShortSide(36), Some(Size::square(32))));
    assert_eq!(rule.interpolation, Interpolation::Bicubic);
    assert!(matches!(&model.knowledge().unwrap().preprocess, Some(KnownFrom::HubConfig { .. })));
    assert_eq!(model.name(), "convnext");
    let rule = |network: &str| -> Preprocess { load(&golden(network)).unwrap().preprocess().unwrap().clone() };
    assert_eq!((rule("vit").resize, rule("vit").crop), (Resize::Exact(Size::square(32)), None));
    assert_eq!((rule("deit").resize, rule("deit").crop), (Resize::Exact(Size::square(36)), Some(Size::square(32))));
}

#[test]
fn what_is_not_understood_is_named() {
    let folder = Copy::new("vit", "refused");
    folder.replace("preprocessor_config.json", "\"resample\": 2", "\"resample\": 5");
    assert_eq!(
        folder.refused().to_string(),
        "the configuration's `resample` is `5`, expected 0 to 4, as Pillow counts filters"
    );
    std::fs::remove_file(folder.0.join("preprocessor_config.json")).unwrap();
    assert!(load(&folder.0).unwrap().preprocess().is_none());
    folder.replace("config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"");
    assert!(matches!(folder.refused(), HubError::Setting { field: "hidden_act", .. }));
    folder.replace("config.json", "\"model_type\": \"vit\"", "\"model_type\": \"clip\"");
    assert!(folder.refused().to_string().contains("expected resnet, vit, deit, convnext, swin, mobilenet_v2"));
    std::fs::write(folder.0.join("config.json"), "{\"epochs\": 3}").unwrap();
    assert!(matches!(folder.refused(), HubError::UnknownConfig));
    std::fs::write(folder.0.join("config.json"), "{").unwrap();
    assert!(matches!(folder.refused(), HubError::Json { .. }));
    std::fs::remove_file(folder.0.join("model.safetensors")).unwrap();
    assert!(matches!(folder.refused(), HubError::NoWeights { .. }));
    std::fs::remove_file(folder.0.join("config.json")).unwrap();
    assert!(matches!(folder.refused(), HubError::NoConfig));
}

#[test]
fn queries_without_keys_fit_nothing() {
    let folder = Copy::new("vit", "parts");
    let path = folder.0.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    // The header keeps its length.
    let name = b"vit.encoder.layer.0.attention.attention.key.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at..at + 3].copy_from_slice(b"xit");
    std::fs::write(path, bytes).unwrap();
    assert!(matches!(load(&folder.0), Err(ModelError::TensorsDoNotFit { .. })));
}

#[test]
fn a_folder_of_timm_tells_architecture_and_preprocessing() {
    // The weights are those of a network that timm has no name for, which does not matter here.
    let folder = Copy::new("vit", "timm");
    let config = |architecture: &str, more: &str| {
        let text = format!(
            r#"{{"architecture": "{architecture}", "num_classes": 5, "label_names": ["a", "b", "c", "d", "e"], {more}
            "pretrained_cfg": {{"input_size": [3, 32, 32], "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center",
            "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "tag": "x"}}}}"#
        );
        std::fs::write(folder.0.join("config.json"), text).unwrap();
    };
    config("resnet18", "");
    // Everything but the tensors is right.
    assert!(matches!(load(&folder.0), Err(ModelError::TensorsDoNotFit { model, .. }) if !model.is_empty()));
    config("resnet18", "\"model_args\": {\"stem_width\": 32},");
    assert!(matches!(folder.refused(), HubError::Setting { field: "model_args", .. }));
    config("resnet51q", "");
    assert!(matches!(folder.refused(), HubError::Architecture { .. }));
}

/// A timm folder's weight file: every tensor that timm 1.0 saves for `architecture` (`golden/models/names.json`), in half precision, all
/// zeros but for variances.
fn timm_weights(architecture: &str) -> (Vec<u8>, usize) {
    let names = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/models/names.json")).unwrap();
    let names: serde_json::Value = serde_json::from_slice(&names).unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for line in names[format!("timm/{architecture}")]["tensors"].as_array().unwrap() {
        let (name, extents) = line.as_str().unwrap().split_once(' ').unwrap();
        let extents: Vec<usize> = extents.split('x').map(|extent| extent.parse().unwrap()).collect();
        let start = data.len();
        let bytes: [u8; 2] = if name.ends_with("running_var") { [0, 0x3c] } else { [0; 2] };
        data.extend(bytes.repeat(extents.iter().product()));
        let entry = serde_json::json!({ "dtype": "F16", "shape": extents, "data_offsets": [start, data.len()] });
        header.insert(name.to_owned(), entry);
        if let Some(norm) = name.strip_suffix("running_mean") {
            // Folders hold these counters too.
            let entry =
                serde_json::json!({ "dtype": "I64", "shape": [], "data_offsets": [data.len(), data.len() + 8] });
            data.extend(7i64.to_le_bytes());
            header.insert(format!("{norm}num_batches_tracked"), entry);
        }
    }
    let count = header.len();
    header.insert("__metadata__".to_owned(), serde_json::json!({ "format": "pt" }));
    let header = serde_json::Value::Object(header).to_string();
    ([&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat(), count)
}

#[test]
fn a_folder_of_timm_with_all_its_tensors_loads() {
    let folder = Copy::new("vit", "timm-whole");
    let (weights, tensors) = timm_weights("efficientnet_lite0");
    assert_eq!(tensors, 296);
    std::fs::write(folder.0.join("model.safetensors"), weights).unwrap();
    std::fs::remove_file(folder.0.join("preprocessor_config.json")).unwrap();
    // As the hub has it for efficientnet_lite0.ra_in1k.
    let config = r#"{"architecture": "efficientnet_lite0", "num_classes": 1000, "num_features": 1280, "pretrained_cfg": {
        "tag": "ra_in1k", "custom_load": false, "input_size": [3, 224, 224], "fixed_input_size": false, "interpolation": "bicubic",
        "crop_pct": 0.875, "crop_mode": "center", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "num_classes": 1000,
        "pool_size": [7, 7], "first_conv": "conv_stem", "classifier": "classifier"}}"#;
    std::fs::write(folder.0.join("config.json"), config).unwrap();
    let model = load(&folder.0).unwrap();
    assert_eq!((model.num_classes(), model.input_size()), (1000, Size::square(224)));
    let rule = model.preprocess().unwrap();
    assert_eq!((rule.resize, rule.crop), (Resize::ShortSide(256), Some(Size::square(224))));
    assert_eq!(model.graph().norms().count(), 49);
}
