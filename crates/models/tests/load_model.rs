//! Weight files to models: where the architecture comes from, and what is refused.

use flipcast_ground::Hint;
use flipcast_images::preprocess::{Preprocess, Size};
use flipcast_models::{
    CardError, Format, ImportError, LoadRequest, Model, ModelCard, ModelError, WeightTag, inspect_file,
};
use flipcast_tensor::{DType, Shape, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind hurts no other test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tensors_of(architecture: &str, classes: usize) -> BTreeMap<String, Tensor> {
    let model = Model::random(architecture, classes, 1).unwrap();
    HashMap::clone(model.params()).into_iter().collect()
}

fn safetensors(tensors: &BTreeMap<String, Tensor>, metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, tensor) in tensors {
        let start = data.len();
        for value in tensor.values() {
            data.extend_from_slice(&value.to_le_bytes());
        }
        let shape = tensor.shape().extents();
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    if !metadata.is_empty() {
        let metadata: BTreeMap<_, _> = metadata.iter().copied().collect();
        header.insert("__metadata__".into(), serde_json::json!(metadata));
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&data);
    bytes
}

fn load(path: &Path) -> Result<Model, ModelError> {
    Model::load(LoadRequest::new(path))
}

fn load_as(path: &Path, architecture: &str) -> Result<Model, ModelError> {
    Model::load(LoadRequest { architecture: Some(architecture), ..LoadRequest::new(path) })
}

#[test]
fn a_file_without_any_word_is_recognised() {
    let folder = Folder::new("recognised");
    let tensors = tensors_of("cifar_resnet8_w4_a", 7);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let model = load(&path).unwrap();
    assert_eq!(model.architecture(), "cifar_resnet8_w4_a");
    assert_eq!((model.name(), model.num_classes()), ("net", 7));
    assert_eq!(model.param("fc.bias"), tensors.get("fc.bias"));
    assert_eq!(model.weights_sha256().map(str::len), Some(64));
    assert!(model.preprocess().is_none());
}

#[test]
fn timm_names_load_as_torchvision_s() {
    let folder = Folder::new("timm");
    let mut tensors = tensors_of("mobilenet_v2", 3);
    for (torchvision, timm) in [
        ("features.0.0.weight", "conv_stem.weight"),
        ("features.17.conv.3.bias", "blocks.6.0.bn3.bias"),
        ("classifier.1.weight", "classifier.weight"),
    ] {
        let tensor = tensors.remove(torchvision).unwrap();
        tensors.insert(timm.into(), tensor);
    }
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let model = load(&path).unwrap();
    assert_eq!(model.architecture(), "mobilenet_v2");
    assert_eq!(model.param("features.0.0.weight"), tensors.get("conv_stem.weight"));
}

#[test]
fn a_tie_must_be_settled_by_name() {
    let folder = Folder::new("tie");
    let tensors = tensors_of("efficientnet_lite0", 3);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let error = load(&path).unwrap_err();
    let ModelError::Ambiguous { ref candidates, .. } = error else { panic!("{error}") };
    assert_eq!(candidates, &["efficientnet_lite0", "tf_efficientnet_lite0"]);
    let request =
        LoadRequest { architecture: Some("tf_efficientnet_lite0"), classes: Some(3), ..LoadRequest::new(&path) };
    assert_eq!(Model::load(request).unwrap().architecture(), "tf_efficientnet_lite0");
}

#[test]
fn metadata_may_name_the_architecture() {
    let folder = Folder::new("metadata");
    let tensors = tensors_of("tf_efficientnet_lite0", 1000);
    let bytes = safetensors(&tensors, &[("architecture", "tf_efficientnet_lite0.in1k")]);
    let model = load(&folder.write("net.safetensors", &bytes)).unwrap();
    assert_eq!(model.name(), "tf_efficientnet_lite0.in1k");
    let tag = WeightTag::find("tf_efficientnet_lite0.in1k").unwrap();
    assert_eq!(model.require_preprocess().unwrap(), &(tag.preprocess)());
}

#[test]
fn a_card_beside_or_inside_the_file_gives_the_rest() {
    let folder = Folder::new("card");
    let tensors = tensors_of("cifar_resnet8_w4", 2);
    let card = r#"{"flipcast_model": 1, "name": "tiny.pets", "architecture": "cifar_resnet8_w4", "classes": ["cat", "dog"],
        "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "resize": {"short_side": 256}, "crop": 224}"#;
    let inside = safetensors(&tensors, &[("flipcast_card", card)]);
    let inside = folder.write("inside.safetensors", &inside);
    let beside = folder.write("beside.v1.safetensors", &safetensors(&tensors, &[]));
    folder.write("beside.v1.json", card.as_bytes());
    for path in [inside, beside] {
        let model = load(&path).unwrap();
        assert_eq!(model.name(), "tiny.pets");
        assert_eq!(model.class_names().unwrap(), ["cat", "dog"]);
        assert_eq!(model.preprocess(), Some(&Preprocess::torchvision_v1()));
        assert_eq!(model.input_size(), Size::square(224));
    }
}

#[test]
fn a_card_for_another_file_is_refused() {
    let folder = Folder::new("other");
    let tensors = tensors_of("cifar_resnet8_w4", 2);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let model = load(&path).unwrap();
    let mut card = ModelCard {
        name: None,
        architecture: Some(flipcast_models::Architecture::find("cifar_resnet8_w4").unwrap().with_classes(2)),
        classes: 2,
        class_names: None,
        preprocess: Preprocess::torchvision_v1(),
        weights_sha256: model.weights_sha256().map(str::to_uppercase),
    };
    folder.write("net.json", card.to_json().as_bytes());
    assert!(load(&path).is_ok());
    card.weights_sha256 = Some("0".repeat(64));
    folder.write("net.json", card.to_json().as_bytes());
    assert!(matches!(load(&path), Err(ModelError::OtherWeights { .. })));
}

#[test]
fn a_broken_card_is_not_passed_over() {
    let folder = Folder::new("broken");
    let tensors = tensors_of("cifar_resnet8_w4", 2);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    folder.write("net.json", b"{\"flipcast_model\": 1");
    let error = load(&path).unwrap_err();
    let ModelError::Card { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, CardError::Json { .. }));
    let request = LoadRequest { card: Some(Path::new("/nowhere/card.json")), ..LoadRequest::new(&path) };
    assert!(matches!(Model::load(request), Err(ModelError::Card { .. })));
}

#[test]
fn a_json_file_that_is_no_card_is_ignored_with_a_note() {
    let folder = Folder::new("unrelated");
    let tensors = tensors_of("cifar_resnet8_w4", 2);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    assert!(load(&path).unwrap().notes().is_empty());
    for text in ["{\"model\": {\"name\": \"net\"}, \"architecture\": 3}", "[1, 2]", "half a sentence"] {
        folder.write("net.json", text.as_bytes());
        let model = load(&path).unwrap();
        assert_eq!(model.architecture(), "cifar_resnet8_w4");
        let [note] = model.notes() else { panic!("{:?}", model.notes()) };
        assert!(note.contains("net.json") && note.contains("no model card"), "{note}");
    }
    for text in
        ["{\"architecture\": \"resnet18\", \"num_classes\": 2}", "{\"architecture\": \"resnet18\", \"mean\": [0"]
    {
        folder.write("net.json", text.as_bytes());
        assert!(matches!(load(&path), Err(ModelError::Card { .. })), "{text}");
    }
}

#[test]
fn a_card_that_contradicts_the_name_of_published_weights_is_refused() {
    let folder = Folder::new("conflict");
    let tensors = tensors_of("cifar_resnet20", 10);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let tag = WeightTag::find("resnet20.cifar10").unwrap();
    let mut card = ModelCard {
        name: None,
        architecture: Some(tag.architecture()),
        classes: tag.classes,
        class_names: Some((0..10).map(|class| format!("class {class}")).collect()),
        preprocess: (tag.preprocess)(),
        weights_sha256: None,
    };
    folder.write("net.json", card.to_json().as_bytes());
    let model = load_as(&path, "resnet20.cifar10").unwrap();
    assert_eq!(model.class_names().unwrap()[3], "class 3");
    card.preprocess = Preprocess { crop: Some(Size::square(28)), ..card.preprocess };
    folder.write("net.json", card.to_json().as_bytes());
    let error = load_as(&path, "resnet20.cifar10").unwrap_err();
    assert!(matches!(error, ModelError::CardConflict { .. }) && error.hint().is_some());
    let text = error.to_string();
    assert!(text.contains("net.json` and the name `resnet20.cifar10` disagree"), "{text}");
    assert!(text.ends_with("`crop` is {\"height\":28,\"width\":28} in the card and null by the name"), "{text}");
    assert_eq!(load(&path).unwrap().input_size(), Size::square(28));
}

#[test]
fn another_class_count_gets_a_hint() {
    let folder = Folder::new("classes");
    let tensors = tensors_of("resnet18", 10);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let error = load_as(&path, "resnet18.tv_in1k").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tensors do not fit `resnet18.tv_in1k`: 2 mismatched: `fc.weight` has shape [10, 512], expected [1000, 512], \
         `fc.bias` has shape [10], expected [1000]"
    );
    let hint = error.hint().unwrap();
    assert_eq!(hint, "the head was trained for 10 classes; ask for that many");
    let request = LoadRequest { architecture: Some("resnet18"), classes: Some(10), ..LoadRequest::new(&path) };
    assert_eq!(Model::load(request).unwrap().num_classes(), 10);
}

#[test]
fn missing_unused_and_mismatched_are_reported_together() {
    let folder = Folder::new("everything");
    let mut tensors = tensors_of("cifar_resnet8_w4", 5);
    tensors.remove("layer1.0.bn2.bias").unwrap();
    tensors.insert("bn1.bias".into(), Tensor::zeros([9]));
    tensors.insert("auxiliary.weight".into(), Tensor::zeros([1]));
    tensors.insert("bn1.num_batches_tracked".into(), Tensor::zeros(Shape::new([])));
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    let request = LoadRequest { architecture: Some("cifar_resnet8_w4"), classes: Some(5), ..LoadRequest::new(&path) };
    let error = Model::load(request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tensors do not fit `cifar_resnet8_w4`: 1 mismatched: `bn1.bias` has shape [9], expected [4]; \
         1 missing: `layer1.0.bn2.bias`; 1 unused: `auxiliary.weight`"
    );
    let error = load(&path).unwrap_err();
    assert!(matches!(error, ModelError::NotRecognised { best: Some(_), .. }));
}

#[test]
fn values_that_are_not_finite_name_their_tensor() {
    let folder = Folder::new("finite");
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut tensors = tensors_of("cifar_resnet8_w4", 5);
        let tensor = tensors.get_mut("layer2.0.downsample.0.weight").unwrap();
        tensor.values_mut()[3] = value;
        let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
        let error = load(&path).unwrap_err();
        let ModelError::NotFinite { tensor, index, .. } = error else { panic!("{error}") };
        assert_eq!((tensor.as_str(), index), ("layer2.0.downsample.0.weight", 3));
    }
}

#[test]
fn unknown_names_and_files_are_refused() {
    let folder = Folder::new("unknown");
    let tensors = tensors_of("cifar_resnet8_w4", 5);
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[]));
    for name in ["resnet51", "resnet50.tv9_in1k", "cifar_resnet9"] {
        let error = load_as(&path, name).unwrap_err();
        assert!(matches!(error, ModelError::Architecture(_)), "{error}");
    }
    let error = load(&folder.0.join("absent.pth")).unwrap_err();
    let ModelError::Import { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, ImportError::Read { .. }));
}

#[test]
fn a_summary_tells_what_a_file_holds() {
    let folder = Folder::new("summary");
    let mut tensors = tensors_of("wrn_40_2", 6);
    tensors.remove("fc.bias").unwrap();
    let path = folder.write("net.safetensors", &safetensors(&tensors, &[("by", "us")]));
    let summary = inspect_file(&path).unwrap();
    assert_eq!(summary.format, Format::Safetensors);
    assert_eq!(summary.dtypes, [(DType::F32, 189)]);
    assert_eq!(summary.parameters, 2_243_546 - 4 * 128 - 10);
    assert_eq!(summary.metadata, [("by".to_owned(), "us".to_owned())]);
    let best = summary.best.unwrap();
    assert_eq!(best.architecture.name, "wrn_40_2");
    assert_eq!(best.fit.missing, ["fc.bias"]);
}
