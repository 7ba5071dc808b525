//! Steps that the executor makes equal steps written out by hand, pass by pass.

use crate::behaviour::residual_network;
use crate::{
    Adapter, Eata, EataConfig, EntropyMargin, Eta, EtaConfig, OptimizerConfig, ParamRule, RedundancyMargin, Tent,
    TentConfig, mean_entropy_gradient,
};
use flipcast_executor::{Executor, Optimizer};
use flipcast_tensor::Batch;

fn eta(optimizer: OptimizerConfig) -> EtaConfig {
    EtaConfig {
        optimizer,
        entropy_margin: EntropyMargin::Nats(3.0),
        redundancy_margin: RedundancyMargin::Cosine(0.9),
        ..EtaConfig::imagenet()
    }
}

/// Three images of a batch, in a new order.
fn smaller(batch: &Batch) -> Batch {
    let values = [2, 0, 1].map(|image| batch.image(image)).concat();
    let extents = [3, batch.height(), batch.width(), batch.channels()];
    Batch::new(extents, values).unwrap()
}

#[test]
fn two_streams_in_turn_on_one_network_are_as_on_two() {
    for optimizer in [OptimizerConfig::sgd(1e-2), OptimizerConfig::adam(1e-2)] {
        let (net, batch) = residual_network();
        let batches = [batch.clone(), smaller(&batch)];
        let apart: Vec<Vec<f32>> = batches
            .iter()
            .map(|batch| {
                let (mut net, _) = residual_network();
                let mut eta = Eta::new(eta(optimizer)).unwrap();
                for _ in 0..3 {
                    eta.step(&mut net, batch).unwrap();
                }
                net.affine().to_vec()
            })
            .collect();
        let (mut net, mut shared) = (net, Eta::new(eta(optimizer)).unwrap());
        let fresh = (net.source_affine().to_vec(), shared.memory().unwrap());
        let mut streams = [fresh.clone(), fresh];
        for _ in 0..3 {
            for ((affine, memory), batch) in streams.iter_mut().zip(&batches) {
                net.affine_mut().copy_from_slice(affine);
                shared.set_memory(&mut net, memory.clone()).unwrap();
                shared.step(&mut net, batch).unwrap();
                (*affine, *memory) = (net.affine().to_vec(), shared.memory().unwrap());
            }
        }
        assert_eq!(streams.map(|(affine, _)| affine).to_vec(), apart);
    }
}

#[test]
fn a_step_is_forward_loss_backward_mask_and_optimizer() {
    for (optimizer, rule) in [
        (OptimizerConfig::sgd(1e-2), ParamRule::AllNorm),
        (OptimizerConfig::adam(1e-2), ParamRule::AllNorm),
        (OptimizerConfig::sgd(1e-2), ParamRule::Sar),
    ] {
        let (mut net, batch) = residual_network();
        let (mut by_hand, _) = residual_network();
        let config = TentConfig { optimizer, param_rule: rule.clone(), ..TentConfig::imagenet() };
        by_hand.set_norm_mode(config.norm_mode).unwrap();
        let mut tent = Tent::new(config).unwrap();
        let (mut memory, mut logit_gradient) = (Optimizer::new(optimizer), Vec::new());
        for batch in [&batch, &smaller(&batch), &batch] {
            let output = tent.step(&mut net, batch).unwrap();
            let logits = by_hand.forward(batch).unwrap();
            assert_eq!(output.logits, logits);
            assert_eq!(output.mean_entropy, mean_entropy_gradient(logits, &mut logit_gradient));
            let mut gradient = by_hand.backward(&logit_gradient).unwrap().to_vec();
            rule.mask(&by_hand, &mut gradient);
            memory.step(by_hand.affine_mut(), &gradient);
            assert_eq!(net.affine(), by_hand.affine(), "{optimizer:?} {rule}");
        }
        assert_ne!(net.affine(), net.source_affine());
    }
}

#[test]
fn runs_of_two_adapters_in_turns_do_not_mix() {
    let alone = |net: &mut dyn Executor, batch: &Batch| {
        let mut tent = Tent::new(TentConfig::imagenet()).unwrap();
        for _ in 0..3 {
            tent.step(net, batch).unwrap();
        }
        net.affine().to_vec()
    };
    let (mut net, batch) = residual_network();
    let expected = alone(&mut net, &batch);
    net.reset_affine();
    let mut tent = Tent::new(TentConfig::imagenet()).unwrap();
    let mut other = Eta::new(eta(OptimizerConfig::adam(1e-2))).unwrap();
    for _ in 0..3 {
        tent.step(&mut net, &batch).unwrap();
        let before = net.affine().to_vec();
        other.step(&mut net, &batch).unwrap();
        net.affine_mut().copy_from_slice(&before);
    }
    assert_eq!(net.affine(), expected);
}

#[test]
fn a_failed_step_is_an_error_of_the_adapter_and_moves_nothing() {
    let (mut net, batch) = residual_network();
    let broken = Batch::new([1, 2, 2, 3], vec![0.0; 12]).unwrap();
    let mut eata = Eata::new(EataConfig { eta: eta(OptimizerConfig::sgd(1e-2)), fisher_alpha: 40.0 }).unwrap();
    eata.prepare(&mut net, std::slice::from_ref(&batch)).unwrap();
    assert!(eata.step(&mut net, &broken).is_err());
    assert_eq!(net.affine(), net.source_affine());
}
