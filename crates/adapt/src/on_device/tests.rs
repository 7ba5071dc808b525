//! Adapters on an executor that makes steps by itself do to the last bit what they do on one that leaves them to the host.

use crate::behaviour::residual_network;
use crate::fake_device::FakeDevice;
use crate::{
    Adapter, Cpl, CplConfig, Eata, EataConfig, EntropyMargin, Eta, EtaConfig, OptimiserConfig, ParamRule, Rdumb,
    RdumbConfig, RedundancyMargin, Rpl, RplConfig, Tent, TentConfig,
};
use flipcast_exec::Executor;
use flipcast_tensor::Batch;
use flipcast_testkit::Wrapped;

fn eta(optimiser: OptimiserConfig, published_code: bool) -> EtaConfig {
    EtaConfig {
        optimiser,
        entropy_margin: EntropyMargin::Nats(3.0),
        redundancy_margin: RedundancyMargin::Cosine(0.9),
        published_code,
        ..EtaConfig::imagenet()
    }
}

/// Makes an adapter that has made no step.
type Make = Box<dyn Fn() -> Box<dyn Adapter>>;

/// Every method that has device steps, in settings that move much in a few steps.
fn methods() -> Vec<(&'static str, Make)> {
    let (sgd, adam) = (OptimiserConfig::sgd(1e-2), OptimiserConfig::adam(1e-2));
    let tent = move |optimiser, param_rule: ParamRule| TentConfig { optimiser, param_rule, ..TentConfig::imagenet() };
    let masked = tent(sgd, ParamRule::Sar);
    let (tent_sgd, tent_adam) = (tent(sgd, ParamRule::AllNorm), tent(adam, ParamRule::AllNorm));
    let rpl = RplConfig { optimiser: adam, ..RplConfig::imagenet() };
    let starved = EtaConfig { entropy_margin: EntropyMargin::Nats(1e-9), ..eta(sgd, false) };
    let rdumb = RdumbConfig { eta: eta(adam, true), reset_every: 2, start: 1 };
    let eata = EataConfig { eta: EtaConfig { param_rule: ParamRule::Sar, ..eta(sgd, false) }, fisher_alpha: 40.0 };
    vec![
        ("tent", Box::new(move || Box::new(Tent::new(tent_sgd.clone()).unwrap()))),
        ("tent adam", Box::new(move || Box::new(Tent::new(tent_adam.clone()).unwrap()))),
        ("tent masked", Box::new(move || Box::new(Tent::new(masked.clone()).unwrap()))),
        ("rpl", Box::new(move || Box::new(Rpl::new(rpl.clone()).unwrap()))),
        ("cpl", Box::new(|| Box::new(Cpl::new(CplConfig::cifar()).unwrap()))),
        ("eta", Box::new(move || Box::new(Eta::new(eta(sgd, false)).unwrap()))),
        ("eta as released", Box::new(move || Box::new(Eta::new(eta(adam, true)).unwrap()))),
        ("eta starved", Box::new(move || Box::new(Eta::new(starved.clone()).unwrap()))),
        ("rdumb", Box::new(move || Box::new(Rdumb::new(rdumb.clone()).unwrap()))),
        ("eata", Box::new(move || Box::new(Eata::new(eata.clone()).unwrap()))),
    ]
}

/// What a run shows: logits, entropy, counts and the affine vector of every step.
type Trace = Vec<(Vec<f32>, f64, [usize; 2], bool, Vec<f32>)>;

fn note(trace: &mut Trace, adapter: &mut dyn Adapter, net: &mut dyn Executor, batch: &Batch) {
    let output = adapter.step(net, batch).unwrap();
    let (logits, entropy) = (output.logits.values().to_vec(), output.mean_entropy);
    let (counts, reset) = ([output.reliable, output.used], output.reset);
    trace.push((logits, entropy, counts, reset, net.affine().to_vec()));
}

/// Three images of a batch, in a new order.
fn smaller(batch: &Batch) -> Batch {
    let values = [2, 0, 1].map(|image| batch.image(image)).concat();
    let extents = [3, batch.height(), batch.width(), batch.channels()];
    Batch::new(extents, values).unwrap()
}

/// Steps, a smaller batch, a vector changed from outside, a reset, clean batches seen again, steps.
fn run(adapter: &mut dyn Adapter, net: &mut dyn Executor, batch: &Batch) -> Trace {
    let mut trace = Trace::new();
    let small = smaller(batch);
    adapter.prepare(net, std::slice::from_ref(batch)).unwrap();
    for batch in [batch, batch, &small, batch] {
        note(&mut trace, adapter, net, batch);
    }
    let earlier = trace[1].4.clone();
    net.affine_mut().copy_from_slice(&earlier);
    note(&mut trace, adapter, net, batch);
    adapter.reset(net).unwrap();
    assert_eq!(net.affine(), net.source_affine());
    note(&mut trace, adapter, net, &small);
    note(&mut trace, adapter, net, batch);
    adapter.prepare(net, std::slice::from_ref(&small)).unwrap();
    note(&mut trace, adapter, net, batch);
    trace
}

#[test]
fn steps_on_a_device_are_those_of_the_host() {
    for (name, make) in methods() {
        let (mut host, batch) = residual_network();
        let expected = run(make().as_mut(), &mut host, &batch);
        let mut device = Wrapped(FakeDevice::new(residual_network().0));
        let found = run(make().as_mut(), &mut device, &batch);
        assert!(found == expected, "{name}");
        let clean = if name == "eata" { 2 } else { 0 };
        assert_eq!((device.0.steps, device.0.passes), (8, clean), "{name}");
        let moved = expected.iter().any(|step| step.4 != host.source_affine());
        assert_eq!(moved, name != "eta starved", "{name}");
    }
}

#[test]
fn runs_of_two_adapters_in_turns_do_not_mix() {
    let on = |net: &mut dyn Executor, batch: &Batch| {
        let mut adapters = methods();
        adapters.retain(|(name, _)| ["tent", "eta as released"].contains(name));
        let mut adapters: Vec<_> = adapters.iter().map(|(_, make)| make()).collect();
        let mut trace = Trace::new();
        for which in [0, 1, 0, 1, 1, 0] {
            note(&mut trace, adapters[which].as_mut(), net, batch);
        }
        adapters[0].reset(net).unwrap();
        for which in [1, 0] {
            note(&mut trace, adapters[which].as_mut(), net, batch);
        }
        trace
    };
    let (mut host, batch) = residual_network();
    let mut device = Wrapped(FakeDevice::new(residual_network().0));
    let expected = on(&mut host, &batch);
    assert!(on(&mut device, &batch) == expected);
    assert_eq!(device.0.runs(), 2);
    // The runs are over, and the next one's first step notices.
    let mut tent = Tent::new(TentConfig::imagenet()).unwrap();
    tent.step(&mut device, &batch).unwrap();
    assert_eq!(device.0.runs(), 1);
}

#[test]
fn a_failed_step_is_an_error_of_the_adapter() {
    let mut device = Wrapped(FakeDevice::new(residual_network().0));
    let broken = Batch::new([1, 2, 2, 3], vec![0.0; 12]).unwrap();
    for (name, make) in methods() {
        let mut adapter = make();
        let (_, batch) = residual_network();
        adapter.prepare(&mut device, &[batch]).unwrap();
        assert!(adapter.step(&mut device, &broken).is_err(), "{name}");
    }
}
