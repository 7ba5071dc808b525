//! What users of a network rely on, besides its numbers.

use flipcast_exec::{ExecError, Executor, Isa, Network, NetworkOptions, NormMode, Purpose, Weights};
use flipcast_tensor::{Batch, DeviceImages, Tensor, Tolerance};
use flipcast_testkit::{Case, ReferenceNorm, cases};
use std::error::Error;
use std::sync::Arc;

fn case(name: &str) -> Case {
    let mut all = cases();
    let index = all.iter().position(|case| case.name == name);
    let index = index.unwrap_or_else(|| panic!("{:?}", all.iter().map(|case| &case.name).collect::<Vec<_>>()));
    all.swap_remove(index)
}

fn network(case: &Case, change: impl FnOnce(&mut NetworkOptions)) -> Network {
    let mut options = NetworkOptions { threads: 2, ..NetworkOptions::adapt(case.batch_size, case.height, case.width) };
    change(&mut options);
    Network::new(&case.graph, &case.params, &options).unwrap()
}

fn images(batch: &Batch, count: usize) -> Batch {
    let extents = [count, batch.height(), batch.width(), batch.channels()];
    let len: usize = extents.iter().product();
    Batch::new(extents, batch.values()[..len].to_vec()).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads_bit_for_bit() {
    for case in cases() {
        let batch = case.batch();
        let run = |threads: usize| {
            let mut net = network(&case, |options| options.threads = threads);
            net.set_norm_mode(NormMode::Batch).unwrap();
            let logits = net.forward(&batch).unwrap().values().to_vec();
            let ones: Vec<f32> = (0..logits.len()).map(|i| (i % 7) as f32 - 3.0).collect();
            let gradient = net.backward(&ones).unwrap();
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            (bits(&logits), bits(gradient))
        };
        assert_eq!(run(1), run(3), "{}", case.name);
    }
}

#[test]
fn two_modes_at_once_are_two_passes_bit_for_bit() {
    let early = NormMode::Early { share: 0.5 };
    let mixed = NormMode::Mixed { source_weight: 0.3 };
    let pairs = [[early, NormMode::Batch], [NormMode::Batch, early], [NormMode::Running, mixed], [early, early]];
    for case in cases() {
        let batch = case.batch();
        for purpose in [Purpose::Predict, Purpose::Adapt] {
            for modes in pairs {
                let mut alone = |mode| {
                    let mut net = network(&case, |options| options.purpose = purpose);
                    net.set_norm_mode(mode).unwrap();
                    net.forward(&batch).unwrap().values().to_vec()
                };
                let expected = modes.map(&mut alone);
                let mut net = network(&case, |options| options.purpose = purpose);
                // Twice, so that what an earlier call kept would show.
                for _ in 0..2 {
                    let found = net.forward_in_modes(&batch, modes).unwrap();
                    assert_eq!(found, expected, "{} {modes:?}", case.name);
                    assert_eq!(net.norm_mode(), modes[1]);
                }
                assert!(net.backward(&vec![0.0; expected[0].len()]).is_err(), "{}", case.name);
            }
        }
    }
}

#[test]
fn a_smaller_last_batch_works_and_equals_a_network_planned_for_it() {
    for case in cases() {
        let small = images(&case.batch(), case.batch_size - 1);
        let mut planned_large = network(&case, |_| {});
        let mut planned_small = network(&case, |options| options.batch -= 1);
        // A full batch first, so that stale values would show.
        planned_large.forward(&case.batch()).unwrap();
        for mode in [NormMode::Running, NormMode::Batch] {
            let run = |net: &mut Network| {
                net.set_norm_mode(mode).unwrap();
                let logits = net.forward(&small).unwrap().values().to_vec();
                let gradient = net.backward(&vec![0.25; logits.len()]).unwrap().to_vec();
                (logits, gradient)
            };
            assert_eq!(run(&mut planned_large), run(&mut planned_small), "{} {mode:?}", case.name);
        }
    }
}

#[test]
fn predicting_takes_less_memory_than_adapting_and_gives_the_same_logits() {
    for case in cases() {
        let mut adapt = network(&case, |_| {});
        let mut predict = network(&case, |options| options.purpose = Purpose::Predict);
        assert!(predict.memory().arena <= adapt.memory().arena, "{}", case.name);
        assert!(adapt.memory().arena >= adapt.memory().peak, "{}", case.name);
        let batch = case.batch();
        assert_eq!(adapt.forward(&batch).unwrap().values(), predict.forward(&batch).unwrap().values(), "{}", case.name);
        assert!(matches!(predict.backward(&[]), Err(ExecError::NotReady { .. })));
    }
}

#[test]
fn a_step_allocates_nothing() {
    for case in cases() {
        let batch = case.batch();
        // One thread, so that all of the work happens where allocations are counted.
        let mut net = network(&case, |options| options.threads = 1);
        for mode in [NormMode::Running, NormMode::Batch, NormMode::Mixed { source_weight: 0.5 }] {
            net.set_norm_mode(mode).unwrap();
            let gradient = vec![0.1; net.forward(&batch).unwrap().values().len()];
            let counted = allocation_counter::measure(|| {
                net.forward(&batch).unwrap();
                net.backward(&gradient).unwrap();
            });
            assert_eq!(counted.count_total, 0, "{} {mode:?}", case.name);
        }
    }
}

#[test]
fn every_node_can_be_tapped_before_and_after_the_backward_pass() {
    for case in cases() {
        let taps: Vec<String> = case.graph.nodes().iter().skip(1).map(|node| node.name.clone()).collect();
        let mut net = network(&case, |options| options.taps = taps.clone());
        let batch = case.batch();
        let reference = case.reference();
        let reference = reference.forward(&batch, ReferenceNorm::Batch, &reference.affine()).unwrap();
        net.set_norm_mode(NormMode::Batch).unwrap();
        let logits = net.forward(&batch).unwrap().values().len();
        let before: Vec<Tensor> = taps.iter().map(|name| net.tap(name).unwrap()).collect();
        net.backward(&vec![0.5; logits]).unwrap();
        for (name, before) in taps.iter().zip(before) {
            assert_eq!(net.tap(name).unwrap(), before, "{} {name}", case.name);
            let expected: Vec<f32> = reference.value(name).unwrap().values.iter().map(|x| *x as f32).collect();
            // Measured: at most 2.4e-6, behind several norms of few values.
            Tolerance::RelativeL2(1e-5).check(&format!("{} {name}", case.name), before.values(), &expected);
        }
    }
}

#[test]
fn a_nan_or_infinity_is_reported_and_never_adapted_on() {
    let case = case(&cases()[0].name);
    let mut net = network(&case, |_| {});
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut batch = case.batch();
        let second_image = batch.values().len() / batch.images();
        batch.values_mut()[second_image + 3] = bad;
        assert!(matches!(net.forward(&batch), Err(ExecError::NonFiniteInput { image: 1 })));
        // The failed pass leaves nothing to go back through.
        assert!(matches!(net.backward(&[]), Err(ExecError::NotReady { .. })));
    }
    net.affine_mut()[0] = f32::NAN;
    assert!(matches!(net.forward(&case.batch()), Err(ExecError::NonFiniteLogits { image: 0 })));
    net.reset_affine();
    assert!(net.forward(&case.batch()).is_ok());
}

/// Images that their device has lost.
#[derive(Debug)]
struct Lost([usize; 4]);

impl DeviceImages for Lost {
    fn extents(&self) -> [usize; 4] {
        self.0
    }

    fn append(&self, _: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("the GPU has fallen off the bus".into())
    }
}

#[test]
fn images_that_cannot_be_read_are_reported_in_the_words_of_their_device() {
    let case = case(&cases()[0].name);
    let batch = case.batch();
    let lost = Lost([batch.images(), batch.height(), batch.width(), batch.channels()]);
    let refused = network(&case, |_| {}).forward(&Batch::on_device(Arc::new(lost))).err();
    let Some(ExecError::Device { source }) = refused else { panic!("{refused:?}") };
    assert_eq!(source.to_string(), "the GPU has fallen off the bus");
}

#[test]
fn wrong_input_is_refused_with_what_was_expected() {
    let case = case(&cases()[0].name);
    let mut net = network(&case, |_| {});
    let batch = case.batch();
    let wide = Batch::new(
        [1, case.height, case.width + 1, batch.channels()],
        vec![0.0; case.height * (case.width + 1) * batch.channels()],
    )
    .unwrap();
    assert!(matches!(net.forward(&wide), Err(ExecError::BatchShape { .. })));
    let none = Batch::new([0, case.height, case.width, batch.channels()], Vec::new()).unwrap();
    assert!(matches!(net.forward(&none), Err(ExecError::BatchSize { found: 0, .. })));
    assert!(matches!(net.set_norm_mode(NormMode::Mixed { source_weight: 1.5 }), Err(ExecError::SourceWeight { .. })));
    net.forward(&batch).unwrap();
    assert!(matches!(net.backward(&[0.0]), Err(ExecError::Length { .. })));
    assert!(matches!(net.tap("no such node"), Err(ExecError::UnknownTap { .. })));

    let mut params = case.params.clone();
    let name = params.keys().find(|name| name.ends_with(".weight")).unwrap().clone();
    let options = NetworkOptions::adapt(2, case.height, case.width);
    let shape = params[&name].shape().clone();
    params.get_mut(&name).unwrap().values_mut()[0] = f32::NAN;
    let made = Network::new(&case.graph, &params, &options);
    assert!(matches!(made, Err(ExecError::NonFiniteParam { .. })));
    params.insert(name.clone(), Tensor::zeros([3, 1]));
    let made = Network::new(&case.graph, &params, &options);
    assert!(matches!(made, Err(ExecError::ParamShape { expected, .. }) if expected == shape));
    params.remove(&name);
    assert!(matches!(Network::new(&case.graph, &params, &options), Err(ExecError::MissingParam { .. })));
    let options = NetworkOptions::adapt(0, case.height, case.width);
    assert!(matches!(Network::new(&case.graph, &case.params, &options), Err(ExecError::Plan(_))));
}

#[test]
fn without_batch_norms_neither_the_mode_nor_the_rest_of_the_batch_matters() {
    let case = case("class_token");
    let mut net = network(&case, |_| {});
    assert!(!net.has_batch_norm());
    let batch = case.batch();
    let mut run = |batch: &Batch, mode| {
        net.set_norm_mode(mode).unwrap();
        net.forward(batch).unwrap().values().to_vec()
    };
    let running = run(&batch, NormMode::Running);
    assert_eq!(run(&batch, NormMode::Batch), running);
    let alone = run(&images(&batch, 1), NormMode::Batch);
    assert_eq!(alone, running[..alone.len()]);
}

#[test]
fn the_best_instruction_set_is_used_unless_another_is_named() {
    let case = case(&cases()[0].name);
    assert_eq!(network(&case, |_| {}).isa(), Isa::detect());
    let scalar = Isa::named("scalar").unwrap();
    assert_eq!(network(&case, |options| options.isa = Some(scalar)).isa(), scalar);
}

#[test]
fn networks_that_share_packed_weights_are_those_made_alone() {
    let case = case("max_pool3x3_s2_odd");
    let weights = Weights::new(case.graph.clone().into(), case.params.clone().into());
    let options = NetworkOptions { threads: 2, ..NetworkOptions::adapt(case.batch_size, case.height, case.width) };
    let batch = case.batch();
    let run = |mut net: Network| {
        net.set_norm_mode(NormMode::Batch).unwrap();
        let logits = net.forward(&batch).unwrap().values().to_vec();
        let gradient = net.backward(&logits).unwrap().to_vec();
        (logits, gradient)
    };
    let alone = run(network(&case, |_| {}));
    for _ in 0..2 {
        assert!(run(weights.network(&options).unwrap()) == alone);
    }
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    let case = case("max_pool3x3_s2_odd");
    let options = NetworkOptions::adapt(1 << 48, case.height, case.width);
    let made = Network::new(&case.graph, &case.params, &options);
    assert!(matches!(made, Err(ExecError::OutOfMemory { .. })));
}
