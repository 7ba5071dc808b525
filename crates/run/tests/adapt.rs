//! Adaptation runs on a small random network and made-up pictures.

use flipcast_adapt::{GuardAction, GuardConfig, GuardState, MethodConfig};
use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
use flipcast_images::labelspace::{ClassSpace, Decision, LabelSpace};
use flipcast_images::loader::{LoaderConfig, OnBadImage, Order};
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_record::predictions::{Format, PredictionRow, PredictionWriter};
use flipcast_record::results::Checkpoint;
use flipcast_run::adapt::{
    AdaptJob, AdaptOutcome, AdaptSummary, AffineError, DataIdentity, Ending, Flow, GuardEvent, Progress, SourceRule,
    StepWatcher, load_affine, run, save_affine,
};
use flipcast_run::{Device, RunError};
use std::path::PathBuf;
use std::sync::Arc;

const CLASSES: usize = 5;
const SIDE: usize = 16;

/// Pictures of irregular stripes; some of them cannot be decoded.
struct Pictures {
    images: usize,
    bad: Vec<usize>,
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
        let byte = |i: usize| (i * (2 * index + 3) / 7 + (i * i % (index + 5))) as u8;
        let rgb: Vec<u8> = (0..3 * SIDE * SIDE).map(byte).collect();
        Ok(Sample {
            id: self.id(index),
            payload: if self.bad.contains(&index) {
                Payload::Encoded(b"no picture".to_vec())
            } else {
                Payload::Pixels(Image::new(SIDE, SIDE, rgb).expect("sizes match"))
            },
            label: Label::Class((index % CLASSES) as u32),
        })
    }
}

fn model(seed: u64) -> Model {
    let rule = Preprocess {
        crop: Some(flipcast_images::preprocess::Size::square(SIDE)),
        ..Preprocess::normalise_only(Normalise::cifar10())
    };
    Model::random("cifar_resnet20", CLASSES, seed).expect("a known architecture").with_preprocess(rule)
}

fn method(name: &str) -> MethodConfig {
    MethodConfig::default_for(name, CLASSES).expect("a known method")
}

/// A job over `images` pictures in batches of 4, in stored order, unwatched.
fn job<'a>(model: &'a Model, method: &'a MethodConfig, images: usize) -> AdaptJob<'a> {
    let dataset = Arc::new(Pictures { images, bad: Vec::new() });
    let rule = model.preprocess().expect("it was given").clone();
    AdaptJob {
        model,
        data: DataIdentity::of(&*dataset, None),
        dataset,
        loader: LoaderConfig { batch_size: 4, threads: 1, ..LoaderConfig::new(rule) },
        class_space: None,
        method,
        seed: 0,
        epochs: None,
        steps: None,
        guard: GuardConfig::off(),
        source: SourceRule::Predict,
        start: None,
        anchored: None,
        arbiter: None,
        watch_every: None,
        clean: Vec::new(),
        device: Device::cpu(1),
        predictions: None,
    }
}

fn labels() -> ClassSpace {
    let space = Arc::new(LabelSpace::index("outputs", CLASSES));
    ClassSpace::new(space, Decision::Full).expect("any space can be decided in full")
}

/// A file of a test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("flipcast-run-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs `job` with its predictions in a file; gives the rows too.
fn with_rows(name: &str, mut job: AdaptJob<'_>) -> (AdaptOutcome, Vec<PredictionRow>) {
    let file = Scratch::new(&format!("{name}.jsonl"));
    job.predictions = Some(PredictionWriter::create(&file.0, Format::Jsonl).expect("a writable folder"));
    let outcome = run(job, &mut ()).expect("the job works");
    let text = std::fs::read_to_string(&file.0).expect("the file is complete");
    let rows = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    (outcome, rows)
}

#[test]
fn every_image_has_a_row_and_the_summary_counts_them() {
    let (model, tent) = (model(1), method("tent"));
    let space = labels();
    let job = AdaptJob { class_space: Some(&space), ..job(&model, &tent, 10) };
    let (outcome, rows) = with_rows("rows", job);
    let summary = outcome.summary;
    assert_eq!((summary.images, summary.steps), (10, 3));
    assert_eq!(summary.ending, Ending::Complete);
    assert_eq!((summary.used_share, summary.reliable_share), (1.0, 1.0));
    assert_eq!(summary.labelled, 10);
    let ids: Vec<String> = (0..10).map(|i| format!("picture {i}")).collect();
    assert!(rows.iter().map(|row| &row.id).eq(&ids));
    let flips = rows.iter().filter(|row| row.flipped == Some(true)).count();
    assert_eq!(summary.flip_rate, Some(flips as f64 / 10.0));
    let right = rows.iter().zip(0..).filter(|(row, i)| row.class == i % 5);
    assert_eq!(summary.accuracy, Some(right.count() as f64 / 10.0));
    assert_ne!(outcome.affine, model.affine());
}

#[test]
fn the_source_method_flips_nothing_and_moves_nothing() {
    let (model, source) = (model(1), method("source"));
    let space = labels();
    let job = AdaptJob { class_space: Some(&space), ..job(&model, &source, 6) };
    let outcome = run(job, &mut ()).expect("the job works");
    assert_eq!(outcome.summary.flip_rate, Some(0.0));
    assert_eq!(outcome.summary.accuracy, outcome.summary.source_accuracy);
    assert!(!outcome.summary.starved);
    assert_eq!(outcome.affine, model.affine());
}

#[test]
fn labels_change_nothing_but_the_accuracy() {
    let (model, rdumb) = (model(2), method("rdumb"));
    let space = labels();
    let blind = run(job(&model, &rdumb, 9), &mut ()).expect("the job works");
    let seeing = AdaptJob { class_space: Some(&space), ..job(&model, &rdumb, 9) };
    let seeing = run(seeing, &mut ()).expect("the job works");
    assert_eq!(blind.affine, seeing.affine);
    assert_eq!(blind.summary.accuracy, None);
    assert!(seeing.summary.accuracy.is_some());
}

#[test]
fn a_single_image_at_the_end_joins_the_batch_before_it() {
    let (model, tent) = (model(1), method("tent"));
    let (outcome, rows) = with_rows("merged", job(&model, &tent, 9));
    assert_eq!((outcome.summary.images, outcome.summary.steps), (9, 2));
    assert_eq!(rows.len(), 9);
    // Running statistics need no neighbours.
    let source = method("source");
    let outcome = run(job(&model, &source, 9), &mut ()).expect("the job works");
    assert_eq!(outcome.summary.steps, 3);
}

#[test]
fn batches_too_small_for_statistics_are_refused() {
    let (model, tent, source) = (model(1), method("tent"), method("source"));
    let refused = run(job(&model, &tent, 1), &mut ()).expect_err("one image");
    assert_eq!(
        refused.to_string(),
        "number of images is 1, expected at least 2 for a method that normalises with the statistics of the batch"
    );
    for (method, allowed) in [(&tent, false), (&source, true)] {
        let mut job = job(&model, method, 3);
        job.loader.batch_size = 1;
        match run(job, &mut ()) {
            Ok(outcome) => assert!(allowed && outcome.summary.images == 3),
            Err(error) => assert!(!allowed && error.to_string().contains("batch size is 1")),
        }
    }
    let mut none = job(&model, &tent, 4);
    none.loader.batch_size = 0;
    assert!(matches!(run(none, &mut ()), Err(RunError::Setting { found: 0, .. })));
}

#[test]
fn steps_and_epochs_bound_the_run() {
    let (model, tent) = (model(1), method("tent"));
    let steps = |epochs, steps| {
        let job = AdaptJob { epochs, steps, ..job(&model, &tent, 8) };
        let summary = run(job, &mut ()).expect("the job works").summary;
        (summary.steps, summary.images)
    };
    assert_eq!(steps(None, None), (2, 8));
    assert_eq!(steps(Some(3), None), (6, 24));
    assert_eq!(steps(Some(3), Some(4)), (4, 16));
    assert_eq!(steps(None, Some(5)), (5, 20));
    assert_eq!(steps(Some(1), Some(50)), (2, 8));
}

#[test]
fn shuffled_passes_differ_and_repeat_by_seed() {
    let (model, source) = (model(1), method("source"));
    let rows = |name: &str, seed| {
        let mut job = job(&model, &source, 12);
        job.epochs = Some(2);
        job.loader.order = Order::Shuffled { seed };
        let (_, rows) = with_rows(name, job);
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let one = rows("shuffled-1", 3);
    assert_eq!(one, rows("shuffled-2", 3));
    assert_ne!(one, rows("shuffled-3", 4));
    assert_ne!(one[..12], one[12..]);
}

#[test]
fn bad_images_are_left_out_or_end_the_run() {
    let (model, tent) = (model(1), method("tent"));
    let with_bad = |images: usize, bad: &[usize], rule| {
        let mut job = job(&model, &tent, images);
        job.dataset = Arc::new(Pictures { images, bad: bad.to_vec() });
        job.loader.on_bad_image = rule;
        job.epochs = Some(2);
        run(job, &mut ())
    };
    let outcome = with_bad(9, &[2, 7], OnBadImage::Skip).expect("the others are there");
    assert_eq!((outcome.summary.images, outcome.summary.skipped), (14, 4));
    let refused = with_bad(9, &[2, 7], OnBadImage::Fail).expect_err("a bad image");
    assert!(matches!(refused, RunError::Load(_)), "{refused}");
    let refused = with_bad(2, &[0, 1], OnBadImage::Skip).expect_err("nothing is left");
    assert!(matches!(refused, RunError::NoImages), "{refused}");
}

/// Ends a run after some batches.
struct Impatient(usize);

impl StepWatcher for Impatient {
    fn batch(&mut self, now: &Progress) -> Flow {
        if now.batches < self.0 { Flow::Continue } else { Flow::Stop }
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let (model, tent) = (model(1), method("tent"));
    let file = Scratch::new("interrupted.csv");
    let mut job = job(&model, &tent, 40);
    job.predictions = Some(PredictionWriter::create(&file.0, Format::Csv).expect("writable"));
    let outcome = run(job, &mut Impatient(2)).expect("the job works");
    assert_eq!(outcome.summary.ending, Ending::Interrupted);
    assert_eq!(outcome.summary.images, 8);
    let partial = outcome.partial_predictions.expect("it is named");
    let text = std::fs::read_to_string(&partial).expect("readable");
    std::fs::remove_file(&partial).expect("it was there");
    assert_eq!(text.lines().count(), 9);
    assert!(!file.0.exists());
}

#[test]
fn an_adapted_vector_resumes_where_it_was_saved() {
    let (model, tent) = (model(1), method("tent"));
    let file = Scratch::new("affine.safetensors");
    let first = run(job(&model, &tent, 8), &mut ()).expect("the job works");
    save_affine(&file.0, &model, &first.affine).expect("writable");
    assert_eq!(load_affine(&file.0, &model).expect("its own"), first.affine);
    let predict = |start| {
        let bn = method("bn");
        let job = AdaptJob { start, ..job(&model, &bn, 8) };
        run(job, &mut ()).expect("the job works")
    };
    let (plain, resumed) = (predict(None), predict(Some(first.affine.clone())));
    assert_ne!(plain.summary.first_entropy, resumed.summary.first_entropy);
    assert_eq!(resumed.affine, first.affine);
    let short = AdaptJob { start: Some(vec![0.0; 3]), ..job(&model, &tent, 8) };
    assert!(matches!(run(short, &mut ()), Err(RunError::AffineLength { found: 3, .. })));
}

#[test]
fn vectors_of_other_networks_and_other_files_are_refused() {
    let small = model(1);
    let file = Scratch::new("other.safetensors");
    let other = Model::random("cifar_resnet26_w32", CLASSES, 1).expect("known");
    save_affine(&file.0, &other, &other.affine()).expect("writable");
    let refused = load_affine(&file.0, &small).expect_err("another network");
    assert!(matches!(refused, AffineError::Tensor { .. }), "{refused}");
    let mut broken = small.affine();
    broken[3] = f32::NAN;
    save_affine(&file.0, &small, &broken).expect("writable");
    let refused = load_affine(&file.0, &small).expect_err("not a number");
    assert!(matches!(refused, AffineError::NotFinite { index: 3, .. }), "{refused}");
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let plain = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    std::fs::write(&file.0, plain).expect("writable");
    let refused = load_affine(&file.0, &small).expect_err("plain weights");
    assert!(matches!(refused, AffineError::NotAffine { .. }), "{refused}");
    std::fs::write(&file.0, b"text").expect("writable");
    let refused = load_affine(&file.0, &small).expect_err("no tensors");
    assert!(matches!(refused, AffineError::Read { .. }), "{refused}");
}

#[test]
fn the_protocol_tells_runs_apart() {
    let (model, tent, eta) = (model(1), method("tent"), method("eta"));
    let key = |change: &dyn Fn(&mut AdaptJob<'_>)| {
        let mut job = job(&model, &tent, 8);
        change(&mut job);
        job.protocol().expect("JSON").key()
    };
    let plain = key(&|_| ());
    assert_eq!(plain, key(&|job| job.device = Device::cpu(2)));
    assert_eq!(plain, key(&|job| job.loader.threads = 2));
    let changes: [&dyn Fn(&mut AdaptJob<'_>); 7] = [
        &|job| job.seed = 1,
        &|job| job.steps = Some(1),
        &|job| job.loader.batch_size = 5,
        &|job| job.loader.order = Order::Shuffled { seed: 0 },
        &|job| job.start = Some(model.affine()),
        &|job| job.source = SourceRule::Skip,
        &|job| job.guard = GuardConfig::for_classes(CLASSES),
    ];
    let mut keys: Vec<String> = changes.iter().map(|change| key(change)).collect();
    keys.push(plain);
    keys.push(self::job(&model, &eta, 8).protocol().expect("JSON").key());
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 9);
}

/// Notes what the guard says.
#[derive(Default)]
struct Noted(Vec<GuardEvent>);

impl StepWatcher for Noted {
    fn guard(&mut self, event: &GuardEvent) {
        self.0.push(event.clone());
    }
}

/// A guard that takes predictions less diverse than those of the first window for a collapse.
fn suspicious(action: GuardAction) -> GuardConfig {
    GuardConfig {
        action,
        window: 8,
        min_images: 4,
        warn_share: 1.0,
        collapse_share: 1.0,
        flip_limit: 0.0,
        ..GuardConfig::for_classes(CLASSES)
    }
}

#[test]
fn the_guard_s_action_is_carried_out() {
    // A network that gives several answers at first, and steps so large that soon one is left.
    let model = model(4);
    let slow = serde_json::to_string(&method("tent")).expect("JSON");
    let fast = slow.replace("0.00025", "0.5");
    assert_ne!(slow, fast);
    let tent: MethodConfig = serde_json::from_str(&fast).expect("a learning rate");
    let outcome = |action| {
        let mut noted = Noted::default();
        let job = AdaptJob { guard: suspicious(action), source: SourceRule::Skip, ..job(&model, &tent, 40) };
        let outcome = run(job, &mut noted).expect("the job works");
        assert_eq!(noted.0, outcome.summary.guard_events);
        (outcome, noted.0)
    };
    let (warned, events) = outcome(GuardAction::Warn);
    let collapse = events.iter().find(|e| e.state == GuardState::Collapsed);
    let collapse = collapse.unwrap_or_else(|| panic!("no collapse among {events:?}"));
    assert_eq!(collapse.action, Some(GuardAction::Warn));
    assert_eq!(warned.summary.ending, Ending::Complete);
    let (stopped, _) = outcome(GuardAction::Stop);
    assert_eq!(stopped.summary.ending, Ending::Collapsed);
    assert_eq!(stopped.summary.images, 4 * collapse.batch);
    let (source, _) = outcome(GuardAction::Source);
    assert_eq!(source.summary.source_since, Some(collapse.batch + 1));
    assert_eq!(source.summary.steps, collapse.batch);
    assert_eq!((source.summary.images, &source.affine), (40, &model.affine()));
    let (reset, events) = outcome(GuardAction::Reset);
    assert_eq!(reset.summary.steps, 10);
    assert!(events.iter().any(|e| e.action == Some(GuardAction::Reset)));
}

#[test]
fn looks_at_the_clusters_change_nothing_and_begin_with_the_source_model() {
    let model = model(3);
    let (tent, bn) = (method("tent"), method("bn"));
    let plain = run(job(&model, &tent, 24), &mut ()).expect("pictures").summary;
    let watched = run(AdaptJob { watch_every: Some(2), ..job(&model, &tent, 24) }, &mut ()).expect("pictures").summary;
    let steps: Vec<usize> = watched.watched.iter().map(|look| look.step).collect();
    assert_eq!(steps, [0, 2, 4, 6]);
    let (source, last) = (&watched.watched[0], &watched.watched[3]);
    assert_eq!((source.flips, source.shift_distance), (0.0, Some(0.0)));
    assert!(last.entropy != source.entropy && last.shift_distance > Some(0.0), "{last:?}");
    assert_eq!(AdaptSummary { watched: Vec::new(), ..watched }, plain);
    // What only predicts does not move.
    let still = run(AdaptJob { watch_every: Some(3), ..job(&model, &bn, 24) }, &mut ()).expect("pictures").summary;
    assert_eq!(Checkpoint { step: 0, ..still.watched[2].clone() }, still.watched[0]);
    let never = AdaptJob { watch_every: Some(0), ..job(&model, &bn, 24) };
    assert!(matches!(never.check(), Err(RunError::Setting { .. })));
}
