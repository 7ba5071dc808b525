use super::*;
use crate::{Case, cases};
use flipcast_exec::{Network, NetworkOptions, NormMode};
use flipcast_graph::PlanError;

fn case(name: &str) -> Case {
    let mut cases = cases();
    let position = cases.iter().position(|case| case.name == name);
    cases.swap_remove(position.unwrap_or_else(|| panic!("there is no case `{name}`")))
}

fn options(case: &Case) -> NetworkOptions {
    NetworkOptions { threads: 1, ..NetworkOptions::adapt(case.batch_size, case.height, case.width) }
}

/// The reference and the CPU network on the same case.
fn both(case: &Case, options: &NetworkOptions) -> [Result<Box<dyn Executor>, ExecError>; 2] {
    let reference = ReferenceExecutor::new(&case.graph, &case.params, options.plan_options());
    let network = Network::new(&case.graph, &case.params, options);
    [reference.map(|e| Box::new(e) as Box<dyn Executor>), network.map(|e| Box::new(e) as Box<dyn Executor>)]
}

/// Both refuse what `act` does, in the same words.
#[track_caller]
fn check_refused(
    case: &Case,
    options: &NetworkOptions,
    act: impl Fn(&mut dyn Executor) -> Result<(), ExecError>,
) -> String {
    let [reference, network] = both(case, options).map(|made| made.and_then(|mut e| act(e.as_mut())).unwrap_err());
    assert_eq!(format!("{reference:?}"), format!("{network:?}"));
    reference.to_string()
}

const CASE: &str = "flatten_3x2";

#[test]
fn the_run_keeps_what_rounding_takes() {
    let case = case(CASE);
    let mut executor = ReferenceExecutor::new(&case.graph, &case.params, options(&case).plan_options()).unwrap();
    assert!(executor.run().is_none());
    let logits = executor.forward(&case.batch()).unwrap().values().to_vec();
    let kept = executor.run().unwrap().logits();
    assert_eq!(logits, narrow(kept));
    assert_ne!(widen(&logits), kept);
}

#[test]
fn the_gradient_belongs_to_the_vector_of_the_forward_pass() {
    let case = case(CASE);
    let mut executor = ReferenceExecutor::new(&case.graph, &case.params, options(&case).plan_options()).unwrap();
    let batch = case.batch();
    let ones = vec![1.0; executor.forward(&batch).unwrap().values().len()];
    let before = executor.backward(&ones).unwrap().to_vec();
    executor.forward(&batch).unwrap();
    executor.affine_mut().fill(0.5);
    assert_eq!(executor.backward(&ones).unwrap(), before);
    executor.forward(&batch).unwrap();
    assert_ne!(executor.backward(&ones).unwrap(), before);
    executor.reset_affine();
    assert_eq!(executor.affine(), case.affine());
}

#[test]
fn taps_have_the_extents_of_the_network() {
    let case = case(CASE);
    let options = NetworkOptions { taps: vec!["conv1".to_owned()], ..options(&case) };
    let [mut reference, mut network] = both(&case, &options).map(Result::unwrap);
    let batch = case.batch();
    reference.forward(&batch).unwrap();
    network.forward(&batch).unwrap();
    for name in ["conv1", "embedding", "logits"] {
        let (ours, theirs) = (reference.tap(name).unwrap(), network.tap(name).unwrap());
        assert_eq!(ours.shape(), theirs.shape(), "{name}");
    }
}

#[test]
fn bad_parameters_are_refused_as_by_the_network() {
    let mut missing = case(CASE);
    missing.params.remove("fc.bias");
    let found = check_refused(&missing, &options(&missing), |_| Ok(()));
    assert_eq!(found, "there is no tensor `fc.bias`, expected one of shape [7]");
    let mut shape = case(CASE);
    shape.params.insert("fc.bias".into(), Tensor::zeros([3]));
    check_refused(&shape, &options(&shape), |_| Ok(()));
    let mut nan = case(CASE);
    nan.param_mut("fc.bias")[1] = f32::NAN;
    check_refused(&nan, &options(&nan), |_| Ok(()));
}

#[test]
fn bad_batches_are_refused_as_by_the_network() {
    let case = case(CASE);
    let options = options(&case);
    let forward = |batch: Batch| {
        check_refused(&case, &options, move |net| net.forward(&batch).map(|_| ()));
    };
    forward(case.random_batch(case.batch_size + 1, 0));
    forward(case.random_batch(0, 0));
    forward(Batch::new([1, 2, 2, 3], vec![0.0; 12]).unwrap());
    let mut batch = case.batch();
    batch.values_mut()[5] = f32::INFINITY;
    forward(batch);
}

#[test]
fn diverged_scales_are_refused_as_by_the_network() {
    let case = case(CASE);
    let batch = case.batch();
    let found = check_refused(&case, &options(&case), |net| {
        net.affine_mut().fill(f32::MAX);
        net.forward(&batch).map(|_| ())
    });
    assert!(found.starts_with("the logits of image 0"), "{found}");
}

#[test]
fn calls_out_of_order_are_refused_as_by_the_network() {
    let case = case(CASE);
    let (batch, options) = (case.batch(), options(&case));
    let ones = vec![1.0; case.batch_size * case.graph.num_classes()];
    check_refused(&case, &options, |net| net.backward(&ones).map(|_| ()));
    check_refused(&case, &options, |net| net.tap("embedding").map(|_| ()));
    check_refused(&case, &options, |net| net.tap("conv1").map(|_| ()));
    check_refused(&case, &options, |net| {
        net.forward(&batch)?;
        net.backward(&ones)?;
        net.backward(&ones).map(|_| ())
    });
    check_refused(&case, &options, |net| {
        net.forward(&batch)?;
        net.set_norm_mode(NormMode::Batch)?;
        net.backward(&ones).map(|_| ())
    });
    check_refused(&case, &options, |net| {
        net.forward(&batch)?;
        net.backward(&ones[1..]).map(|_| ())
    });
    let predict = NetworkOptions::predict(options.batch, options.height, options.width);
    check_refused(&case, &predict, |net| {
        net.forward(&batch)?;
        net.backward(&ones).map(|_| ())
    });
}

#[test]
fn bad_settings_are_refused_as_by_the_network() {
    let case = case(CASE);
    let weight = NormMode::Mixed { source_weight: 1.5 };
    let found = check_refused(&case, &options(&case), |net| net.set_norm_mode(weight));
    assert_eq!(found, "source weight 1.5 is outside [0, 1]");
    let unknown = NetworkOptions { taps: vec!["nowhere".to_owned()], ..options(&case) };
    check_refused(&case, &unknown, |_| Ok(()));
    let [reference, _] = both(&case, &unknown);
    assert!(matches!(reference.map(|_| ()), Err(ExecError::Plan(PlanError::UnknownTap { .. }))));
}
