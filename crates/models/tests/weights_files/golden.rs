//! The files in `golden/weights` against what their `manifest.json` says.

use flipcast_models::{ImportError, WeightFile};
use flipcast_tensor::Tolerance;
use serde_json::Value;
use std::path::PathBuf;

fn folder() -> PathBuf {
    let root = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    root.join("weights")
}

fn manifest() -> serde_json::Map<String, Value> {
    let path = folder().join("manifest.json");
    let text = std::fs::read_to_string(&path).expect("the manifest is part of the golden data");
    let manifest: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    manifest["files"].as_object().expect("files by name").clone()
}

fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).expect("a list of strings")
}

fn check(file: &str, weights: &WeightFile, expected: &Value) {
    assert_eq!(weights.format().to_string(), expected["format"], "{file}");
    assert_eq!(weights.prefix(), expected["prefix"], "{file}");
    assert_eq!(weights.nesting(), strings(&expected["nesting"]), "{file}");
    assert_eq!(weights.skipped(), strings(&expected["skipped"]), "{file}");
    assert_eq!(weights.sha256(), expected["sha256"], "{file}");
    let metadata = serde_json::to_value(weights.metadata()).expect("text to text");
    assert_eq!(metadata, expected["metadata"], "{file}");
    let tensors = expected["tensors"].as_object().expect("tensors by name");
    assert_eq!(weights.tensors().len(), tensors.len(), "{file}");
    for info in weights.tensors() {
        let what = format!("{file}: {}", info.name);
        let expected = tensors.get(&info.name).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(info.dtype.to_string(), expected["dtype"], "{what}");
        let shape = serde_json::to_value(info.shape.extents()).expect("integers");
        assert_eq!(shape, expected["shape"], "{what}");
        let values: Vec<f64> = serde_json::from_value(expected["values"].clone()).expect("numbers");
        // The manifest holds f32 values in decimal, so this narrowing changes nothing.
        let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
        let tensor = weights.load(&info.name).expect("a listed tensor loads");
        assert_eq!(tensor.shape(), &info.shape, "{what}");
        Tolerance::Exact.check(&what, tensor.values(), &values);
    }
}

#[test]
fn every_format_gives_the_values_that_were_saved() {
    let manifest = manifest();
    assert_eq!(manifest.len(), 36);
    for (file, expected) in &manifest {
        let weights = WeightFile::open(folder().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        check(file, &weights, expected);
    }
}

#[test]
fn bytes_in_memory_read_like_a_file() {
    for (file, expected) in &manifest() {
        let bytes = std::fs::read(folder().join(file)).expect("listed in the manifest");
        let weights = WeightFile::from_bytes(bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        check(file, &weights, expected);
    }
}

fn refusal(file: &str) -> ImportError {
    WeightFile::open(folder().join(file)).expect_err("the file must be refused")
}

#[test]
fn two_state_dicts_are_an_error_that_names_both() {
    let ImportError::AmbiguousStateDict { candidates } = refusal("ambiguous.pth") else {
        panic!("expected the candidates");
    };
    assert_eq!(candidates, ["state_dict", "ema"]);
    for candidate in &candidates {
        let weights = WeightFile::open_within(folder().join("ambiguous.pth"), candidate);
        let weights = weights.expect("one of the candidates was chosen");
        assert_eq!(weights.nesting(), std::slice::from_ref(candidate));
        assert_eq!(weights.tensors().len(), 7);
    }
}

#[test]
fn an_absent_choice_says_what_is_there() {
    let error = WeightFile::open_within(folder().join("ambiguous.pth"), "model").expect_err("there is no such key");
    assert_eq!(error.to_string(), "no state dict in `model`, found a dict of `state_dict`, `ema`");
    let error =
        WeightFile::open_within(folder().join("f32.safetensors"), "model").expect_err("safetensors do not nest");
    assert!(matches!(error, ImportError::NoStateDict { .. }), "{error}");
}

#[test]
fn an_expanded_tensor_is_refused() {
    let error = refusal("expanded.pth");
    assert!(matches!(error, ImportError::RepeatedElements { .. }), "{error}");
}

#[test]
fn complex_weights_are_refused_by_type() {
    let error = refusal("complex.pth");
    assert!(matches!(error, ImportError::UnsupportedDType { .. }), "{error}");
}

#[test]
fn a_pickled_model_is_refused_by_its_class() {
    let ImportError::ForbiddenGlobal { module, name } = refusal("whole_model.pth") else {
        panic!("expected the class");
    };
    assert_eq!((&module[..], &name[..]), ("torch.nn.modules.container", "Sequential"));
}

#[test]
fn a_pickle_of_another_program_is_refused() {
    let error = refusal("plain.pickle");
    assert!(matches!(error, ImportError::PlainPickle), "{error}");
}

#[test]
fn an_unknown_name_is_an_error() {
    let weights = WeightFile::open(folder().join("f32.safetensors")).expect("a good file");
    let error = weights.load("conv.bias").expect_err("not in the file");
    assert!(matches!(error, ImportError::MissingTensor { held: 2, .. }), "{error}");
    assert!(weights.info("conv.bias").is_none());
    assert!(weights.info("conv.weight").is_some());
}
