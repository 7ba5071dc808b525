use super::*;
use crate::behaviour::{assert_adapts, residual_network};
use crate::{EntropyMargin, RedundancyMargin, entropies};

fn eta() -> AsrStep {
    AsrStep::Eta(EtaConfig {
        optimizer: OptimizerConfig::sgd(1e-3),
        entropy_margin: EntropyMargin::Nats(50.0),
        redundancy_margin: RedundancyMargin::Off,
        ..EtaConfig::imagenet()
    })
}

fn tent() -> AsrStep {
    AsrStep::Tent(TentConfig { optimizer: OptimizerConfig::sgd(1e-3), ..TentConfig::imagenet() })
}

/// Settings whose threshold starts at `ln(start_share * K)`.
fn config(step: AsrStep, start_share: f64) -> AsrConfig {
    AsrConfig { step, start_share, ..AsrConfig::imagenet() }
}

#[test]
fn steps_lower_the_entropy_reset_restores_and_runs_repeat() {
    for step in [eta(), tent()] {
        // A threshold that is never reached.
        let config = config(step, 1e-9);
        let loss = |logits: Logits<'_>| entropies(logits).iter().sum();
        assert_adapts(|| Box::new(Asr::new(config.clone()).unwrap()), loss);
    }
}

/// Names of the parameters that differ from the source's after a step that resets, kept share given.
fn moved_after_reset(kept_share: f64, kept_slope: f64) -> (Vec<String>, usize) {
    let (mut net, batch) = residual_network();
    // The entropy of all classes, which no mean prediction reaches.
    let config = AsrConfig { kept_share, kept_slope, ..config(tent(), 1.0) };
    let mut asr = Asr::new(config).unwrap();
    assert!(asr.step(&mut net, &batch).unwrap().reset);
    let (now, then) = (net.affine(), net.source_affine());
    let names = net.affine_table().names();
    let moved = names.filter(|(_, range)| now[range.clone()] != then[range.clone()]);
    (moved.map(|(name, _)| name).collect(), net.affine_table().names().count())
}

#[test]
fn a_mild_case_restores_the_last_layers_and_a_grave_one_all() {
    let (half, all) = moved_after_reset(0.5, 0.0);
    assert_eq!(half.len(), all / 2, "{half:?}");
    assert_eq!(half[0], "bn1.weight");
    assert!(moved_after_reset(0.5, 1e9).0.is_empty());
}

#[test]
fn the_threshold_follows_the_entropy_less_the_more_predictions_flip() {
    let (mut net, batch) = residual_network();
    let hasty = AsrStep::Tent(TentConfig { optimizer: OptimizerConfig::sgd(0.1), ..TentConfig::imagenet() });
    let mut asr = Asr::new(config(hasty, 1e-9)).unwrap();
    let mut threshold = (1e-9 * net.num_classes() as f64).ln();
    let mut flip_rates = Vec::new();
    for _ in 0..12 {
        let output = asr.step(&mut net, &batch).unwrap();
        assert!(!output.reset);
        let entropy = entropy_of_mean_logits(output.logits);
        let flip_rate = asr.flip_rate(&mut net, &batch).unwrap();
        let rate = 0.15 * (1.0 - flip_rate);
        threshold = (1.0 - rate) * threshold + rate * entropy;
        assert!((asr.threshold.unwrap() - threshold).abs() < 1e-12);
        assert!((asr.penalty.strength - 5.0 * flip_rate * flip_rate).abs() < 1e-12);
        flip_rates.push(flip_rate);
    }
    assert_eq!(flip_rates[0], 0.0, "the first predictions are the source's");
    assert!(flip_rates[11] > 0.0);
}

#[test]
fn the_source_is_asked_without_a_trace_even_if_the_pass_fails() {
    let (mut net, batch) = residual_network();
    let mut asr = Asr::new(config(tent(), 1e-9)).unwrap();
    asr.step(&mut net, &batch).unwrap();
    let affine = net.affine().to_vec();
    asr.flip_rate(&mut net, &batch).unwrap();
    assert_eq!(net.affine(), affine);
    let broken = Batch::new([1, 2, 2, 3], vec![0.0; 12]).unwrap();
    assert!(asr.flip_rate(&mut net, &broken).is_err());
    assert_eq!(net.affine(), affine);
}

#[test]
fn an_empty_keep_set_changes_no_parameter() {
    let (mut net, batch) = residual_network();
    let strict = AsrStep::Eta(EtaConfig { entropy_margin: EntropyMargin::Nats(1e-9), ..EtaConfig::imagenet() });
    let mut asr = Asr::new(config(strict, 1e-9)).unwrap();
    let output = asr.step(&mut net, &batch).unwrap();
    assert_eq!((output.used, output.reset), (0, false));
    assert_eq!(net.affine(), net.source_affine());
}

#[test]
fn the_entropy_is_that_of_the_mean_logits() {
    let entropy = entropy_of_mean_logits(Logits::new(&[4.0, 0.0, 0.0, 4.0], 2));
    assert!((entropy - 2f64.ln()).abs() < 1e-12);
    assert!(entropy_of_mean_logits(Logits::new(&[40.0, 0.0, 40.0, 0.0], 2)) < 1e-9);
}

#[test]
fn settings_outside_their_range_are_refused() {
    for bad in [
        AsrConfig { start_share: 0.0, ..AsrConfig::default() },
        AsrConfig { penalty: f64::NAN, ..AsrConfig::default() },
        AsrConfig { threshold_rate: 2.0, ..AsrConfig::default() },
    ] {
        assert!(Asr::new(bad).is_err());
    }
}
