//! Transformer families against torchvision and timm: names and totals of the published networks, and logits, gradients
//! and Tent runs of small ones in double precision (`golden/transformers`).
#![forbid(unsafe_code)]

use flipcast_exec::{Executor, Network, NetworkOptions, NormMode};
use flipcast_models::{
    Architecture, ArchitectureConfig, Family, LoadRequest, Model, TensorInfo, VitConfig, count_parameters, recognise,
};
use flipcast_tensor::{Batch, DType, Shape};
use flipcast_testkit::{Loss, ReferenceExecutor, TensorFile, relative_l2};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bounds on the relative errors of the engine, measured 5.6e-7, 1.6e-6 and 1.03e-4. A delta is the change of an `f32`.
const ENGINE: Errors = Errors { running: 2e-6, features: 2e-6, logits: 2e-6, gradient: 6e-6, delta: 4e-4 };
/// Bounds on those of the double-precision executor, measured 3.6e-8, 3.1e-7, 7.4e-7 and 1.03e-4. It rounds to `f32` what goes
/// in and comes out, and so the affine vector after every step.
const REFERENCE: Errors = Errors { running: 1.4e-7, features: 1.4e-7, logits: 1.2e-6, gradient: 2.8e-6, delta: 4e-4 };

#[derive(Deserialize)]
struct Entry {
    parameters: usize,
    tensors: Vec<String>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    height: usize,
    width: usize,
    batch: usize,
    steps: usize,
    lr: f32,
    momentum: f32,
    mean_entropy: Vec<f64>,
    weights: String,
    inputs: String,
    expected: String,
}

/// The golden `file`: below `FLIPCAST_GOLDEN` where that is set and has it, else in the repository.
fn golden(file: &str) -> PathBuf {
    let file = PathBuf::from("transformers").join(file);
    let repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden"));
    let other = std::env::var_os("FLIPCAST_GOLDEN").map(|folder| PathBuf::from(folder).join(&file));
    match other {
        Some(path) if path.exists() => path,
        _ => repository.join(file),
    }
}

fn entries() -> BTreeMap<String, Entry> {
    let text = std::fs::read_to_string(golden("names.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(golden("index.json")).unwrap();
    serde_json::from_str(&text).unwrap()
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
fn totals_equal_the_published_ones() {
    for (key, entry) in entries() {
        let (_, name) = key.split_once('/').unwrap();
        let graph = Architecture::find(name).unwrap().config.build().unwrap();
        assert_eq!(count_parameters(&graph), entry.parameters, "{key}");
        let affine: usize = graph.norms().map(|(_, norm)| 2 * norm.channels).sum();
        assert_eq!(graph.affine_table().len(), affine, "{key}");
    }
}

#[test]
fn torchvision_s_names_are_kept() {
    for (key, entry) in entries() {
        let Some(name) = key.strip_prefix("torchvision/") else {
            continue;
        };
        let graph = Architecture::find(name).unwrap().config.build().unwrap();
        let lines = graph.params().into_iter().map(|param| {
            let extents: Vec<_> = param.shape.iter().map(ToString::to_string).collect();
            format!("{} {}", param.name, extents.join("x"))
        });
        let mut found: Vec<_> = lines.collect();
        // The packed projection is a layer here and a parameter of its module there.
        let spelt = |line: String| line.replace(".in_proj_", ".in_proj.");
        let mut expected: Vec<_> = entry.tensors.into_iter().map(spelt).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{key}");
    }
}

#[test]
fn published_names_are_recognised() {
    for (key, entry) in entries() {
        let (_, name) = key.split_once('/').unwrap();
        let found = recognise(&tensors_of(&entry)).unwrap();
        assert!(found.fit.is_exact(), "{key}: {}", found.fit);
        let wanted = Architecture::find(name).unwrap();
        let is_wanted = found.architecture.config == wanted.config;
        assert!(
            is_wanted || found.ties.contains(&wanted.name),
            "{key} was taken for {} or {:?}",
            found.architecture.name,
            found.ties
        );
    }
}

#[test]
fn small_networks_are_inferred_where_tensors_tell_all() {
    for case in cases() {
        let model = load(&case);
        let file = flipcast_models::WeightFile::open(golden(&case.weights)).unwrap();
        let tensors: Vec<TensorInfo> = file.tensors().cloned().collect();
        let found = recognise(&tensors).filter(|found| found.fit.is_exact());
        // Heads of a vision transformer and strides of an EfficientNet are in no tensor.
        let hidden = case.name.starts_with("vit") || case.name == "efficientnet";
        assert_eq!(found.is_some(), !hidden, "{}", case.name);
        if let Some(found) = found {
            let graph = found.architecture.config.build().unwrap();
            assert_eq!(graph, **model.graph(), "{}", case.name);
        }
    }
}

fn load(case: &Case) -> Model {
    Model::load(LoadRequest::new(&golden(&case.weights))).unwrap()
}

fn family(model: &Model, case: &Case) -> Family {
    let card = std::fs::read(golden(&case.weights).with_extension("json")).unwrap();
    let card = flipcast_models::ModelCard::read(&card).unwrap();
    let config = card.architecture.unwrap().config;
    assert_eq!(config.build().unwrap(), **model.graph());
    config.family()
}

fn options(case: &Case) -> NetworkOptions {
    NetworkOptions {
        threads: 2,
        taps: vec!["embedding".into()],
        ..NetworkOptions::adapt(case.batch, case.height, case.width)
    }
}

fn batches(case: &Case) -> Vec<Batch> {
    let file = TensorFile::load(&golden(&case.inputs)).unwrap();
    let extents = [case.batch, 3, case.height, case.width];
    let read = |step: usize| {
        let values = file.values(&step.to_string()).unwrap();
        let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        Batch::from_channels_first(extents, &values).unwrap()
    };
    (0..=case.steps).map(read).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// The parameters called `<prefix><name in the library>` as one vector in the order of the affine table.
fn flat(expected: &TensorFile, prefix: &str, family: Family, executor: &dyn Executor) -> Vec<f64> {
    let table = executor.affine_table();
    let mut values = vec![f64::NAN; table.len()];
    for name in expected.names() {
        let Some(parameter) = name.strip_prefix(prefix) else {
            continue;
        };
        let range = table.find(&family.canonical_name(parameter)).unwrap();
        values[range].copy_from_slice(expected.values(name).unwrap());
    }
    assert!(values.iter().all(|v| v.is_finite()), "{prefix}");
    values
}

/// The largest relative errors of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    running: f64,
    features: f64,
    logits: f64,
    gradient: f64,
    delta: f64,
}

impl Errors {
    fn assert_within(&self, bounds: &Self, case: &Case) {
        println!("{}: {self:?}", case.name);
        for (what, found, bound) in [
            ("running logits", self.running, bounds.running),
            ("features", self.features, bounds.features),
            ("logits", self.logits, bounds.logits),
            ("gradient", self.gradient, bounds.gradient),
            ("delta", self.delta, bounds.delta),
        ] {
            let name = &case.name;
            assert!(found <= bound, "{name}: {what} off by {found:e}, bound {bound:e}");
        }
    }
}

/// Tent from the first batch on, compared with the library's run.
fn compare(case: &Case, family: Family, executor: &mut dyn Executor) -> Errors {
    let expected = TensorFile::load(&golden(&case.expected)).unwrap();
    let batches = batches(case);
    let mut errors = Errors::default();
    let logits = wide(executor.forward(&batches[0]).unwrap().values());
    errors.running = relative_l2(&logits, expected.values("running_logits.0").unwrap());
    executor.set_norm_mode(NormMode::Batch).unwrap();
    let mut velocity = vec![0.0f32; executor.affine().len()];
    for (step, batch) in batches.iter().enumerate() {
        let logits = wide(executor.forward(batch).unwrap().values());
        let loss = Loss::MeanEntropy { classes: executor.num_classes() };
        let entropy = loss.value(&logits);
        assert!((entropy - case.mean_entropy[step]).abs() < 1e-3, "{entropy}");
        if step == 0 {
            let features = wide(executor.tap("embedding").unwrap().values());
            errors.features = relative_l2(&features, expected.values("features.0").unwrap());
        }
        let logit_gradient: Vec<f32> = loss.gradient(&logits).iter().map(|&v| v as f32).collect();
        let gradient = executor.backward(&logit_gradient).unwrap().to_vec();
        if let Ok(values) = expected.values(&format!("logits.{step}")) {
            errors.logits = errors.logits.max(relative_l2(&logits, values));
            let values = flat(&expected, &format!("gradient.{step}."), family, executor);
            errors.gradient = errors.gradient.max(relative_l2(&wide(&gradient), &values));
        }
        if step == 1 || step == case.steps {
            let moved = wide(executor.affine()).into_iter();
            let source = wide(executor.source_affine());
            let delta: Vec<f64> = moved.zip(source).map(|(a, b)| a - b).collect();
            let values = flat(&expected, &format!("delta.{step}."), family, executor);
            errors.delta = errors.delta.max(relative_l2(&delta, &values));
        }
        let affine = executor.affine_mut();
        for ((value, v), g) in affine.iter_mut().zip(&mut velocity).zip(&gradient) {
            *v = case.momentum * *v + g;
            *value -= case.lr * *v;
        }
    }
    errors
}

#[test]
fn the_double_precision_executor_equals_the_libraries() {
    for case in cases() {
        let model = load(&case);
        let options = options(&case);
        let mut executor = ReferenceExecutor::new(model.graph(), model.params(), options.plan_options()).unwrap();
        let errors = compare(&case, family(&model, &case), &mut executor);
        errors.assert_within(&REFERENCE, &case);
    }
}

#[test]
fn the_engine_equals_the_libraries() {
    for case in cases() {
        let model = load(&case);
        let mut network = Network::new(model.graph(), model.params(), &options(&case)).unwrap();
        let errors = compare(&case, family(&model, &case), &mut network);
        errors.assert_within(&ENGINE, &case);
    }
}

#[test]
fn the_tiny_imagenet_transformer_has_a_name() {
    let found = Architecture::find("vit_tiny_p8").unwrap();
    let config = VitConfig::new(64, 8, [256, 8, 4], 200);
    assert_eq!(found.config, ArchitectureConfig::Vit(config));
    let graph = found.config.build().unwrap();
    assert_eq!(count_parameters(&graph), 6_436_296);
}
