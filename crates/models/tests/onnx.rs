//! ONNX files against PyTorch: the networks of `golden/programs` by every exporter (`golden/onnx`).
#![forbid(unsafe_code)]

mod golden_network;

use flipcast_exec::{Exactness, Executor, Network, NetworkOptions, NormMode};
use flipcast_graph::{AffineTable, Graph, NodeId, Op, Plan, PlanOptions, Purpose};
use flipcast_models::{Architecture, LayerStatistics, LoadRequest, Model, ModelError, RestoredNorms, WeightFile};
use golden_network::{BOTH, Expected, assert_within};
use std::path::{Path, PathBuf};

/// Bounds on the relative errors of logits and gradients, measured 1.4e-6 and 1.3e-5.
const ENGINE: [f64; 2] = [5e-6, 5e-5];
/// Bounds where weights are stored in half precision; logits measured 1.4e-3.
const HALF: [f64; 2] = [5e-3, 0.0];

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/onnx"))
}

/// Name and kind of every file.
fn files() -> Vec<(String, String)> {
    let index = std::fs::read(golden().join("index.json")).unwrap();
    let index: Vec<serde_json::Value> = serde_json::from_slice(&index).unwrap();
    let text = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_owned();
    index.iter().map(|entry| (text(entry, "name"), text(entry, "kind"))).collect()
}

fn load(path: &Path) -> Result<Model, ModelError> {
    Model::load(LoadRequest::new(path))
}

#[test]
fn the_engine_equals_pytorch() {
    for (name, kind) in files() {
        let file = format!("{name}.{kind}.onnx");
        let model = load(&golden().join(&file)).unwrap_or_else(|error| panic!("{file}: {}", causes(&error)));
        let expected = Expected::load(&golden().join(format!("../programs/{name}.expected.safetensors")));
        let mut network = Network::new(model.graph(), model.params(), &expected.options()).unwrap();
        // Folded batch norms leave nothing that a batch could change.
        let folded = matches!(kind.as_str(), "folded" | "external" | "half");
        assert!(folded || expected.has_all_norms(&network), "{file}");
        let modes = if expected.has_all_norms(&network) { BOTH } else { &[NormMode::Running] };
        let bounds = if kind == "half" { HALF } else { ENGINE };
        assert_within(&file, expected.compare(&mut network, modes), bounds);
    }
}

/// Operators and inputs of every node, and the names of what adapts: what plans are made of. Sums are the same either way round.
fn layers(graph: &Graph) -> (Vec<(Op, Vec<NodeId>)>, AffineTable) {
    let nodes = graph.nodes().iter().map(|node| {
        let mut inputs = node.inputs.clone();
        if node.op == Op::Add {
            inputs.sort_unstable();
        }
        (node.op.clone(), inputs)
    });
    (nodes.collect(), graph.affine_table())
}

/// The exporter writes a bias of zeros for convolutions without one, and a mean over pixels for the pool.
#[test]
fn a_file_with_kept_norms_has_the_plan_of_the_built_in_network() {
    let built_in = Architecture::find("cifar_resnet8_w4").unwrap().with_classes(7).config.build().unwrap();
    for kind in ["kept", "script", "script13"] {
        let model = load(&golden().join(format!("resnet.{kind}.onnx"))).unwrap();
        assert_eq!(layers(model.graph()), layers(&built_in), "{kind}");
        let plan = |graph: &Graph| {
            let options = PlanOptions { batch: 4, height: 16, width: 16, purpose: Purpose::Adapt, taps: Vec::new() };
            let plan = Plan::new(graph, options).unwrap();
            (plan.forward().to_vec(), plan.backward().to_vec(), plan.arena_len())
        };
        assert_eq!(plan(model.graph()), plan(&built_in), "{kind}");
    }
}

#[test]
#[ignore = "needs the networks that tools/export_networks.py writes, in FLIPCAST_EXPORTS"]
fn exported_networks_have_the_plans_of_built_in_ones() {
    let folder = PathBuf::from(std::env::var_os("FLIPCAST_EXPORTS").expect("FLIPCAST_EXPORTS names a folder"));
    for name in ["resnet50", "mobilenet_v2"] {
        let built_in = Architecture::find(name).unwrap().with_classes(10).config.build().unwrap();
        for format in ["pt2", "onnx"] {
            let model = load(&folder.join(format!("torchvision.{name}.{format}"))).unwrap();
            assert_eq!(layers(model.graph()), layers(&built_in), "{name} {format}");
            println!("{name} {format}: {} nodes, as the built-in network", built_in.nodes().len());
        }
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A folder of its own with a copy of the network whose weights lie beside it.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("flipcast-onnx-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(golden().join("resnet.external.onnx"), folder.join("net.onnx")).unwrap();
        Self(folder)
    }

    fn data(&self) -> PathBuf {
        self.0.join("resnet.external.onnx.data")
    }

    fn load(&self) -> String {
        match load(&self.0.join("net.onnx")) {
            Ok(_) => "loaded".into(),
            Err(error) => causes(&error),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn weights_beside_the_file_must_be_there_in_full() {
    let copy = Copy::new("missing");
    assert!(copy.load().contains("cannot read"), "{}", copy.load());
    let data = std::fs::read(golden().join("resnet.external.onnx.data")).unwrap();
    std::fs::write(copy.data(), &data[..data.len() / 2]).unwrap();
    assert!(copy.load().contains("external data"), "{}", copy.load());
    std::fs::write(copy.data(), &data).unwrap();
    assert_eq!(copy.load(), "loaded");
}

#[test]
fn weights_outside_the_folder_are_refused() {
    let bytes = std::fs::read(golden().join("resnet.external.onnx")).unwrap();
    let name = b"resnet.external.onnx.data";
    for other in [&b"../et.external.onnx.data/"[..], b"/tmp/t.external.onnx.data", b"a/../external.onnx.data.."] {
        let mut damaged = bytes.clone();
        while let Some(at) = damaged.windows(name.len()).position(|part| part == name) {
            damaged[at..at + name.len()].copy_from_slice(&other[..name.len()]);
        }
        let copy = Copy::new("outside");
        std::fs::write(copy.0.join("net.onnx"), damaged).unwrap();
        assert!(copy.load().contains("expected a file in the model's folder"), "{}", copy.load());
    }
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_refused() {
    let copy = Copy::new("link");
    let data = golden().join("resnet.external.onnx.data").canonicalize().unwrap();
    std::os::unix::fs::symlink(data, copy.data()).unwrap();
    assert!(copy.load().contains("expected a file in the model's folder"), "{}", copy.load());
}

#[test]
fn weights_beside_the_file_are_part_of_its_hash() {
    let copy = Copy::new("hash");
    let mut data = std::fs::read(golden().join("resnet.external.onnx.data")).unwrap();
    std::fs::write(copy.data(), &data).unwrap();
    let hash = || WeightFile::open(copy.0.join("net.onnx")).unwrap().sha256();
    let before = hash();
    data[0] ^= 1;
    std::fs::write(copy.data(), &data).unwrap();
    assert_ne!(hash(), before);
}

#[test]
fn an_operator_that_is_not_known_is_named_with_its_place() {
    let mut bytes = std::fs::read(golden().join("resnet.script.onnx")).unwrap();
    while let Some(at) = bytes.windows(7).position(|part| part == b"MaxPool" || part == b"Flatten") {
        bytes[at..at + 7].copy_from_slice(b"Unknown");
    }
    let file = WeightFile::from_bytes(bytes).unwrap();
    let error = Model::from_program(&file).unwrap_err();
    let text = causes(&error);
    assert!(text.contains("`Unknown`") && text.contains("not among"), "{text}");
}

/// Statistics of every layer that may have had a norm, over all pixels of the expected batch.
#[test]
fn a_list_of_endless_axes_is_refused() {
    // A damaged golden in which a range of half a million numbers has become the axes of an `Unsqueeze`.
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/damaged/endless_axes.onnx"));
    let error = causes(&load(path).unwrap_err());
    assert!(error.contains("numbers, expected at most 1024"), "{error}");
}

fn statistics(model: &Model, expected: &Expected) -> RestoredNorms {
    let layers = model.folded_layers();
    let options = NetworkOptions { taps: layers.clone(), exactness: Exactness::Double, ..expected.options() };
    let mut network = Network::new(model.graph(), model.params(), &options).unwrap();
    network.forward(&expected.batch).unwrap();
    let layers = layers.into_iter().map(|layer| {
        let values = network.tap(&layer).unwrap();
        let channels = *values.shape().extents().last().unwrap();
        let of = |c: usize| values.values().iter().skip(c).step_by(channels).map(|&v| f64::from(v));
        let count = (values.values().len() / channels) as f64;
        let mean: Vec<f64> = (0..channels).map(|c| of(c).sum::<f64>() / count).collect();
        let variance = (0..channels).map(|c| (of(c).map(|v| (v - mean[c]).powi(2)).sum::<f64>() / count) as f32);
        let variance = variance.collect();
        LayerStatistics { layer, mean: mean.iter().map(|&mean| mean as f32).collect(), variance }
    });
    RestoredNorms { model_sha256: None, images: expected.batch.images(), crop: None, layers: layers.collect() }
}

/// Restored norms change nothing with running statistics. `enliven` made the running statistics of the golden network those of this
/// very batch, so that with batch statistics, too, it must compute what the network did before folding: but for the unbiased
/// variance, of which the last layers have few values.
#[test]
fn restored_norms_give_the_network_from_before_folding() {
    let model = load(&golden().join("resnet.folded.onnx")).unwrap();
    let expected = Expected::load(&golden().join("../programs/resnet.expected.safetensors"));
    let norms = statistics(&model, &expected);
    assert_eq!(norms.layers.len(), 9);
    let restored = model.with_restored_norms(&norms).unwrap();
    let mut network = Network::new(restored.graph(), restored.params(), &expected.options()).unwrap();
    assert_within("running", expected.compare(&mut network, &[NormMode::Running]), ENGINE);
    // Measured 8.4e-3.
    let [logits, _] = expected.compare(&mut network, &[NormMode::Batch]);
    println!("batch statistics: {logits:.1e}");
    assert!(logits < 2e-2, "{logits}");
}
