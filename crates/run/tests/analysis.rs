//! Analyses of a small random network on made-up pictures.

use flipcast_adapt::MethodConfig;
use flipcast_estimate::embed::TsneConfig;
use flipcast_exec::NormMode;
use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
use flipcast_images::labelspace::{ClassSpace, Decision, LabelSpace};
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Normalise, Preprocess, Size};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_record::RecordStore;
use flipcast_run::analysis::{
    Analysis, Clean, CleanSettings, ClusterSettings, FlipsJob, MapJob, OmissionJob, OmissionRule, PhasesJob,
    Restriction, Subject, ToyConfig,
};
use flipcast_run::{CellRequest, Device, Ledger, RunError, Scope, Unwatched, Watcher};
use std::path::PathBuf;
use std::sync::Arc;

const CLASSES: usize = 4;
const SIDE: usize = 8;

/// Pictures whose class shows in their colours; unlabelled ones where asked for.
struct Pictures {
    images: usize,
    labelled: bool,
}

impl Dataset for Pictures {
    fn layout(&self) -> Layout {
        Layout::FlatFolder
    }
    fn len(&self) -> usize {
        self.images
    }
    fn classes(&self) -> &[String] {
        &[]
    }
    fn id(&self, index: usize) -> String {
        format!("picture {index}")
    }
    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let class = index % CLASSES;
        let byte = |i: usize| (i * (class + 1) / 5 + i * i % (index + 5) + 50 * class) as u8;
        let rgb: Vec<u8> = (0..3 * SIDE * SIDE).map(byte).collect();
        Ok(Sample {
            id: self.id(index),
            payload: Payload::Pixels(Image::new(SIDE, SIDE, rgb).expect("sizes match")),
            label: if self.labelled { Label::Class(class as u32) } else { Label::Unknown },
        })
    }
}

/// What the jobs of a test borrow.
struct Bench {
    model: Model,
    rule: Preprocess,
    scope: Scope,
    tent: MethodConfig,
}

impl Bench {
    fn new() -> Self {
        let rule = Preprocess { crop: Some(Size::square(SIDE)), ..Preprocess::normalise_only(Normalise::cifar10()) };
        let model = Model::random("cifar_resnet20", CLASSES, 3).expect("a known architecture");
        let labels = Arc::new(LabelSpace::index("outputs", CLASSES));
        let space = ClassSpace::new(labels, Decision::Full).expect("any space");
        Self {
            model: model.with_preprocess(rule.clone()),
            rule,
            scope: Scope::new(CLASSES, Some(space)),
            tent: MethodConfig::default_for("tent", CLASSES).expect("a known method"),
        }
    }

    fn request(&self, data: &str, labelled: bool) -> CellRequest<'_> {
        CellRequest {
            data: data.to_owned(),
            dataset: Arc::new(Pictures { images: 48, labelled }),
            config: LoaderConfig { threads: 1, ..LoaderConfig::new(self.rule.clone()) },
            preprocess: &self.rule,
            scope: &self.scope,
            seed: 5,
            memory_limit: 1 << 20,
        }
    }

    fn subject(&self, labelled: bool) -> Subject<'_> {
        Subject {
            model: &self.model,
            request: self.request("pictures", labelled),
            method: &self.tent,
            batch_size: 8,
            chunk: 12,
            device: Device::cpu(1),
        }
    }

    fn clean(&self) -> Clean<'_> {
        let settings =
            CleanSettings { images: 40, statistics: NormMode::Batch, chunk: 20, restriction: Restriction::None };
        Clean::new(&self.model, Device::cpu(1), self.request("clean", true), settings)
    }

    fn phases<'a>(&'a self, clean: Option<&'a Clean<'a>>, labelled: bool) -> PhasesJob<'a> {
        PhasesJob {
            subject: self.subject(labelled),
            clean,
            checkpoints: vec![0, 1, 3, 8],
            embedding: ClusterSettings { images: 30, restarts: 2, ..ClusterSettings::default() },
        }
    }
}

/// A file of a test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let file = format!("flipcast-analysis-{}-{name}.jsonl", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(RecordStore::open(&self.0).expect("writable"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Counts steps.
#[derive(Default)]
struct Steps(usize);

impl Watcher for Steps {
    fn step(&mut self, _: usize, _: usize) {
        self.0 += 1;
    }
}

#[test]
fn phases_are_looked_at_where_asked_and_recorded_once() {
    let bench = Bench::new();
    let clean = bench.clean();
    let scratch = Scratch::new("phases");
    let job = bench.phases(Some(&clean), true);
    let mut steps = Steps::default();
    let found = job.recorded(&mut scratch.ledger(), &mut steps).unwrap();
    assert_eq!(steps.0, 8);
    let looked: Vec<usize> = found.checkpoints.iter().map(|c| c.step).collect();
    assert_eq!(looked, [0, 1, 3, 8]);
    assert_eq!((found.images, found.clusters), (30, CLASSES));
    assert_eq!(found.checkpoints[0].flips, 0.0);
    for checkpoint in &found.checkpoints {
        assert!(checkpoint.accuracy.is_some() && checkpoint.shift_distance.is_some());
        assert!(checkpoint.silhouette.is_some_and(|s| (-1.0..=1.0).contains(&s)));
    }
    assert!(found.phase_1_end.is_some_and(|step| looked.contains(&step)));
    assert!(found.checkpoints[3].entropy < found.checkpoints[0].entropy);

    let again = job.recorded(&mut scratch.ledger(), &mut steps).unwrap();
    assert_eq!(again, found);
    assert_eq!(steps.0, 8, "from the record");
    assert_eq!(job.run(&mut Unwatched).unwrap(), found, "made anew");
}

#[test]
fn labels_and_clean_images_change_nothing_but_what_needs_them() {
    let bench = Bench::new();
    let seen = bench.phases(None, true).run(&mut Unwatched).unwrap();
    let blind = bench.phases(None, false).run(&mut Unwatched).unwrap();
    assert_eq!(blind.phase_1_end, None);
    for (seen, blind) in seen.checkpoints.iter().zip(&blind.checkpoints) {
        assert_eq!(blind.accuracy, None);
        assert_eq!(blind.shift_distance, None);
        assert_eq!((seen.entropy, seen.flips), (blind.entropy, blind.flips));
        assert_eq!((seen.silhouette, seen.inertia), (blind.silhouette, blind.inertia));
    }
}

#[test]
fn omission_leaves_out_what_the_rule_says() {
    let bench = Bench::new();
    let omit = |rule, labelled| {
        let job = OmissionJob { subject: bench.subject(labelled), rule, steps: 5, every: 2, holdout: 20 };
        job.run(&mut Unwatched)
    };
    let none = omit(OmissionRule::TopK(0), true).unwrap();
    assert_eq!((none.images, none.dropped, none.dropped_entropy), (24, 0, None));
    assert_eq!(none.holdout_images, 20);
    let steps: Vec<usize> = none.curve.iter().map(|point| point.step).collect();
    assert_eq!(steps, [0, 2, 4, 5]);
    assert_eq!(omit(OmissionRule::Entropy(0.0), true).unwrap(), none);

    let one = omit(OmissionRule::TopK(1), true).unwrap();
    assert!(one.dropped > 0 && one.dropped < 24, "{}", one.dropped);
    assert_eq!(one.curve[0], none.curve[0]);
    let all = omit(OmissionRule::TopK(CLASSES), true).unwrap();
    assert_eq!(all.dropped, 24, "every label is among all classes");
    assert_eq!(all.curve.len(), 1, "nothing is left to adapt to");
    assert!((all.dropped_entropy.unwrap() - all.mean_entropy).abs() < 1e-12);

    let entropy = omit(OmissionRule::Entropy(none.mean_entropy), false).unwrap();
    assert!(entropy.dropped > 0 && entropy.dropped < 24);
    assert!(entropy.dropped_entropy.unwrap() <= none.mean_entropy);
    assert!(entropy.curve.iter().all(|point| point.accuracy.is_none()));
    let blind = omit(OmissionRule::TopK(1), false);
    assert!(matches!(blind, Err(RunError::Unlabelled { .. })));
    let broken = omit(OmissionRule::Entropy(f64::NAN), true);
    assert!(matches!(broken, Err(RunError::Number { .. })));
}

#[test]
fn flips_are_shares_of_the_probe() {
    let bench = Bench::new();
    let job = |steps, labelled| FlipsJob {
        subject: bench.subject(labelled),
        steps,
        embedding: ClusterSettings { images: 30, restarts: 2, ..ClusterSettings::default() },
    };
    let still = job(0, true).run(&mut Unwatched).unwrap();
    assert_eq!((still.flips, still.weighted_flips, still.images), (0.0, 0.0, 30));
    let found = job(12, true).run(&mut Unwatched).unwrap();
    assert!(found.accuracy.is_some());
    assert!((0.0..=1.0).contains(&found.flips) && found.weighted_flips <= found.flips);
    assert_eq!(found.silhouette, still.silhouette);
    let blind = job(12, false).run(&mut Unwatched).unwrap();
    assert_eq!(blind.accuracy, None);
    assert_eq!(blind.flips, found.flips);
}

#[test]
fn maps_carry_their_layout_from_frame_to_frame() {
    let bench = Bench::new();
    let clean = bench.clean();
    let scratch = Scratch::new("map");
    let job = |labelled, classes| MapJob {
        subject: bench.subject(labelled),
        clean: Some(&clean),
        frames: vec![0, 1, 4],
        points: 36,
        classes,
        restriction: Restriction::None,
        tsne: TsneConfig { perplexity: 6.0, rounds: 300, early_rounds: 100, ..TsneConfig::default() },
    };
    let found = job(true, 3).recorded(&mut scratch.ledger(), &mut Unwatched).unwrap();
    assert_eq!(found.class_names, ["class 0", "class 1", "class 2"]);
    assert_eq!(found.labels.len(), 36);
    assert!(found.labels.iter().all(|label| label.is_some_and(|l| l < 3)));
    let steps: Vec<usize> = found.frames.iter().map(|frame| frame.step).collect();
    assert_eq!(steps, [0, 1, 4]);
    for frame in &found.frames {
        assert_eq!((frame.points.len(), frame.class_means.len()), (36, 3));
        assert!(frame.kl.is_finite() && frame.accuracy.is_some());
    }
    let moved = |a: usize, b: usize| {
        let pairs = found.frames[a].points.iter().zip(&found.frames[b].points);
        let distances = pairs.map(|(p, q)| (p[0] - q[0]).hypot(p[1] - q[1]));
        distances.sum::<f64>() / 36.0
    };
    let spread = found.frames[0].points.iter().map(|p| p[0].hypot(p[1]));
    let spread = spread.sum::<f64>() / 36.0;
    assert!(moved(0, 1) < spread, "{} of {spread}", moved(0, 1));
    let again = job(true, 3).recorded(&mut scratch.ledger(), &mut Unwatched);
    assert_eq!(again.unwrap(), found);

    let blind = job(false, 5).run(&mut Unwatched).unwrap();
    assert_eq!(blind.class_names[4], "cluster 5");
    assert_eq!(blind.frames[0].class_means.len(), 5);
    assert_eq!(blind.frames[0].accuracy, None);
}

#[test]
fn protocols_tell_settings_apart_and_threads_do_not_matter() {
    let bench = Bench::new();
    let clean = bench.clean();
    let key = |job: &PhasesJob| job.protocol().unwrap().key();
    let job = bench.phases(Some(&clean), true);
    let threads = PhasesJob {
        subject: Subject { device: Device::cpu(2), ..bench.subject(true) },
        ..bench.phases(Some(&clean), true)
    };
    assert_eq!(key(&job), key(&threads));
    assert_ne!(key(&job), key(&bench.phases(None, true)));
    let longer = PhasesJob { checkpoints: vec![0, 9], ..bench.phases(Some(&clean), true) };
    assert_ne!(key(&job), key(&longer));
    let protocol = job.protocol().unwrap();
    for field in ["kind", "version", "model", "data", "preprocess", "class_space", "images", "seed"] {
        assert!(protocol.get(field).is_some(), "{field}");
    }
    assert_eq!(protocol.kind(), "phases");
    assert_eq!(ToyConfig::default().protocol().unwrap().kind(), "toy");
}

#[test]
fn what_cannot_work_is_refused() {
    let bench = Bench::new();
    let mut job = bench.phases(None, true);
    job.checkpoints = vec![1, 2];
    assert!(matches!(job.run(&mut Unwatched), Err(RunError::Setting { .. })));
    let mut job = bench.phases(None, true);
    job.embedding.clusters = Some(31);
    assert!(matches!(job.run(&mut Unwatched), Err(RunError::Embed(_))));
    let mut job = bench.phases(None, true);
    job.embedding.restriction = Restriction::SixteenClass;
    assert!(matches!(job.run(&mut Unwatched), Err(RunError::Setting { .. })));
    let eata = MethodConfig::default_for("eata", CLASSES).unwrap();
    let mut job = bench.phases(None, true);
    job.subject.method = &eata;
    assert!(matches!(job.run(&mut Unwatched), Err(RunError::Setting { .. })));
}
