//! Time of exact transport for 10,000 images and 1,000 classes: `cargo bench -p flipcast-estimate --bench transport`.
//!
//! The logits are made up: a hidden class per image raises its own logit and those of classes near it, and all are noisy, so
//! that confidences and confusions look like a network's. `peaked` is a sure network, `flat` an unsure one.

use flipcast_estimate::{Outputs, cot};
use flipcast_ground::SplitMix64;
use std::time::Instant;

const IMAGES: usize = 10_000;
const CLASSES: usize = 1_000;

/// Sum of four uniform numbers, centred: near enough to normal.
fn noise(random: &mut SplitMix64) -> f64 {
    (0..4).map(|_| random.uniform()).sum::<f64>() - 2.0
}

fn outputs(strength: f64, seed: u64) -> Outputs {
    let mut random = SplitMix64::new(seed);
    let mut logits = Vec::with_capacity(IMAGES * CLASSES);
    for image in 0..IMAGES {
        let class = image * 7 % CLASSES;
        let clarity = strength * random.uniform();
        for k in 0..CLASSES {
            let away = (k as f64 - class as f64).abs();
            let near = clarity * (-away / 10.0).exp();
            logits.push((near + 1.5 * noise(&mut random)) as f32);
        }
    }
    Outputs::new(logits, CLASSES).expect("finite logits")
}

fn main() {
    let uniform = vec![1.0 / CLASSES as f64; CLASSES];
    let total: f64 = (1..=CLASSES).map(|k| 1.0 / k as f64).sum();
    let skewed: Vec<f64> = (1..=CLASSES).map(|k| 1.0 / (k as f64 * total)).collect();
    println!("outputs  marginal  seconds  accuracy");
    for (name, strength) in [("flat", 4.0), ("usual", 12.0), ("peaked", 40.0)] {
        let outputs = outputs(strength, 1);
        for (marginal, shares) in [("uniform", &uniform), ("skewed", &skewed)] {
            let started = Instant::now();
            let score = cot(&outputs, shares).expect("shares add up");
            let seconds = started.elapsed().as_secs_f64();
            println!("{name:7}  {marginal:8}  {seconds:7.2}  {:8.4}", score.value);
        }
    }
}
