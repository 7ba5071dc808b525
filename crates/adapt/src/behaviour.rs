//! What every method must do on a real, if tiny, network: a residual network with random weights on the CPU engine.

use crate::Adapter;
use flipcast_exec::{Executor, Logits, Network, NetworkOptions};
use flipcast_tensor::Batch;
use flipcast_testkit::golden_index;

/// Steps of a run.
const STEPS: usize = 12;

/// The network, and one batch of images for it.
pub(crate) fn residual_network() -> (Network, Batch) {
    let cases = golden_index().unwrap();
    let case = cases.iter().find(|case| case.weights.starts_with("basic_imagenet"));
    let case = case.expect("the golden index has a small network");
    let options = NetworkOptions { threads: 1, ..NetworkOptions::adapt(case.batch, case.size, case.size) };
    let (graph, weights) = (case.build_graph().unwrap(), case.load_weights().unwrap());
    let net = Network::new(&graph, &weights, &options).unwrap();
    let batch = case.load_batches().unwrap().swap_remove(0);
    (net, batch)
}

/// The predictions of every step on the same batch, and the affine vector after the last.
fn run(adapter: &mut dyn Adapter, net: &mut Network, batch: &Batch) -> (Vec<Vec<f32>>, Vec<f32>) {
    let step = |_| {
        let output = adapter.step(net, batch).unwrap();
        assert!(output.used <= batch.images() && output.mean_entropy.is_finite());
        output.logits.values().to_vec()
    };
    let logits = (0..STEPS).map(step).collect();
    (logits, net.affine().to_vec())
}

/// Steps lower the loss of the predictions, a reset restores the source and forgets everything, and the same settings and seed
/// give the same run bit for bit.
pub(crate) fn assert_adapts(make: impl Fn() -> Box<dyn Adapter>, mut loss: impl FnMut(Logits) -> f64) {
    let (mut net, batch) = residual_network();
    let mut adapter = make();
    let first = run(adapter.as_mut(), &mut net, &batch);
    let classes = net.num_classes();
    let mut loss_at = |step: usize| loss(Logits::new(&first.0[step], classes));
    let (start, end) = (loss_at(0), loss_at(STEPS - 1));
    assert!(end < start, "the loss went from {start} to {end}");
    assert_ne!(net.affine(), net.source_affine());

    adapter.reset(&mut net).unwrap();
    assert_eq!(net.affine(), net.source_affine());
    assert!(run(adapter.as_mut(), &mut net, &batch) == first, "after a reset");

    let (mut net, batch) = residual_network();
    assert!(run(make().as_mut(), &mut net, &batch) == first, "made anew");
}
