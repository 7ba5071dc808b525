//! Exported programs against PyTorch: logits and affine gradients of small networks in double precision (`golden/programs`),
//! and an imported network against the built-in one with the same weights.
#![forbid(unsafe_code)]

mod golden_network;

use flipcast_exec::{Exactness, Executor, Network, NetworkOptions, NormMode};
use flipcast_graph::Graph;
use flipcast_ground::Hint;
use flipcast_models::{Architecture, LoadRequest, Model, ModelError};
use flipcast_tensor::Tensor;
use flipcast_testkit::{Loss, ReferenceExecutor};
use golden_network::{BOTH, Expected, assert_within, wide};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bounds on the relative errors of logits and gradients of the engine, measured 1.4e-6 and 1.3e-5.
const ENGINE: [f64; 2] = [5e-6, 5e-5];
/// Bounds on those of the double-precision executor, which rounds to `f32` what goes in and comes out; measured
/// 4.7e-8 and 9.2e-8.
const REFERENCE: [f64; 2] = [1.8e-7, 3.6e-7];

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs"))
}

fn names() -> Vec<String> {
    let index = std::fs::read(golden().join("index.json")).unwrap();
    let index: Vec<serde_json::Value> = serde_json::from_slice(&index).unwrap();
    index.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

fn load(path: &Path) -> Result<Model, ModelError> {
    Model::load(LoadRequest::new(path))
}

#[test]
fn the_engine_equals_pytorch() {
    for name in names() {
        let model = load(&golden().join(format!("{name}.pt2"))).unwrap();
        let expected = Expected::load(&golden().join(format!("{name}.expected.safetensors")));
        let mut network = Network::new(model.graph(), model.params(), &expected.options()).unwrap();
        assert!(expected.has_all_norms(&network), "{name}");
        assert_within(&name, expected.compare(&mut network, BOTH), ENGINE);
    }
}

#[test]
fn the_double_precision_executor_equals_pytorch() {
    for name in names() {
        let model = load(&golden().join(format!("{name}.pt2"))).unwrap();
        let expected = Expected::load(&golden().join(format!("{name}.expected.safetensors")));
        let options = expected.options().plan_options();
        let mut executor = ReferenceExecutor::new(model.graph(), model.params(), options).unwrap();
        assert_within(&name, expected.compare(&mut executor, BOTH), REFERENCE);
    }
}

/// Logits of some steps of gradient descent, and the affine vector after them.
fn adapt(graph: &Graph, params: &HashMap<String, Tensor>, expected: &Expected) -> (Vec<f32>, Vec<f32>) {
    let mut network = Network::new(graph, params, &expected.options()).unwrap();
    network.set_norm_mode(NormMode::Batch).unwrap();
    let mut all = Vec::new();
    for _ in 0..3 {
        let logits = network.forward(&expected.batch).unwrap().values().to_vec();
        let loss = Loss::MeanEntropy { classes: network.num_classes() };
        let gradient: Vec<f32> = loss.gradient(&wide(&logits)).iter().map(|&v| v as f32).collect();
        let gradient = network.backward(&gradient).unwrap().to_vec();
        network.affine_mut().iter_mut().zip(gradient).for_each(|(value, g)| *value -= 0.1 * g);
        all.extend(logits);
    }
    (all, network.affine().to_vec())
}

#[test]
fn an_imported_resnet_adapts_as_the_built_in_one_bit_for_bit() {
    let model = load(&golden().join("resnet.pt2")).unwrap();
    let expected = Expected::load(&golden().join("resnet.expected.safetensors"));
    let built_in = Architecture::find("cifar_resnet8_w4").unwrap().with_classes(7).config.build().unwrap();
    let operators =
        |graph: &Graph| graph.nodes().iter().map(|node| (node.op.clone(), node.inputs.clone())).collect::<Vec<_>>();
    assert_eq!(operators(model.graph()), operators(&built_in));
    assert_eq!(model.graph().affine_table(), built_in.affine_table());
    let imported = adapt(model.graph(), model.params(), &expected);
    assert_eq!(imported, adapt(&built_in, model.params(), &expected));
}

#[test]
fn an_imported_vision_transformer_has_the_built_in_layers() {
    let model = load(&golden().join("vit.pt2")).unwrap();
    let names: Vec<&str> = model.graph().nodes().iter().map(|node| node.name.as_str()).collect();
    for name in
        ["conv_proj", "class_token", "encoder.pos_embedding", "encoder.layers.encoder_layer_1.mlp.3", "heads.head"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

#[test]
#[ignore = "needs the networks that tools/export_networks.py writes, in FLIPCAST_EXPORTS"]
fn networks_of_torchvision_and_timm_run() {
    let folder = PathBuf::from(std::env::var_os("FLIPCAST_EXPORTS").expect("FLIPCAST_EXPORTS names a folder"));
    let only = std::env::var("FLIPCAST_EXPORT").unwrap_or_default();
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let formats = std::env::var("FLIPCAST_EXPORT_FORMAT").unwrap_or("pt2".to_owned());
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|end| *end == *formats);
    let mut programs: Vec<PathBuf> = files.filter(is_wanted).collect();
    programs.sort();
    let mut running = 0;
    for path in &programs {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let numbers = folder.join(format!("{name}.expected.safetensors"));
        if !name.contains(&only) {
            continue;
        }
        match load(path) {
            Err(error) => {
                let mut causes = vec![error.to_string()];
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    causes.push(error.to_string());
                    cause = error.source();
                }
                println!("{name}: REFUSED {}", causes[1..].join(": "));
                println!("    hint: {}", error.hint().unwrap_or("none".to_owned()));
            }
            Ok(_) if !numbers.exists() => println!("{name}: loads, but nothing tells what it computes"),
            Ok(model) => {
                let expected = Expected::load(&numbers);
                // Small batches over small maps are badly conditioned, and PyTorch's own rounding crosses kinks too.
                let rounding = expected.file.values("float32_errors").unwrap();
                let within = |[logits, gradients]: [f64; 2]| {
                    logits <= (4.0 * rounding[0]).max(1e-4) && gradients <= (4.0 * rounding[1]).max(1e-3)
                };
                let run = |exactness| {
                    let options = NetworkOptions { exactness, ..expected.options() };
                    let mut network = Network::new(model.graph(), model.params(), &options).unwrap();
                    let errors =
                        [NormMode::Running, NormMode::Batch].map(|mode| expected.compare(&mut network, &[mode]));
                    (errors, expected.has_all_norms(&network))
                };
                let (mut errors, has_all_norms) = run(Exactness::Fast);
                let mut sums = "";
                if !errors.into_iter().all(within) {
                    // Sums in double precision, so that few activations round to the other side of a kink.
                    (errors, _) = run(Exactness::Double);
                    sums = " (double sums)";
                }
                // Gradients are not compared without all norms, and a network without its norms is not the same.
                let verdict = match (errors.into_iter().all(within), has_all_norms) {
                    (true, true) => "ok",
                    (_, false) => "LACKS NORMS",
                    (false, true) => "DIFFERS",
                };
                running += usize::from(verdict == "ok");
                let [[logits, gradients], [batch_logits, batch_gradients]] = errors;
                println!(
                    "{name}: {verdict}{sums} running statistics: logits {logits:.1e}, gradients {gradients:.1e}; \
                     batch statistics: {batch_logits:.1e}, {batch_gradients:.1e}; PyTorch in float32 {:.1e}, {:.1e}",
                    rounding[0], rounding[1],
                );
            }
        }
    }
    println!("{running} of {} networks run", programs.len());
}
