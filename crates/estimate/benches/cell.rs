//! Time of every estimator of one cell: `cargo bench -p flipcast-estimate --bench cell`, with `csv` for a table of all turns.
//!
//! A cell has the source model's outputs, with embeddings and head as a ResNet-50 has them, and the adapted model's outputs.
//! The logits are made up: a label raises its own logit by a clarity that differs from image to image and those of the classes
//! of its group by part of it, every class is preferred or neglected a little, and all are noisy. About 60% are right.

use flipcast_estimate::{
    Anchor, CottThreshold, Embeddings, Evidence, Head, Learned, MarginalReference, Outputs, Probe, Reference, SCORES,
    cot,
};
use flipcast_ground::SplitMix64;
use std::time::Instant;

const CLASSES: usize = 1_000;
const DIMS: usize = 2_048;
/// Classes that are mistaken for each other.
const GROUP: usize = 8;
/// Turns over all estimators; the shortest time of each counts.
const TURNS: usize = 5;

fn labels(images: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::new(seed);
    (0..images).map(|_| random.below(CLASSES)).collect()
}

fn outputs(labels: &[usize], seed: u64) -> Outputs {
    let mut random = SplitMix64::new(seed);
    let bias: Vec<f64> = (0..CLASSES).map(|_| 0.7 * random.normal()).collect();
    let mut logits = Vec::with_capacity(labels.len() * CLASSES);
    for &label in labels {
        let clarity = 16.0 * random.uniform();
        for class in 0..CLASSES {
            let lift = match (class == label, class / GROUP == label / GROUP) {
                (true, _) => clarity,
                (false, true) => 0.7 * clarity * random.uniform(),
                (false, false) => 0.0,
            };
            logits.push((lift + bias[class] + 1.6 * random.normal()) as f32);
        }
    }
    Outputs::new(logits, CLASSES).expect("finite logits")
}

/// Values that are positive or zero, as behind a ReLU.
fn embeddings(images: usize) -> Embeddings {
    let mut random = SplitMix64::new(5);
    let values = (0..images * DIMS).map(|_| (random.uniform() - 0.2).max(0.0) as f32).collect();
    Embeddings::new(values, DIMS).expect("finite values")
}

fn head() -> Head {
    let mut random = SplitMix64::new(6);
    let weight: Vec<f32> = (0..CLASSES * DIMS).map(|_| 0.2 * (random.uniform() as f32 - 0.5)).collect();
    Head::new(&weight, vec![0.0; CLASSES]).expect("finite weights")
}

fn anchor(outputs: &Outputs) -> Anchor {
    Anchor { classes: outputs.classes_predicted(), confidences: outputs.confidences() }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

fn main() {
    let csv = std::env::args().any(|argument| argument == "csv");
    let clean_labels = labels(5_000, 1);
    let clean = outputs(&clean_labels, 2);
    let reference = Reference::fit(&clean, &clean_labels).expect("labels fit");
    let marginals = MarginalReference::fit(&clean, &clean_labels).expect("labels fit");
    let cott_threshold = CottThreshold::Exact.fit(&clean, &clean_labels).expect("labels fit");
    let learned = Learned { reference: &reference, marginals: &marginals, cott_threshold };
    let shares = vec![1.0 / CLASSES as f64; CLASSES];
    let head = head();
    println!("{}", if csv { "images,what,turn,seconds" } else { "images  what                  seconds  value" });
    for images in [2_000, 10_000] {
        let true_labels = labels(images, 3);
        let (source, adapted) = (outputs(&true_labels, 4), outputs(&true_labels, 7));
        let embeddings = embeddings(images);
        let predicted = source.classes_predicted();
        let probe = Probe {
            source: Some(anchor(&source)),
            batch: Some(anchor(&source)),
            adapted: Some(adapted.classes_predicted()),
            flags: Vec::new(),
        };
        let seen = Evidence {
            outputs: &source,
            shares: &shares,
            learned: Some(learned),
            embeddings: Some((&embeddings, &predicted)),
            head: Some(&head),
            probe: Some(&probe),
        };
        let after = Evidence { outputs: &adapted, embeddings: None, head: None, ..seen.clone() };
        let half: Vec<f32> = source.rows().step_by(2).flatten().copied().collect();
        let half = Outputs::new(half, CLASSES).expect("finite logits");
        let report = |what: &str, value: f64, work: &dyn Fn()| {
            let turns: Vec<f64> = (0..TURNS).map(|_| seconds(work)).collect();
            if csv {
                turns.iter().enumerate().for_each(|(turn, time)| println!("{images},{what},{turn},{time:.5}"));
            } else {
                let best = turns.iter().copied().fold(f64::INFINITY, f64::min);
                println!("{images:6}  {what:20}  {best:7.4}  {value:.12}");
            }
        };
        report("accuracy", source.accuracy(&true_labels).expect("labels fit"), &|| ());
        for info in SCORES {
            let score = || seen.scores(|other| other.name == info.name).expect("evidence is sound");
            let value = score().get(info.name).map_or(f64::NAN, |score| score.value);
            report(info.name, value, &|| drop(score()));
        }
        report("cot of half", cot(&half, &shares).expect("shares fit").value, &|| drop(cot(&half, &shares)));
        report("source", 0.0, &|| drop(seen.scores(|_| true)));
        report("adapted", 0.0, &|| drop(after.scores(|_| true)));
        report("source without aetta", 0.0, &|| drop(seen.scores(|info| info.name != "aetta")));
        report("both without aetta", 0.0, &|| {
            drop(seen.scores(|info| info.name != "aetta"));
            drop(after.scores(|_| true));
        });
        report("both", 0.0, &|| {
            drop(seen.scores(|_| true));
            drop(after.scores(|_| true));
        });
    }
}
