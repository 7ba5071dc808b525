use super::*;
use crate::images::Images;
use crate::{FlipProtocol, Scope, Unwatched, collect_flips, run_source};
use flipcast_adapt::MethodConfig;
use flipcast_cuda::Precision;
use flipcast_exec::NormMode;
use flipcast_ground::SplitMix64;
use flipcast_images::dataset::InMemory;
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_tensor::Batch;

const BATCH: usize = 4;
const SIDE: usize = 8;
const DEVICE: Device = Device::Cpu { threads: 1, isa: None };

fn small_model() -> Model {
    Model::random("cifar_resnet8_w4", 5, 1).unwrap().with_preprocess(preprocess())
}

fn preprocess() -> Preprocess {
    Preprocess { crop: Some(Size::square(SIDE)), ..Preprocess::normalise_only(Normalise::imagenet()) }
}

fn batch(images: usize, seed: u64) -> Batch {
    let mut random = SplitMix64::new(seed);
    let values = (0..images * SIDE * SIDE * 3).map(|_| random.normal() as f32).collect();
    Batch::new([images, SIDE, SIDE, 3], values).unwrap()
}

fn idle(model: &Model) -> usize {
    model.derived(NetworkPool::default).lock().len()
}

/// Logits in both norm modes, the embedding, and logits and affine vector of a few adaptation steps.
fn everything(net: &mut dyn Executor, model: &Model) -> Vec<f32> {
    let mut seen = net.forward(&batch(BATCH, 1)).unwrap().values().to_vec();
    seen.extend_from_slice(net.tap("embedding").unwrap().values());
    let mut tent = MethodConfig::default_for("tent", model.num_classes()).unwrap().build(0).unwrap();
    for step in 2..5 {
        let output = tent.step(net, &batch(BATCH, step)).unwrap();
        seen.extend_from_slice(output.logits.values());
    }
    seen.extend_from_slice(net.affine());
    net.set_norm_mode(NormMode::Mixed { source_weight: 0.3 }).unwrap();
    seen.extend_from_slice(net.forward(&batch(BATCH - 1, 9)).unwrap().values());
    net.absorb_statistics().unwrap();
    net.set_norm_mode(NormMode::Running).unwrap();
    seen.extend_from_slice(net.forward(&batch(BATCH, 1)).unwrap().values());
    seen
}

#[test]
fn a_network_on_loan_again_computes_what_a_new_one_does() {
    let model = small_model();
    let mut first = DEVICE.network(&model, Purpose::Adapt, BATCH).unwrap();
    let expected = everything(&mut *first, &model);
    drop(first);
    assert_eq!(idle(&model), 1);
    let mut again = DEVICE.network(&model, Purpose::Adapt, BATCH).unwrap();
    assert_eq!(idle(&model), 0, "it is the same network");
    assert!(again.norm_mode() == NormMode::Running && again.affine() == again.source_affine());
    assert!(again.tap("embedding").is_err(), "no pass lies behind it");
    assert_eq!(everything(&mut *again, &model), expected);
}

#[test]
fn other_kinds_and_networks_in_use_are_made_anew() {
    let model = small_model();
    let lease = |purpose, batch| DEVICE.network(&model, purpose, batch).unwrap();
    let (first, second) = (lease(Purpose::Adapt, BATCH), lease(Purpose::Adapt, BATCH));
    drop(first);
    let others = [lease(Purpose::Predict, BATCH), lease(Purpose::Adapt, BATCH + 1)];
    assert_eq!(idle(&model), 1);
    drop((second, others));
    assert_eq!(idle(&model), 4);
    drop(DEVICE.network(&model.clone().with_name("a clone"), Purpose::Adapt, BATCH).unwrap());
    assert_eq!(idle(&model), 4, "clones share networks");
}

#[test]
fn the_one_that_was_idle_longest_makes_room() {
    let model = small_model();
    for batch in 1..=MOST_IDLE + 2 {
        drop(DEVICE.network(&model, Purpose::Predict, batch).unwrap());
    }
    let pool = model.derived(NetworkPool::default);
    let batches: Vec<usize> = pool.lock().iter().map(|(kind, _)| kind.batch).collect();
    assert!(batches.into_iter().eq(3..=MOST_IDLE + 2));
}

#[test]
fn where_memory_is_short_idle_networks_of_all_models_go() {
    // Devices that no other test uses; the networks are the processor's all the same.
    let on = |index, precision| {
        let net = small_model().derived(|| Weights::new(small_model().graph().clone(), small_model().params().clone()));
        let net: Box<dyn Executor> = Box::new(net.network(&NetworkOptions::predict(1, SIDE, SIDE)).unwrap());
        let device = Device::Cuda { index, precision };
        (Kind { device, purpose: Purpose::Predict, batch: 1, size: Size::square(SIDE) }, net)
    };
    let pools: [Arc<NetworkPool>; 2] = Default::default();
    for (pool, precision) in pools.iter().zip([Precision::F32, Precision::Bf16]) {
        register(pool);
        for index in [98, 99] {
            let (kind, net) = on(index, precision);
            pool.keep(kind, net);
        }
    }
    let count = || pools.iter().map(|pool| pool.lock().len()).sum::<usize>();
    assert!(release_idle(Device::Cuda { index: 99, precision: Precision::F32 }));
    assert_eq!(count(), 2);
    assert!(!release_idle(Device::Cuda { index: 99, precision: Precision::F32 }));
}

#[test]
fn every_device_keeps_its_own_idle_networks() {
    let weights = Weights::new(small_model().graph().clone(), small_model().params().clone());
    let pool = NetworkPool::default();
    for batch in 1..=MOST_IDLE + 1 {
        for index in 0..8 {
            // The networks are the processor's all the same.
            let net = weights.network(&NetworkOptions::predict(1, SIDE, SIDE)).unwrap();
            let device = Device::Cuda { index, precision: Precision::F32 };
            let kind = Kind { device, purpose: Purpose::Predict, batch, size: Size::square(SIDE) };
            pool.keep(kind, Box::new(net));
        }
    }
    let idle = pool.lock();
    assert_eq!(idle.len(), 8 * MOST_IDLE);
    assert!(idle.iter().all(|(kind, _)| kind.batch > 1), "the oldest went, on every device");
}

#[test]
fn a_network_that_was_in_use_during_a_panic_is_not_kept() {
    let model = small_model();
    let caught = std::panic::catch_unwind(|| {
        let _net = DEVICE.network(&model, Purpose::Predict, BATCH).unwrap();
        panic!("in the middle of something");
    });
    assert!(caught.is_err());
    assert_eq!(idle(&model), 0);
}

#[test]
fn cells_of_networks_that_were_used_before_are_those_of_new_ones() {
    let pixels = |index: usize| (0..3 * SIDE * SIDE).map(move |at| ((at * (at / 3 + 7 * index + 1)) >> 4) as u8);
    let pictures = (0..11).map(|index| (Image::new(SIDE, SIDE, pixels(index).collect()).unwrap(), Label::Class(0)));
    let images = Images::open(Arc::new(InMemory::new(pictures)), LoaderConfig::new(preprocess()), 0).unwrap();
    let mut protocol = FlipProtocol::named("flipcast").unwrap();
    (protocol.batch_size, protocol.probe_chunk, protocol.stops) = (BATCH, 6, vec![2, 5]);
    let cell = |model: &Model| {
        let scope = Scope::new(model.num_classes(), None);
        let source = run_source(model, &images, &scope, DEVICE, &mut Unwatched).unwrap();
        let flips = collect_flips(model, &images, &scope, &protocol, DEVICE, &mut Unwatched).unwrap();
        let stops: Vec<_> = flips.stops.into_iter().map(|stop| stop.outputs).collect();
        (source.outputs, source.embeddings.rows().flatten().copied().collect::<Vec<f32>>(), flips.initial, stops)
    };
    let model = small_model();
    let first = cell(&model);
    assert_eq!(idle(&model), 3);
    assert_eq!(cell(&model), first);
    assert_eq!(cell(&small_model()), first);
    assert_eq!(idle(&model), 3);
}
