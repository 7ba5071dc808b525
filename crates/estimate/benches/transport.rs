//! Time of exact transport: `cargo bench -p flipcast-estimate --bench transport`, with numbers of images as arguments.
//!
//! The logits are made up: a hidden class per image raises its own logit and those of classes near it, and all are noisy, so
//! that confidences and confusions look like a network's. `peaked` is a sure network, `flat` an unsure one, and `alike` one that says
//! nearly the same of every image, as a network with random weights does, or a trained one that has collapsed.

use flipcast_estimate::{Outputs, cot};
use flipcast_ground::SplitMix64;
use std::time::Instant;

const CLASSES: usize = 1_000;

/// Sum of four uniform numbers, centred: near enough to normal.
fn noise(random: &mut SplitMix64) -> f64 {
    (0..4).map(|_| random.uniform()).sum::<f64>() - 2.0
}

fn outputs(images: usize, strength: f64, seed: u64) -> Outputs {
    let mut random = SplitMix64::new(seed);
    let mut logits = Vec::with_capacity(images * CLASSES);
    for image in 0..images {
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

fn alike(images: usize, seed: u64) -> Outputs {
    let mut random = SplitMix64::new(seed);
    let shared: Vec<f64> = (0..CLASSES).map(|_| 0.5 * noise(&mut random)).collect();
    let logits = (0..images * CLASSES).map(|at| (shared[at % CLASSES] + 0.02 * noise(&mut random)) as f32);
    Outputs::new(logits.collect(), CLASSES).expect("finite logits")
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![50, 300, 2_000, 10_000];
    }
    let uniform = vec![1.0 / CLASSES as f64; CLASSES];
    let total: f64 = (1..=CLASSES).map(|k| 1.0 / k as f64).sum();
    let skewed: Vec<f64> = (1..=CLASSES).map(|k| 1.0 / (k as f64 * total)).collect();
    println!("images  outputs  marginal  seconds  accuracy");
    for images in sizes {
        let kinds = [("flat", 4.0), ("usual", 12.0), ("peaked", 40.0)];
        let made = kinds.map(|(name, strength)| (name, outputs(images, strength, 1)));
        for (name, outputs) in made.into_iter().chain([("alike", alike(images, 1))]) {
            for (marginal, shares) in [("uniform", &uniform), ("skewed", &skewed)] {
                let started = Instant::now();
                let score = cot(&outputs, shares).expect("shares add up");
                let seconds = started.elapsed().as_secs_f64();
                println!("{images:6}  {name:7}  {marginal:8}  {seconds:7.3}  {:8.4}", score.value);
            }
        }
    }
}
