//! Adaptation methods on the GPU against published implementations run in double precision (`golden/tta`).
//!
//! Without a GPU these tests say so and check nothing. Strict single precision is held to the folder's own bounds, pass by
//! pass, at the double-precision reference's affine vector; the rounding precisions to what was measured. Methods that have
//! whole steps on the device are compared with the same steps made of passes.

use flipcast_adapt::{
    Adapter, Bn, BnConfig, Cpl, CplConfig, Eata, EataConfig, EntropyMargin, Eta, EtaConfig, OptimizerConfig, Rdumb,
    RdumbConfig, RedundancyMargin, Rpl, RplConfig, Sar, SarConfig, Source, Tent, TentConfig,
};
use flipcast_cuda::{CudaNetwork, CudaOptions, Precision, report};
use flipcast_exec::{Executor, Logits, NetworkOptions, NormMode};
use flipcast_testkit::{GoldenCase, Lead, Pair, ReferenceExecutor, crossing_taps, golden_index, relative_l2};

#[path = "golden/steps.rs"]
mod steps;

/// The golden folder's own bounds, relative, for logits and for gradients at the same affine vector.
const LOGITS: f64 = 1e-4;
const GRADIENT: f64 = 1e-3;
/// Rounding moves an activation across a kink only if it lies this near, as a share of the root mean square.
const CROSSING: f64 = 1e-5;

fn margin() -> f64 {
    // The goldens have the threshold of 1000 classes throughout.
    0.4 * 1000f64.ln()
}

/// Batches on which EATA measures before its first step.
const CLEAN_BATCHES: usize = 2;

/// The method of a case.
fn adapter(case: &GoldenCase) -> Box<dyn Adapter> {
    let optimizer = OptimizerConfig::sgd(case.lr as f32);
    let entropy_margin = EntropyMargin::Nats(margin());
    let tent = |optimizer| TentConfig { optimizer, ..TentConfig::imagenet() };
    let eta = EtaConfig {
        optimizer,
        norm_mode: NormMode::Batch,
        entropy_margin,
        redundancy_margin: RedundancyMargin::Cosine(case.d_margin),
        published_code: true,
        ..EtaConfig::imagenet()
    };
    let rpl = RplConfig { optimizer, ..RplConfig::imagenet() };
    let cpl = CplConfig { optimizer, ..CplConfig::imagenet() };
    let rdumb = |start| RdumbConfig { eta: eta.clone(), reset_every: 1000, start };
    let eata = EataConfig { eta: eta.clone(), fisher_alpha: case.fisher_alpha };
    let sar = SarConfig { optimizer, entropy_margin, published_code: true, ..SarConfig::imagenet() };
    match case.method.as_str() {
        "source" => Box::new(Source::new()),
        "bn" => Box::new(Bn::new(BnConfig::batch()).unwrap()),
        "tent" => Box::new(Tent::new(tent(optimizer)).unwrap()),
        "tent_adam" => Box::new(Tent::new(tent(OptimizerConfig::adam(1e-3))).unwrap()),
        "rpl" => Box::new(Rpl::new(rpl).unwrap()),
        "cpl" => Box::new(Cpl::new(cpl).unwrap()),
        "eta" => Box::new(Eta::new(eta.clone()).unwrap()),
        "rdumb" => Box::new(Rdumb::new(rdumb(case.start.unwrap())).unwrap()),
        "eata" => Box::new(Eata::new(eata).unwrap()),
        "sar" => Box::new(Sar::new(sar).unwrap()),
        other => panic!("`{other}` is not implemented"),
    }
}

fn cases() -> Vec<GoldenCase> {
    if !report().usable() {
        println!("skipped: nothing was compared, since this machine has no usable GPU: {:?}", report());
        return Vec::new();
    }
    golden_index().unwrap()
}

fn network(case: &GoldenCase, precision: Precision) -> CudaNetwork {
    let (graph, weights) = (case.build_graph().unwrap(), case.load_weights().unwrap());
    let options =
        CudaOptions { precision, taps: crossing_taps(&graph), ..CudaOptions::adapt(case.batch, case.size, case.size) };
    CudaNetwork::new(&graph, &weights, &options).unwrap_or_else(|error| panic!("{error:?}"))
}

fn reference(case: &GoldenCase) -> ReferenceExecutor {
    let (graph, weights) = (case.build_graph().unwrap(), case.load_weights().unwrap());
    let options =
        NetworkOptions { taps: crossing_taps(&graph), ..NetworkOptions::adapt(case.batch, case.size, case.size) };
    ReferenceExecutor::new(&graph, &weights, options.plan_options()).unwrap()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// How far a run is from the published one.
#[derive(Debug, Default)]
struct Distance {
    /// Relative distance of the first logits, before any update, and of all logits.
    first: f64,
    logits: f64,
    /// Predictions compared, and how many are of another class.
    predictions: usize,
    flips: usize,
    /// Relative distance of the change of the affine vector.
    delta: f64,
}

fn run(case: &GoldenCase, adapter: &mut dyn Adapter, net: &mut dyn Executor) -> Distance {
    let expected = case.load_expected().unwrap();
    let mut distance = Distance::default();
    let batches = case.load_batches().unwrap();
    adapter.prepare(net, &batches[..CLEAN_BATCHES]).unwrap();
    for (step, batch) in batches.iter().take(case.steps).enumerate() {
        let output = adapter.step(net, batch).unwrap();
        let key = format!("logits.{step}");
        if !expected.names().any(|name| name == key) {
            continue;
        }
        let published = expected.values(&key).unwrap();
        let error = relative_l2(&widen(output.logits.values()), published);
        if step == 0 {
            distance.first = error;
        }
        distance.logits = distance.logits.max(error);
        let rows: Vec<f32> = published.iter().map(|&x| x as f32).collect();
        let classes = Logits::new(&rows, case.classes).argmax();
        let pairs = output.logits.argmax().into_iter().zip(classes);
        distance.predictions += pairs.len();
        distance.flips += pairs.filter(|(found, expected)| found != expected).count();
    }
    let mut published = Vec::new();
    for (parameter, _) in net.affine_table().names() {
        if let Ok(values) = expected.values(&format!("delta.{parameter}")) {
            published.extend_from_slice(values);
        }
    }
    if !published.is_empty() {
        let (now, then) = (widen(net.affine()), widen(net.source_affine()));
        let delta: Vec<f64> = now.iter().zip(then).map(|(now, then)| now - then).collect();
        distance.delta = relative_l2(&delta, &published);
    }
    adapter.reset(net).unwrap();
    assert_eq!(net.affine(), net.source_affine());
    distance
}

/// All methods in a precision, with bounds of the first logits and of the share of other predictions.
fn hold(precision: Precision, first: f64, flips: f64) {
    let (mut worst, mut all) = (Distance::default(), Vec::new());
    for case in cases() {
        let mut adapter = adapter(&case);
        let distance = run(&case, adapter.as_mut(), &mut network(&case, precision));
        all.push(format!(
            "{} first {:.1e} all {:.1e} delta {:.1e} flips {}/{}",
            case.name(),
            distance.first,
            distance.logits,
            distance.delta,
            distance.flips,
            distance.predictions
        ));
        worst.first = worst.first.max(distance.first);
        worst.logits = worst.logits.max(distance.logits);
        worst.delta = worst.delta.max(distance.delta);
        worst.flips += distance.flips;
        worst.predictions += distance.predictions;
    }
    println!("{}", all.join("\n"));
    println!("{precision:?} worst: {worst:?}");
    assert!(worst.first <= first, "{worst:?}");
    assert!(worst.flips as f64 <= flips * worst.predictions as f64, "{worst:?}");
}

/// Measured on an H200: first logits off by 2.8e-3, 2 of 920 predictions another.
#[test]
fn tensor_float_precision_predicts_as_published() {
    hold(Precision::Tf32, 8e-3, 4.0 / 824.0);
}

/// Measured on an H200: first logits off by 3.1e-2, 42 of 920 predictions another, most of them on the bottleneck network,
/// whose random weights leave its classes close together.
#[test]
fn brain_float_precision_predicts_as_published() {
    hold(Precision::Bf16, 1e-1, 80.0 / 824.0);
}

/// Measured on an H200: first logits off by 1.8e-6, all of 920 predictions as published.
#[test]
fn strict_precision_predicts_as_published() {
    hold(Precision::F32, LOGITS, 0.0);
}

#[test]
fn strict_precision_follows_the_reference_step_by_step() {
    let mut failures = Vec::new();
    let (mut logits, mut gradients) = (0.0f64, 0.0f64);
    for case in cases() {
        let mut adapter = adapter(&case);
        let engine = Box::new(network(&case, Precision::F32));
        let mut both = Pair::new(Lead::Reference, engine, reference(&case));
        run(&case, adapter.as_mut(), &mut both);
        for (index, pass) in both.passes().iter().enumerate() {
            let gradient = pass.gradient.unwrap_or(0.0);
            let near = pass.crossings.iter().all(|crossing| crossing.relative <= CROSSING);
            let excused = near && !pass.crossings.is_empty();
            logits = logits.max(pass.logits);
            if !excused {
                gradients = gradients.max(gradient);
            }
            if pass.logits > LOGITS || (gradient > GRADIENT && !excused) {
                failures.push(format!("{} pass {index}: {:.1e} {gradient:.1e}", case.name(), pass.logits));
            }
        }
    }
    println!("worst logits {logits:.1e}, worst gradient {gradients:.1e}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
