//! Whole steps on the device against the same steps made of passes, on one network, so that both have the same kernels.

use crate::{CLEAN_BATCHES, adapter, cases, network, widen};
use flipcast_adapt::Adapter;
use flipcast_cuda::{CudaNetwork, Precision, release_image_sets};
use flipcast_executor::{ExecError, Executor, ExecutorState, Logits, NormMode};
use flipcast_tensor::{Batch, ImageSet, Tensor};
use flipcast_testkit::{GoldenCase, relative_l2};
use std::sync::Arc;

/// The network with its steps made on the host, of its passes.
struct OnHost<'a>(&'a mut CudaNetwork);

impl Executor for OnHost<'_> {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.0.forward(batch)
    }
    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        self.0.backward(logit_gradient)
    }
    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        self.0.tap(name)
    }
    fn state(&self) -> &ExecutorState {
        self.0.state()
    }
    fn state_mut(&mut self) -> &mut ExecutorState {
        self.0.state_mut()
    }
}

/// What a step shows: logits, the affine vector after it, reliable and used images.
struct Shown {
    logits: Vec<f32>,
    affine: Vec<f32>,
    counts: [usize; 2],
    mean_entropy: f64,
}

fn note(adapter: &mut dyn Adapter, net: &mut dyn Executor, batch: &Batch) -> Shown {
    let output = adapter.step(net, batch).unwrap();
    let (counts, mean_entropy) = ([output.reliable, output.used], output.mean_entropy);
    let logits = output.logits.values().to_vec();
    Shown { logits, affine: net.affine().to_vec(), counts, mean_entropy }
}

/// The images of a batch but the last.
fn smaller(batch: &Batch) -> Batch {
    let extents = [batch.images() - 1, batch.height(), batch.width(), batch.channels()];
    let len = extents.iter().product();
    Batch::new(extents, batch.values()[..len].to_vec()).unwrap()
}

/// The run of a golden case; then a smaller batch, a vector from earlier, a step that fails, another method's step in
/// between, a reset, and steps again.
fn run(case: &GoldenCase, net: &mut dyn Executor) -> Vec<Shown> {
    let (mut method, mut other) = (adapter(case), adapter(case));
    let batches = case.load_batches().unwrap();
    net.reset_affine();
    for adapter in [&mut method, &mut other] {
        adapter.prepare(net, &batches[..CLEAN_BATCHES]).unwrap();
    }
    let mut shown = Vec::new();
    for batch in batches.iter().take(case.steps) {
        shown.push(note(method.as_mut(), net, batch));
    }
    shown.push(note(method.as_mut(), net, &smaller(&batches[0])));
    net.affine_mut().copy_from_slice(&shown[0].affine);
    shown.push(note(method.as_mut(), net, &batches[1]));
    net.affine_mut().fill(f32::MAX);
    let broken = method.step(net, &batches[1]).unwrap_err();
    assert!(format!("{broken:?}").contains("NonFinite"), "{broken:?}");
    assert!(net.affine().iter().all(|&value| value == f32::MAX));
    net.affine_mut().copy_from_slice(&shown[1].affine);
    shown.push(note(method.as_mut(), net, &batches[0]));
    shown.push(note(other.as_mut(), net, &batches[0]));
    shown.push(note(method.as_mut(), net, &batches[1]));
    method.reset(net).unwrap();
    assert_eq!(net.affine(), net.source_affine());
    shown.push(note(method.as_mut(), net, &batches[0]));
    shown.push(note(method.as_mut(), net, &batches[1]));
    shown
}

/// Measured on an H200: no difference at all.
#[test]
fn steps_on_the_device_equal_steps_of_the_host() {
    let mut worst = (0.0f64, 0.0f64);
    for case in cases() {
        if matches!(case.method.as_str(), "source" | "bn" | "sar") {
            continue;
        }
        let mut net = network(&case, Precision::F32);
        let host = run(&case, &mut OnHost(&mut net));
        let device = run(&case, &mut net);
        for (step, (host, device)) in host.iter().zip(&device).enumerate() {
            let name = format!("{} step {step}", case.name());
            assert_eq!(device.counts, host.counts, "{name}");
            let entropy = (device.mean_entropy - host.mean_entropy).abs();
            assert!(entropy <= 1e-6 * host.mean_entropy, "{name}: {entropy}");
            let off = |a: &[f32], b: &[f32]| relative_l2(&widen(a), &widen(b));
            let off = (off(&device.logits, &host.logits), off(&device.affine, &host.affine));
            if off.0 > 1e-5 || off.1 > 1e-6 {
                println!("{name}: {off:?}");
            }
            worst = (worst.0.max(off.0), worst.1.max(off.1));
        }
    }
    println!("worst logits {:.1e}, worst affine {:.1e}", worst.0, worst.1);
    assert!(worst.0 <= 1e-5 && worst.1 <= 1e-6, "{worst:?}");
}

#[test]
fn batches_of_a_set_are_those_of_the_host() {
    let Some(case) = cases().into_iter().find(|case| case.method == "tent") else {
        return;
    };
    let batches = case.load_batches().unwrap();
    let values: Vec<f32> = batches.iter().flat_map(|b| b.values().to_vec()).collect();
    let [size, images] = [case.size, batches.len() * case.batch];
    let mut broken = values.clone();
    broken[0] = f32::NAN;
    let [set, broken] = [values, broken]
        .map(|values| Arc::new(ImageSet::new([images, size, size, batches[0].channels()], values).unwrap()));
    let mut net = network(&case, Precision::Tf32);
    net.set_norm_mode(NormMode::Batch).unwrap();
    let last = images as u32 - 1;
    let chosen: [Vec<u32>; 3] =
        [(0..case.batch as u32).collect(), (0..case.batch as u32).map(|at| last - at).collect(), vec![last, 0]];
    // The second round comes after the set had to leave the GPU.
    for round in 0..2 {
        for positions in &chosen {
            let selected = Batch::select(&set, positions.clone(), Vec::new());
            let extents = [positions.len(), size, size, selected.channels()];
            let written = Batch::new(extents, selected.values().to_vec()).unwrap();
            let found = net.forward(&selected).unwrap().values().to_vec();
            assert!(found == net.forward(&written).unwrap().values(), "{round}");
            let refused = Batch::select(&broken, vec![last, 0], Vec::new());
            let refused = net.forward(&refused).unwrap_err();
            assert!(matches!(refused, ExecError::NonFiniteInput { image: 1 }), "{refused:?}");
        }
        assert_eq!(release_image_sets(0), round == 0);
    }
}

/// As many as a study may run side by side.
const NETWORKS: usize = 14;

#[test]
fn networks_made_and_stepped_at_once_agree() {
    let Some(case) = cases().into_iter().find(|case| case.method == "eta") else {
        return;
    };
    let one = |_| {
        let mut net = network(&case, Precision::F32);
        let mut adapter = adapter(&case);
        let batches = case.load_batches().unwrap();
        for round in 0..40 {
            let batch = &batches[round % batches.len()];
            let batch = if round % 3 == 0 { &smaller(batch) } else { batch };
            adapter.step(&mut net, batch).unwrap();
            if round % 10 == 9 {
                net = network(&case, Precision::F32);
            }
        }
        adapter.step(&mut net, &batches[0]).unwrap().logits.values().to_vec()
    };
    let all: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..NETWORKS).map(|at| scope.spawn(move || one(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for other in &all {
        let off = relative_l2(&widen(other), &widen(&all[0]));
        assert!(off <= 1e-4, "{off}");
    }
}
