//! Time of every estimator of one cell: `cargo bench -p flipcast-estimate --bench cell`. Arguments choose: `csv` prints a table of
//! all turns, numbers are image counts, other words are parts of the names of what is timed.
//!
//! A cell has the source model's outputs, with embeddings and head as a ResNet-50 has them, and the adapted model's outputs.
//! The logits are made up: a label raises its own logit by a clarity that differs from image to image and those of the classes
//! of its group by part of it, every class is preferred or neglected a little, and all are noisy. About 60% are right.

use flipcast_estimate::{
    Anchor, CottThreshold, Embeddings, Evidence, Head, Learned, MarginalReference, Outputs, Probe, Reference, SCORES,
    ScoreInfo,
};
use flipcast_ground::SplitMix64;
use std::time::Instant;

const CLASSES: usize = 1_000;
const DIMS: usize = 2_048;
/// Classes that are mistaken for each other.
const GROUP: usize = 8;
/// Turns over all estimators; the shortest time of each counts.
const TURNS: usize = 3;

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

/// The same logits without anything an earlier turn may have left with them.
fn forgetful(outputs: &Outputs) -> Outputs {
    Outputs::new(outputs.rows().flatten().copied().collect(), CLASSES).expect("finite logits")
}

/// Seconds that all threads of this process have computed so far, in steps of a hundredth, on Linux: a busy machine stretches the
/// time on the clock, and this less.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the name before them may hold spaces but ends with the last bracket.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// What is known beside outputs.
struct Known<'a> {
    shares: &'a [f64],
    learned: Learned<'a>,
    embeddings: &'a Embeddings,
    predicted: &'a [usize],
    head: &'a Head,
    probe: &'a Probe,
}

impl<'a> Known<'a> {
    fn of_adapted(&self, outputs: &'a Outputs) -> Evidence<'a> {
        let (shares, learned, probe) = (self.shares, Some(self.learned), Some(self.probe));
        Evidence { outputs, shares, learned, embeddings: None, head: None, probe }
    }

    fn of_source(&self, outputs: &'a Outputs) -> Evidence<'a> {
        let embeddings = Some((self.embeddings, self.predicted));
        Evidence { embeddings, head: Some(self.head), ..self.of_adapted(outputs) }
    }

    /// How many scores the source model's outputs and the adapted model's have.
    fn both(&self, source: &'a Outputs, adapted: &'a Outputs, wanted: impl Fn(&ScoreInfo) -> bool) -> f64 {
        let looks = [&self.of_source(source), &self.of_adapted(adapted)];
        let scores = Evidence::scores_of(looks, wanted).expect("evidence is sound");
        scores.iter().map(|scores| scores.len()).sum::<usize>() as f64
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let csv = arguments.iter().any(|word| word == "csv");
    arguments.retain(|word| word != "csv");
    let counts: Vec<usize> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let names: Vec<String> = arguments.into_iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let clean_labels = labels(5_000, 1);
    let clean = outputs(&clean_labels, 2);
    let reference = Reference::fit(&clean, &clean_labels).expect("labels fit");
    let marginals = MarginalReference::fit(&clean, &clean_labels).expect("labels fit");
    let cott_threshold = CottThreshold::Exact.fit(&clean, &clean_labels).expect("labels fit");
    let learned = Learned { reference: &reference, marginals: &marginals, cott_threshold };
    let shares = vec![1.0 / CLASSES as f64; CLASSES];
    let head = head();
    println!(
        "{}",
        if csv {
            "images,what,turn,seconds,cpu_seconds"
        } else {
            "images  what                  seconds     cpu  value"
        }
    );
    for images in if counts.is_empty() { vec![2_000, 10_000] } else { counts } {
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
        let known = Known {
            shares: &shares,
            learned,
            embeddings: &embeddings,
            predicted: &predicted,
            head: &head,
            probe: &probe,
        };
        let report = |what: &str, work: &dyn Fn(&Outputs, &Outputs) -> f64| {
            if !names.is_empty() && !names.iter().any(|name| what.contains(name.as_str())) {
                return;
            }
            let (mut best, mut best_cpu) = (f64::INFINITY, f64::INFINITY);
            let mut value = 0.0;
            for turn in 0..TURNS {
                let (source, adapted) = (forgetful(&source), forgetful(&adapted));
                let (started, cpu_before) = (Instant::now(), cpu_seconds());
                value = work(&source, &adapted);
                let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
                (best, best_cpu) = (best.min(seconds), best_cpu.min(cpu));
                if csv {
                    println!("{images},{what},{turn},{seconds:.5},{cpu:.2}");
                }
            }
            if !csv {
                println!("{images:6}  {what:20}  {best:7.4}  {best_cpu:6.2}  {value:.12}");
            }
        };
        report("accuracy", &|source, _| source.accuracy(&true_labels).expect("labels fit"));
        for info in SCORES {
            report(info.name, &|source, _| {
                let scores =
                    known.of_source(source).scores(|other| other.name == info.name).expect("evidence is sound");
                scores.get(info.name).map_or(f64::NAN, |score| score.value)
            });
        }
        let all = |seen: Evidence| seen.scores(|_| true).expect("evidence is sound").len() as f64;
        report("source", &|source, _| all(known.of_source(source)));
        report("adapted", &|_, adapted| all(known.of_adapted(adapted)));
        report("both without aetta", &|source, adapted| known.both(source, adapted, |info| info.name != "aetta"));
        report("both", &|source, adapted| known.both(source, adapted, |_| true));
    }
}
