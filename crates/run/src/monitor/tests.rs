use super::*;
use crate::{LabelledOutputs, LooksAtImages, OutputsCalibration, ScoreOptions, Unwatched};
use flipcast_estimate::{AccuracyFit, ClassShares, GainFit, GainSample, GainSignals, Outputs, SignalSample, Signals};
use flipcast_ground::SplitMix64;
use std::sync::{Arc, OnceLock};

const CLASSES: usize = 4;

/// Outputs for images of the given classes: the right logit is larger by 3, all have noise.
fn outputs(labels: &[usize], noise: f32, seed: u64) -> Outputs {
    let mut random = SplitMix64::new(seed);
    let mut logits = Vec::new();
    for label in labels {
        logits.extend((0..CLASSES).map(|k| {
            let signal = if k == *label { 3.0 } else { 0.0 };
            signal + noise * random.normal() as f32
        }));
    }
    Outputs::new(logits, CLASSES).unwrap()
}

fn labels(images: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::new(seed);
    (0..images).map(|_| random.below(CLASSES)).collect()
}

fn basis() -> Arc<MonitorBasis> {
    static BASIS: OnceLock<Arc<MonitorBasis>> = OnceLock::new();
    let make = || {
        let truth = labels(2000, 1);
        let clean = LabelledOutputs::clean(outputs(&truth, 1.0, 2), truth.clone()).unwrap();
        let noises = [1.3, 1.6, 2.0, 2.5, 3.0, 4.0];
        let shifted = noises.iter().enumerate().map(|(i, noise)| {
            let made = outputs(&truth, *noise, 3 + i as u64);
            LabelledOutputs::shifted(&format!("noise{i}:1"), made, truth.clone()).unwrap()
        });
        let shifted: Vec<LabelledOutputs> = shifted.collect();
        let fitted = OutputsCalibration::fit(&clean, &shifted, ScoreOptions::default(), 0, &mut Unwatched).unwrap();
        Arc::new(MonitorBasis::from_outputs(&fitted).unwrap())
    };
    BASIS.get_or_init(make).clone()
}

fn monitor(config: MonitorConfig) -> Monitor {
    Monitor::new(basis(), config).unwrap()
}

/// Sends images in batches of 100, ten seconds apart.
fn send(monitor: &mut Monitor, outputs: &Outputs, start: f64) {
    for (i, rows) in outputs.logits().chunks(100 * CLASSES).enumerate() {
        let batch = Outputs::new(rows.to_vec(), CLASSES).unwrap();
        monitor.update(&batch, start + 10.0 * i as f64).unwrap();
    }
}

#[test]
fn windows_end_by_count_and_by_time_and_hold_every_image() {
    let mut watched = monitor(MonitorConfig { window_images: 128, window_seconds: 60, ..Default::default() });
    let truth = labels(1000, 5);
    send(&mut watched, &outputs(&truth, 1.0, 6), 1200.0);
    let report = watched.report().unwrap();
    assert_eq!(report.windows.len(), 7);
    assert!(report.windows.iter().all(|window| window.images == 128 && window.estimate.is_some()));
    assert_eq!(report.open.as_ref().unwrap().images, 1000 - 7 * 128);
    assert_eq!(report.time_windows.iter().map(|window| window.images).collect::<Vec<_>>(), [600]);
    watched.close_windows(1400.0).unwrap();
    assert_eq!(watched.last_window(WindowKind::Time).unwrap().images, 400);
    let shares: f64 = report.windows[0].classes.iter().map(|class| class.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn a_window_s_interval_holds_the_accuracy_before_and_after_a_shift() {
    let mut watched = monitor(MonitorConfig::default());
    for (noise, seed) in [(1.0, 10), (2.2, 11)] {
        let truth = labels(512, seed);
        let made = outputs(&truth, noise, seed + 50);
        let accuracy = made.accuracy(&truth).unwrap();
        send(&mut watched, &made, 0.0);
        let window = watched.report().unwrap().open.unwrap();
        assert!(window.best().unwrap().holds(accuracy), "{accuracy}: {:?}", window.estimate);
    }
}

#[test]
fn what_changed_is_named_and_nothing_is_said_of_what_did_not() {
    let kinds = |second: &Outputs| {
        let mut watched = monitor(MonitorConfig { accuracy_line: Some(0.8), level: 0.3, ..Default::default() });
        send(&mut watched, &outputs(&labels(3000, 20), 1.0, 21), 0.0);
        assert_eq!(watched.alarms(), [], "no shift");
        send(&mut watched, second, 1e4);
        watched.close_windows(1e5).unwrap();
        let mut kinds: Vec<AlarmKind> = watched.alarms().iter().map(|alarm| alarm.kind).collect();
        kinds.sort();
        (kinds, watched)
    };
    let (same, _) = kinds(&outputs(&labels(3000, 22), 1.0, 23));
    assert_eq!(same, []);
    let (noisy, mut watched) = kinds(&outputs(&labels(3000, 24), 2.5, 25));
    assert_eq!(noisy, [AlarmKind::CovariateShift, AlarmKind::AccuracyBelow]);
    let alarm = watched.alarms()[0].clone();
    assert!((3000..3300).contains(&alarm.image) && !alarm.images.is_empty(), "{alarm:?}");
    watched.reset();
    assert!(AlarmKind::ALL.iter().all(|kind| !watched.is_active(*kind)));
    let skewed: Vec<usize> = labels(3000, 26).iter().map(|label| if *label == 3 { 0 } else { *label }).collect();
    let (moved, watched) = kinds(&outputs(&skewed, 1.0, 27));
    assert_eq!(moved, [AlarmKind::ClassShares]);
    assert!(watched.alarms()[0].text.contains("class 3 came in 2"), "{}", watched.alarms()[0].text);
}

#[test]
fn stored_and_resumed_it_goes_on_as_if_it_had_never_stopped() {
    let config = MonitorConfig { window_images: 192, ..Default::default() };
    let made = outputs(&labels(900, 30), 1.4, 31);
    let mut whole = monitor(config.clone());
    send(&mut whole, &made, 50.0);
    let mut stopped = monitor(config.clone());
    for (i, rows) in made.logits().chunks(100 * CLASSES).enumerate() {
        let batch = Outputs::new(rows.to_vec(), CLASSES).unwrap();
        stopped.update(&batch, 50.0 + 10.0 * i as f64).unwrap();
        stopped = Monitor::load(basis(), config.clone(), &stopped.save().unwrap()).unwrap();
    }
    assert_eq!(stopped.state(), whole.state());
}

#[test]
fn a_state_of_another_classifier_is_refused() {
    let watched = monitor(MonitorConfig::default());
    let text = watched.save().unwrap();
    for (from, to) in
        [("\"format\":1", "\"format\":9"), ("\"bins\":32", "\"bins\":31"), ("\"recent\":[0.0,", "\"recent\":[")]
    {
        let spoiled = text.replacen(from, to, 1);
        assert_ne!(spoiled, text, "{from}");
        let refused = Monitor::load(basis(), MonitorConfig::default(), &spoiled);
        assert!(matches!(refused, Err(MonitorError::State { .. })), "{refused:?}");
    }
    assert!(matches!(Monitor::load(basis(), MonitorConfig::default(), "{}"), Err(MonitorError::Json(_))));
}

#[test]
fn merged_monitors_have_seen_the_images_of_both() {
    let config = MonitorConfig { window_images: 256, ..Default::default() };
    let (mut first, mut second) = (monitor(config.clone()), monitor(config));
    send(&mut first, &outputs(&labels(600, 40), 1.0, 41), 0.0);
    send(&mut second, &outputs(&labels(500, 42), 1.0, 43), 5.0);
    first.merge(&second).unwrap();
    let report = first.report().unwrap();
    assert_eq!((report.images, report.windows.len()), (1100, 3));
    assert_eq!(report.open.unwrap().images, 1100 - 3 * 256);
    first.update(&outputs(&labels(10, 44), 1.0, 45), 1e3).unwrap();
}

#[test]
fn an_answer_may_come_when_its_window_is_long_past() {
    let mut watched = monitor(MonitorConfig { window_images: 64, kept_windows: 4, ..Default::default() });
    send(&mut watched, &outputs(&labels(256, 70), 3.0, 71), 0.0);
    let asked = watched.ask(20).unwrap();
    send(&mut watched, &outputs(&labels(2048, 72), 3.0, 73), 1.0);
    for question in &asked {
        watched.label(question.image, Verdict::Right(true)).unwrap();
    }
    let report = watched.label_report().unwrap().unwrap();
    assert_eq!((report.labels, report.open, report.powered), (20, 0, None), "recent windows have no label");
    assert!(report.any_time.unwrap()[0] > 0.5, "{:?}", report.any_time);
    for _ in 0..30 {
        send(&mut watched, &outputs(&labels(64, 74), 3.0, 75), 2.0);
        watched.ask(99).unwrap();
    }
    assert!(matches!(watched.label(asked[0].image, Verdict::Right(true)), Err(MonitorError::NotAsked { .. })));
}

#[test]
fn a_few_labels_of_images_asked_about_make_estimates_prediction_powered() {
    let mut watched = monitor(MonitorConfig { accuracy_line: Some(0.6), ..Default::default() });
    let truth = labels(512, 50);
    send(&mut watched, &outputs(&truth, 3.0, 51), 0.0);
    assert_eq!(watched.label_report().unwrap(), None);
    assert!(matches!(watched.label(3, Verdict::Right(true)), Err(MonitorError::NotAsked { image: 3 })));
    let asked = watched.ask(40).unwrap();
    assert_eq!(asked.len(), 40);
    assert_eq!(watched.ask(40).unwrap().len(), 40, "unanswered questions are asked again");
    for question in &asked {
        watched.label(question.image, Verdict::Class(truth[question.image as usize])).unwrap();
    }
    let refused = watched.label(asked[0].image, Verdict::Class(CLASSES));
    assert!(matches!(refused, Err(MonitorError::Label { .. })));
    let report = watched.report().unwrap();
    let labels = report.labels.unwrap();
    assert_eq!((labels.labels, labels.open), (40, 0));
    let accuracy = outputs(&truth, 3.0, 51).accuracy(&truth).unwrap();
    assert!(labels.powered.unwrap().estimate.holds(accuracy));
    let window = report.open.unwrap();
    assert_eq!(window.labelled.as_ref().unwrap().labels, 40);
    assert!(window.best().unwrap().holds(accuracy), "{accuracy} {window:?}");
    assert!(watched.is_active(AlarmKind::LabelledAccuracyBelow) == (labels.any_time.unwrap()[1] < 0.6));
}

#[test]
fn wrong_settings_and_other_outputs_are_refused() {
    for config in [
        MonitorConfig { window_images: 100, ..Default::default() },
        MonitorConfig { window_seconds: 0, ..Default::default() },
        MonitorConfig { level: 1.0, ..Default::default() },
        MonitorConfig { accuracy_line: Some(f64::NAN), ..Default::default() },
    ] {
        assert!(matches!(Monitor::new(basis(), config), Err(MonitorError::Setting { .. })));
    }
    let mut watched = monitor(MonitorConfig::default());
    let other = Outputs::new(vec![0.0; 6], 3).unwrap();
    assert!(matches!(watched.update(&other, 0.0), Err(MonitorError::Classes { found: 3, expected: 4 })));
    assert!(watched.update(&outputs(&[0], 1.0, 1), f64::NAN).is_err());
    assert!(matches!(watched.look_again(&[1, 2], &outputs(&[0], 1.0, 1)), Err(MonitorError::SecondLook { .. })));
}

#[test]
fn an_adapted_network_has_its_own_accuracy_and_an_alarm_if_it_harms() {
    let mut random = SplitMix64::new(7);
    let sample = |kind: usize| {
        let (flips, confidence) = (0.1 + 0.5 * random.uniform(), 0.5 + 0.4 * random.uniform());
        let seen = GainSignals { images: 512, flips, source_confidence: 0.7, confidence, ..Default::default() };
        GainSample { gain: confidence - 0.7, signals: seen, kind }
    };
    let samples: Vec<GainSample> = (0..200).map(|i| i % 10).map(sample).collect();
    let with_gain = Arc::new(MonitorBasis { gain: Some(GainFit::fit_alone(&samples).unwrap()), ..(*basis()).clone() });
    let config = MonitorConfig { window_images: 128, ..Default::default() };
    // Sure answers gain by that fit, hesitant ones lose.
    let watch = |basis: Arc<MonitorBasis>, logit: f32| {
        let mut watched = Monitor::new(basis, config.clone()).unwrap();
        let truth = labels(640, 80);
        for (number, rows) in outputs(&truth, 1.0, 81).logits().chunks(64 * CLASSES).enumerate() {
            let rows = Outputs::new(rows.to_vec(), CLASSES).unwrap();
            let images: Vec<u64> = watched.update(&rows, number as f64).unwrap().collect();
            let other = rows
                .classes_predicted()
                .into_iter()
                .flat_map(|class| (0..CLASSES).map(move |k| if k == (class + 1) % CLASSES { logit } else { 0.0 }));
            watched.look_adapted(&images, &Outputs::new(other.collect(), CLASSES).unwrap()).unwrap();
            watched = Monitor::load(watched.basis.clone(), config.clone(), &watched.save().unwrap()).unwrap();
        }
        watched.close_windows(1e9).unwrap();
        watched
    };
    let gains = watch(with_gain.clone(), 6.0);
    let window = gains.last_window(WindowKind::Count).unwrap();
    let adapted = window.adapted.as_ref().unwrap();
    assert_eq!((adapted.images, gains.alarms().len()), (128, 0));
    let (own, source) = (adapted.estimate.as_ref().unwrap(), window.estimate.as_ref().unwrap());
    assert!(
        adapted.low > 0.0 && adapted.risk.unwrap() < 0.1 && own.accuracy == (source.accuracy + adapted.gain).min(1.0),
        "{window:?}"
    );
    assert!(own.low <= own.accuracy && own.accuracy <= own.high);
    let record = window.record("s", 0.9).unwrap();
    assert!(record.result["adapted"]["combined"].is_object(), "{:?}", record.result);
    let time = gains.last_window(WindowKind::Time).unwrap().adapted.as_ref().unwrap();
    assert_eq!(time.images, 640, "windows by time have it too");
    let harms = watch(with_gain, 0.01);
    assert_eq!(
        harms.alarms().iter().map(|alarm| (alarm.kind, alarm.image)).collect::<Vec<_>>(),
        [(AlarmKind::AdaptationHarms, 255)]
    );
    let unknown = watch(basis(), 0.01);
    assert_eq!(
        unknown.last_window(WindowKind::Count).unwrap().adapted,
        None,
        "nothing is said where nothing was learned"
    );
}

#[test]
fn embeddings_of_another_network_are_refused() {
    let mut watched = monitor(MonitorConfig::default());
    let refused = watched.add_embeddings(1, &[0.0; 3]);
    assert!(matches!(refused, Err(MonitorError::Embedding { found: 3, expected: 0 })), "{refused:?}");
}

/// A basis whose fit looks at an early look too: there the second look tells little.
fn early_basis() -> Arc<MonitorBasis> {
    let clean = basis().clean.unwrap();
    let mut random = SplitMix64::new(11);
    let share = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    let sample = |number: usize| {
        let accuracy = 0.1 + 0.8 * random.uniform();
        let odds = (accuracy / (1.0 - accuracy)).ln();
        let cross = share(odds + random.normal());
        let early_cross = Some(share(odds + 0.1 * random.normal()));
        let signals = Signals { images: 500, looked_at: 500, cross, reverse: cross, early_cross, ..clean };
        SignalSample { signals, accuracy, group: Some(number % 12), shares: ClassShares::Sample }
    };
    let samples: Vec<SignalSample> = (0..240).map(sample).collect();
    let accuracy = AccuracyFit::fit(&samples, 2000).unwrap();
    Arc::new(MonitorBasis { accuracy, looks: LooksAtImages::Twice, ..(*basis()).clone() })
}

#[test]
fn an_early_look_counts_once_a_whole_window_has_it() {
    let basis = early_basis();
    assert!(basis.wants_early_look());
    let config = MonitorConfig { window_images: 128, ..Default::default() };
    let truth = labels(128, 90);
    let (source, second) = (outputs(&truth, 1.0, 91), outputs(&truth, 1.2, 92));
    // What an early look answers for the first of two batches, or for both.
    let watch = |early: &[&Outputs]| {
        let mut watched = Monitor::new(basis.clone(), config.clone()).unwrap();
        let batch = |all: &Outputs, at: usize| {
            Outputs::new(all.logits()[at * 64 * CLASSES..(at + 1) * 64 * CLASSES].to_vec(), CLASSES).unwrap()
        };
        for at in 0..2 {
            let images: Vec<u64> = watched.update(&batch(&source, at), at as f64).unwrap().collect();
            if let Some(all) = early.get(at) {
                watched.look_early(&images, &batch(all, at)).unwrap();
            }
            watched.look_again(&images, &batch(&second, at)).unwrap();
            watched = Monitor::load(watched.basis.clone(), config.clone(), &watched.save().unwrap()).unwrap();
        }
        watched.close_windows(1e9).unwrap();
        watched.last_window(WindowKind::Count).unwrap().estimate.clone().unwrap().accuracy
    };
    let (agrees, differs) = (source.clone(), outputs(&labels(128, 93), 1.0, 94));
    let without = watch(&[]);
    assert_eq!(watch(&[&agrees]), without, "half a window has none");
    let (sure, doubtful) = (watch(&[&agrees, &agrees]), watch(&[&differs, &differs]));
    assert!(sure > doubtful + 0.1, "{sure} {doubtful} {without}");

    let mut watched = Monitor::new(basis.clone(), config).unwrap();
    assert!(matches!(watched.look_early(&[1, 2], &outputs(&[0], 1.0, 1)), Err(MonitorError::SecondLook { .. })));
}
