use super::*;
use crate::behaviour::residual_network;
use crate::random::{Draws, Purpose};
use crate::{Adapter, OptimizerConfig, Tent, TentConfig};
use flipcast_executor::{Executor, Logits, NormMode};

/// Images per batch.
const BATCH: usize = 64;

/// A stream whose classes, model and source model are simulated.
struct Stream {
    draws: Draws,
    num_classes: usize,
}

impl Stream {
    fn new(num_classes: usize) -> Self {
        let draws = Draws::new(11, Purpose::Shuffle, num_classes as u64);
        Self { draws, num_classes }
    }

    fn classes(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.draws.index(self.num_classes)).collect()
    }

    /// Predictions that are right with this chance, and some other class otherwise.
    fn predict(&mut self, labels: &[usize], accuracy: f64) -> Vec<usize> {
        let mut one = |&label: &usize| {
            if self.draws.uniform() < accuracy { label } else { self.draws.index(self.num_classes) }
        };
        labels.iter().map(&mut one).collect()
    }

    /// Logits with these classes on top, by margins from 1 to 9.
    fn logits(&mut self, classes: &[usize]) -> Vec<f32> {
        let mut values = vec![0.0; classes.len() * self.num_classes];
        for (row, &class) in values.chunks_exact_mut(self.num_classes).zip(classes) {
            for value in row.iter_mut() {
                *value = self.draws.uniform() as f32 - 1.0;
            }
            row[class] = self.draws.uniform_in([1.0, 9.0]) as f32;
        }
        values
    }
}

struct Watched {
    guard: Guard,
    num_classes: usize,
}

impl Watched {
    fn new(num_classes: usize) -> Self {
        let config = GuardConfig::for_classes(num_classes);
        let guard = Guard::new(config, num_classes).unwrap();
        Self { guard, num_classes }
    }

    fn see(&mut self, logits: &[f32], source: Option<&[usize]>) -> GuardReport {
        self.guard.observe(Observation {
            logits: Logits::new(logits, self.num_classes),
            source_classes: source,
            embedding_drift: None,
        })
    }
}

#[test]
fn mixed_streams_stay_healthy_whatever_the_number_of_classes() {
    for num_classes in [2, 10, 100, 1000] {
        let (mut stream, mut watched) = (Stream::new(num_classes), Watched::new(num_classes));
        for step in 0..40 {
            let labels = stream.classes(BATCH);
            let source = stream.predict(&labels, 0.4);
            let adapted = stream.predict(&labels, 0.6);
            let logits = stream.logits(&adapted);
            let report = watched.see(&logits, Some(&source));
            let verdict = (report.state, &report.reasons);
            assert_eq!(report.state, GuardState::Healthy, "{num_classes} {step} {verdict:?}");
        }
    }
}

#[test]
fn class_sorted_streams_warn_and_are_not_called_collapsed() {
    for num_classes in [10, 100, 1000] {
        for source_known in [true, false] {
            let (mut stream, mut watched) = (Stream::new(num_classes), Watched::new(num_classes));
            let mut warned = false;
            // Runs of one class as long as two windows.
            let run = 2 * num_classes.max(256) / BATCH;
            for step in 0..4 * run {
                let labels = vec![step / run; BATCH];
                let source = stream.predict(&labels, 0.7);
                let adapted = stream.predict(&labels, 0.85);
                let logits = stream.logits(&adapted);
                let report = watched.see(&logits, source_known.then_some(&source[..]));
                warned |= report.state == GuardState::Warning;
                assert_ne!(report.state, GuardState::Collapsed, "{step} {report:?}");
            }
            assert!(warned, "{num_classes}");
        }
    }
}

/// Steps after which a model that gives more and more of its answers to one class is called collapsed.
fn steps_to_collapse(num_classes: usize, source_accuracy: Option<f64>) -> (usize, usize) {
    let (mut stream, mut watched) = (Stream::new(num_classes), Watched::new(num_classes));
    let mut first_warning = None;
    for step in 0..400 {
        let labels = stream.classes(BATCH);
        let mut adapted = stream.predict(&labels, 0.6);
        let swallowed = (step as f64 - 60.0) / 100.0;
        for class in &mut adapted {
            if stream.draws.uniform() < swallowed {
                *class = 1;
            }
        }
        let logits = stream.logits(&adapted);
        let source = source_accuracy.map(|accuracy| stream.predict(&labels, accuracy));
        let report = watched.see(&logits, source.as_deref());
        match report.state {
            GuardState::Healthy => {}
            GuardState::Warning => first_warning = first_warning.or(Some(step)),
            GuardState::Collapsed => return (first_warning.unwrap_or(step), step),
        }
    }
    panic!("never called collapsed: {num_classes} {source_accuracy:?}");
}

#[test]
fn collapsing_models_warn_first_and_are_then_called_collapsed() {
    for num_classes in [10, 100, 1000] {
        for source_accuracy in [None, Some(0.7), Some(0.02)] {
            let (warned, collapsed) = steps_to_collapse(num_classes, source_accuracy);
            println!("{num_classes} {source_accuracy:?}: warned {warned}, collapsed {collapsed}");
            // Swallowing begins at step 60 and ends at 160, when every answer is the same.
            assert!(warned > 60 && collapsed > warned, "{warned} {collapsed}");
            assert!(collapsed < 160 + num_classes.max(256) / BATCH, "{collapsed}");
        }
    }
}

#[test]
fn a_drift_is_a_witness_and_its_absence_is_one_too() {
    let (mut stream, mut watched) = (Stream::new(10), Watched::new(10));
    let mut see = |classes: &[usize], drift: f64| {
        let logits = stream.logits(classes);
        watched.guard.observe(Observation {
            logits: Logits::new(&logits, 10),
            source_classes: None,
            embedding_drift: Some(drift),
        })
    };
    let mixed: Vec<usize> = (0..BATCH).map(|i| i % 10).collect();
    for _ in 0..8 {
        assert_eq!(see(&mixed, 0.1).state, GuardState::Healthy);
    }
    let one = vec![3; BATCH];
    for _ in 0..8 {
        assert_ne!(see(&one, 0.1).state, GuardState::Collapsed);
    }
    let report = see(&one, 0.7);
    assert_eq!(report.state, GuardState::Collapsed);
    assert_eq!(report.drift, Some(0.7));
    assert!(report.effective_classes < 1.001);
}

#[test]
fn nothing_is_judged_before_enough_images_or_when_off() {
    let one = [0.0f32, 9.0, 0.0].repeat(63);
    let mut guard = Guard::new(GuardConfig::for_classes(3), 3).unwrap();
    let seen = |values| Observation { logits: Logits::new(values, 3), source_classes: None, embedding_drift: None };
    assert_eq!(guard.observe(seen(&one)).state, GuardState::Healthy);
    assert_eq!(guard.observe(seen(&one)).state, GuardState::Warning);
    guard.forget_window();
    assert_eq!(guard.observe(seen(&one)).state, GuardState::Healthy);

    let mut off = Guard::new(GuardConfig::off(), 3).unwrap();
    for _ in 0..9 {
        let report = off.observe(seen(&one));
        assert_eq!(report.state, GuardState::Healthy);
        assert!(report.reasons.is_empty());
    }
}

#[test]
fn settings_outside_their_range_are_refused_by_name() {
    let good = GuardConfig::for_classes(10);
    let bad = [
        GuardConfig { window: 1, ..good },
        GuardConfig { min_images: 1000, ..good },
        GuardConfig { warn_share: 1.5, ..good },
        GuardConfig { collapse_share: 0.75, ..good },
        GuardConfig { flip_limit: f64::NAN, ..good },
        GuardConfig { drift_limit: 0.0, ..good },
    ];
    for config in bad {
        let error = config.check().unwrap_err().to_string();
        assert!(error.starts_with("guard "), "{error}");
    }
    assert!(Guard::new(good, 1).is_err());
}

/// Embeddings around one of `num_classes` corners, with noise as large as half the distance between two of them.
fn embed(draws: &mut Draws, labels: &[usize], num_classes: usize) -> Vec<f32> {
    let mut values = Vec::new();
    for &label in labels {
        for corner in 0..num_classes {
            let home = if corner == label { 10.0 } else { 0.0 };
            let spread = 7.0 / (num_classes as f64).sqrt();
            values.push((home + spread * draws.normals()[0]) as f32);
        }
    }
    values
}

#[test]
fn the_drift_of_healthy_classes_is_small_and_that_of_a_class_with_everything_is_large() {
    let num_classes = 8;
    let mut stream = Stream::new(num_classes);
    let labels = stream.classes(2000);
    let embeddings = embed(&mut stream.draws, &labels, num_classes);
    let means = ClassMeans::fit(&embeddings, num_classes, &labels, num_classes).unwrap();
    let mut meter = DriftMeter::new(means, 512);
    let (mut healthy, mut collapsed) = (1.0, 0.0);
    for _ in 0..8 {
        let labels = stream.classes(BATCH);
        let embeddings = embed(&mut stream.draws, &labels, num_classes);
        healthy = meter.observe(&embeddings, &labels).unwrap();
    }
    for _ in 0..8 {
        let labels = stream.classes(BATCH);
        let embeddings = embed(&mut stream.draws, &labels, num_classes);
        collapsed = meter.observe(&embeddings, &[2; BATCH]).unwrap();
    }
    // Measured: 0.031, and 0.011 away from the centre.
    assert!(healthy < 0.1, "{healthy}");
    // The centre of a simplex of 8 corners is sqrt(7 / 16) = 0.661 sides away from each.
    assert!((collapsed - 0.661).abs() < 0.04, "{collapsed}");
    meter.forget_window();
    assert_eq!(meter.observe(&embeddings[..8], &[2]), None);
}

#[test]
fn means_of_a_single_class_are_refused() {
    assert!(ClassMeans::fit(&[1.0, 2.0, 3.0, 4.0], 2, &[1, 1], 3).is_err());
    assert!(ClassMeans::fit(&[1.0, 2.0, 1.0, 2.0], 2, &[0, 1], 3).is_err());
    assert!(ClassMeans::fit(&[1.0, 2.0, 3.0, 4.0], 2, &[0, 1], 3).is_ok());
}

/// Verdicts on a tiny residual network that Tent adapts to the same batch over and over.
fn verdicts(lr: f32) -> Vec<GuardState> {
    let (mut net, batch) = residual_network();
    let num_classes = net.num_classes();
    net.set_norm_mode(NormMode::Batch).unwrap();
    let source = net.forward(&batch).unwrap().argmax();
    let mut tent = Tent::new(TentConfig { optimizer: OptimizerConfig::sgd(lr), ..TentConfig::imagenet() }).unwrap();
    let mut watched = Watched::new(num_classes);
    let step = |_| {
        let output = tent.step(&mut net, &batch).unwrap();
        watched.see(output.logits.values(), Some(&source)).state
    };
    (0..16).map(step).collect()
}

#[test]
fn a_network_driven_too_hard_is_caught_and_a_gentle_one_is_not() {
    assert!(!verdicts(2.5e-4).contains(&GuardState::Collapsed));
    assert_eq!(verdicts(0.5).last(), Some(&GuardState::Collapsed));
}
