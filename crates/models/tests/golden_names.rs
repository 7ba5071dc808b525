//! Parameter names, extents and totals against the published implementations.

use flipcast_models::{
    Architecture, Block, LoadRequest, Model, ResNetConfig, Stem, TensorInfo, WeightFile, build_resnet,
    count_parameters, recognise,
};
use flipcast_tensor::{DType, Shape};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Entry {
    parameters: usize,
    tensors: Vec<String>,
}

/// The fields of `tta/index.json` that describe a network; the others are about methods.
#[derive(Deserialize)]
struct Case {
    block: Block,
    widths: Vec<usize>,
    layers: Vec<usize>,
    stem: Stem,
    classes: usize,
    size: usize,
    weights: String,
}

/// The golden `file`: below `FLIPCAST_GOLDEN` where that is set and has it, else in the repository.
fn golden(file: &str) -> PathBuf {
    let repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"));
    let other = std::env::var_os("FLIPCAST_GOLDEN").map(|folder| PathBuf::from(folder).join(file));
    match other {
        Some(path) if path.exists() => path,
        _ => repository.join(file),
    }
}

fn entries() -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(golden("models/names.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn names_of(architecture: &str) -> Vec<String> {
    let graph = Architecture::find(architecture).unwrap().config.build().unwrap();
    let params = graph.params().into_iter();
    params
        .map(|param| {
            let extents: Vec<_> = param.shape.iter().map(ToString::to_string).collect();
            format!("{} {}", param.name, extents.join("x"))
        })
        .collect()
}

fn tensors_of(entry: &Entry) -> Vec<TensorInfo> {
    let parse = |line: &String| {
        let (name, extents) = line.split_once(' ').unwrap();
        let extents: Vec<usize> = extents.split('x').map(|n| n.parse().unwrap()).collect();
        TensorInfo { name: name.to_owned(), dtype: DType::F32, shape: Shape::new(extents) }
    };
    entry.tensors.iter().map(parse).collect()
}

#[test]
fn names_extents_and_order_equal_the_published_ones() {
    let mut compared = 0;
    for (key, entry) in entries() {
        let (source, name) = key.split_once('/').unwrap();
        let architecture = Architecture::find(name).unwrap();
        let graph = architecture.config.build().unwrap();
        assert_eq!(count_parameters(&graph), entry.parameters, "{key}");
        // timm's MobileNetV2 and lukemelas' EfficientNet have names of their own, which are mapped when weights are fitted.
        if (source, name) != ("timm", "mobilenetv2_100") && source != "lukemelas" {
            assert_eq!(names_of(name), entry.tensors, "{key}");
            compared += 1;
        }
    }
    assert_eq!(compared, 18);
}

#[test]
fn published_names_are_recognised() {
    for (key, entry) in entries() {
        let (_, name) = key.split_once('/').unwrap();
        let found = recognise(&tensors_of(&entry)).unwrap();
        assert!(found.fit.is_exact(), "{key}: {}", found.fit);
        let wanted = Architecture::find(name).unwrap().name;
        let mut names = found.ties;
        names.push(found.architecture.name);
        assert!(names.contains(&wanted), "{key} was taken for {names:?}");
    }
}

#[test]
fn golden_networks_load_by_their_tensors_alone() {
    let index = std::fs::read_to_string(golden("tta/index.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&index).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let path = golden(&format!("tta/{}", case.weights));
        let model = Model::load(LoadRequest::new(&path)).unwrap();
        let config = ResNetConfig::plain(case.block, case.stem, &case.widths, &case.layers, case.classes);
        assert_eq!(**model.graph(), build_resnet(&config).unwrap());
        assert!(model.graph().infer_dims(case.size, case.size).is_ok());
        let weights = WeightFile::open(&path).unwrap();
        let stem = weights.load("conv1.weight").unwrap();
        assert_eq!(model.param("conv1.weight"), Some(&stem));
    }
}
