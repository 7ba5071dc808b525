//! A network for the tests of the adapters' states.

use flipcast_exec::{Executor, Network, NetworkOptions};
use flipcast_tensor::Batch;
use flipcast_testkit::{Case, ReferenceExecutor, cases};

/// A network of two layers in double precision, and a batch for it.
pub(crate) fn small_network() -> (ReferenceExecutor, Batch) {
    let (case, options) = small_case();
    let net = ReferenceExecutor::new(&case.graph, &case.params, options.plan_options()).unwrap();
    assert!(!net.affine().is_empty());
    let batch = case.batch();
    (net, batch)
}

/// The same on the engine.
pub(crate) fn small_engine() -> (Network, Batch) {
    let (case, options) = small_case();
    let net = Network::new(&case.graph, &case.params, &options).unwrap();
    (net, case.batch())
}

fn small_case() -> (Case, NetworkOptions) {
    let mut cases = cases();
    cases.retain(|case| case.name == "max_pool3x3_s2_odd");
    let case = cases.swap_remove(0);
    let options = NetworkOptions { threads: 1, ..NetworkOptions::adapt(case.batch_size, case.height, case.width) };
    (case, options)
}
