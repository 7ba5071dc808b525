//! Advice on adapting, from labelled images to a recommendation and a run that follows it.

use flipcast_adapt::{GuardConfig, MethodConfig};
use flipcast_exec::Logits;
use flipcast_images::dataset::InMemory;
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::adapt::{AdaptJob, Arbiter, SourceRule, StepWatcher, run};
use flipcast_run::advise::{
    Advice, AdviceJob, AdviceOrder, FINALISTS, Followed, LEAST_GAIN, TRIAL_BATCH, advise, follow, learn_advice,
};
use flipcast_run::open::OpenedData;
use flipcast_run::{
    Calibration, CalibrationJob, CalibrationShift, Device, FlipProtocol, Images, Ledger, RunError, Setting, Unwatched,
    calibrate,
};

const CLASSES: usize = 3;

fn model(architecture: &str) -> Model {
    let model = Model::random(architecture, CLASSES, 4).expect("a known architecture");
    model.with_preprocess(Preprocess::normalise_only(Normalise::half()))
}

/// Striped pictures; the stripes tell the class.
fn pictures(count: usize, model: &Model, labelled: bool) -> OpenedData {
    let picture = |i: usize| {
        let rgb = (0..32 * 32 * 3).map(|j| ((i * 31 + j * (1 + i % CLASSES)) % 256) as u8).collect();
        let label = if labelled { Label::Class((i % CLASSES) as u32) } else { Label::Unknown };
        (Image::new(32, 32, rgb).expect("as many bytes as pixels"), label)
    };
    OpenedData::new("pictures", InMemory::new((0..count).map(picture)), model).expect("pictures")
}

/// A calibration with advice, and the ledger that keeps its trials.
fn calibration(model: &Model) -> (Calibration, Ledger) {
    calibration_on(model, "fog:1,brightness:2,spatter:1,saturate:2,frost:1,contrast:1,jpeg_compression:1,pixelate:1")
}

fn calibration_on(model: &Model, shifts: &str) -> (Calibration, Ledger) {
    let data = pictures(40, model, true);
    let protocol = FlipProtocol::for_network("statistics", model.graph()).expect("a known protocol");
    let setting = Setting { model, protocol: &protocol, device: Device::cpu(1) };
    let shifts = CalibrationShift::parse_list(shifts).expect("known corruptions");
    let job = CalibrationJob { shifts, ..CalibrationJob::new(setting, data.request()) };
    let mut ledger = Ledger::in_memory();
    let mut calibration = calibrate(&job, &mut ledger, &mut Unwatched).expect("labelled pictures");
    let learned = learn_advice(&job, &calibration.basis, &mut ledger, &mut Unwatched).expect("labelled pictures");
    let again = learn_advice(&job, &calibration.basis, &mut ledger, &mut Unwatched).expect("kept trials");
    assert_eq!(learned, again, "what is kept is not made anew");
    calibration.advice = Some(learned);
    (calibration, ledger)
}

fn advice(model: &Model, calibration: &Calibration, labelled: bool) -> Advice {
    let data = pictures(200, model, labelled);
    let request = data.request();
    let images = Images::open(request.dataset.clone(), request.config.clone(), 1 << 24).expect("pictures");
    let job = AdviceJob {
        model,
        device: Device::cpu(1),
        images: &images,
        scope: request.scope,
        fit: calibration.advice.as_ref().expect("it was learned"),
        temperature: calibration.basis.temperature.value,
        order: AdviceOrder::Shuffled,
        limit: 192,
        seed: 3,
        level: 0.9,
    };
    advise(&job, &mut Unwatched).expect("pictures")
}

#[test]
fn the_best_are_tried_on_all_images_and_labels_are_never_looked_at() {
    let model = model("cifar_resnet8_w4");
    let (calibration, _) = calibration(&model);
    let seen = advice(&model, &calibration, true);
    let mut blind = advice(&model, &calibration, false);
    assert!(blind.tried.iter().all(|tried| tried.truth.is_none()));
    for (blind, seen) in blind.tried.iter_mut().zip(&seen.tried) {
        assert!(seen.truth.is_some());
        blind.truth = seen.truth;
    }
    assert_eq!(blind, seen);
    assert_eq!((seen.images, seen.tried.len()), (192, 19));
    // Four candidates only predict.
    let in_full = seen.tried.iter().take_while(|tried| tried.images == seen.images).count();
    assert_eq!(in_full, 4 + FINALISTS);
    let gains: Vec<f64> = seen.tried[..in_full].iter().map(|tried| tried.gain).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
    assert_eq!(seen.recommended.is_some(), gains[0] >= LEAST_GAIN);
    for tried in &seen.tried {
        assert!(
            tried.low <= tried.gain
                && tried.gain <= tried.high
                && tried.risk.is_some_and(|risk| (0.0..=1.0).contains(&risk))
        );
    }
}

#[test]
fn nothing_is_recommended_where_the_risk_is_unknown() {
    let model = model("cifar_resnet8_w4");
    let (calibration, _) = calibration_on(&model, "fog:1,brightness:2");
    let found = advice(&model, &calibration, false);
    assert_eq!((found.recommended, found.stop_after), (None, None));
    for tried in found.tried.iter().filter(|tried| tried.flips > 0.0) {
        assert_eq!((tried.risk, tried.low, tried.high), (None, -1.0, 1.0));
    }
}

#[test]
fn without_a_recommendation_a_candidate_stands_by() {
    let model = model("cifar_resnet8_w4");
    let (calibration, _) = calibration(&model);
    let mut fit = calibration.advice.clone().expect("it was learned");
    let found = advice(&model, &calibration, false);
    let best = found.tried[0].candidate.clone();
    let recommended = Advice { recommended: Some(best.clone()), ..found.clone() };
    let followed = follow(&model, &fit, 1.0, &recommended).expect("a fit of today");
    assert_eq!(followed.candidate.name, best.name);
    let none = Advice { recommended: None, ..found };
    let followed = follow(&model, &fit, 1.0, &none).expect("a fit of today");
    assert_eq!(followed.anchored.is_some(), followed.candidate.anchored);
    assert_eq!(Some(followed.candidate.name), fit.standby);
    fit.arbiters.clear();
    assert!(matches!(follow(&model, &fit, 1.0, &recommended), Err(RunError::EarlierAdvice)));
    fit.standby = None;
    assert!(matches!(follow(&model, &fit, 1.0, &none), Err(RunError::EarlierAdvice)));
}

#[test]
fn every_answer_of_a_run_that_follows_advice_is_that_of_one_of_two_models() {
    let model = model("cifar_resnet8_w4");
    let (calibration, _) = calibration(&model);
    let fit = calibration.advice.as_ref().expect("it was learned");
    let followed = follow(&model, fit, 1.0, &Advice { recommended: None, ..advice(&model, &calibration, false) });
    let Followed { candidate, anchored, arbiter } = followed.expect("a fit of today");
    let data = pictures(192, &model, true);
    let adapt = |method: &MethodConfig, anchored: Option<Model>, arbiter: Option<Arbiter>| {
        let mut answers = Answers::default();
        let job = AdaptJob {
            model: &model,
            dataset: data.dataset.clone(),
            data: data.identity(),
            loader: LoaderConfig { batch_size: TRIAL_BATCH, ..data.config.clone() },
            class_space: None,
            method,
            seed: 0,
            epochs: None,
            steps: None,
            guard: GuardConfig::off(),
            source: SourceRule::Predict,
            start: None,
            anchored,
            arbiter,
            watch_every: None,
            clean: Vec::new(),
            device: Device::cpu(1),
            predictions: None,
        };
        let summary = run(job, &mut answers).expect("a run").summary;
        (answers.0, summary)
    };
    let (source, _) = adapt(&fit.candidates[0].config, None, None);
    let (adapted, alone) = adapt(&candidate.config, anchored.clone(), None);
    let (chosen, summary) = adapt(&candidate.config, anchored, Some(arbiter));
    let differ = source.iter().zip(&adapted).filter(|(own, other)| own != other).count();
    let arbitration = summary.arbitration.expect("somebody chose");
    assert_eq!((arbitration.disputes, alone.arbitration), (differ, None));
    let of_source = chosen.iter().zip(source.iter().zip(&adapted)).filter(|(now, (own, other))| {
        assert!(now == own || now == other);
        own != other && now == own
    });
    assert_eq!(of_source.count(), arbitration.to_source);
}

/// Notes every answer.
#[derive(Default)]
struct Answers(Vec<usize>);

impl StepWatcher for Answers {
    fn logits(&mut self, logits: Logits<'_>) {
        self.0.extend(logits.argmax());
    }
}

#[test]
fn a_calibration_keeps_its_advice() {
    let model = model("cifar_resnet8_w4");
    let (calibration, _) = calibration(&model);
    let text = calibration.to_json().expect("a calibration can be written");
    let path = std::env::temp_dir().join(format!("flipcast-advice-{}.json", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    let read = Calibration::load(&path).expect("what was written");
    std::fs::remove_file(&path).expect("the file");
    assert_eq!(read.advice, calibration.advice);
}

#[test]
fn images_without_labels_teach_nothing() {
    let model = model("cifar_resnet8_w4");
    let data = pictures(24, &model, false);
    let protocol = FlipProtocol::for_network("statistics", model.graph()).expect("a known protocol");
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
    let job = CalibrationJob::new(setting, data.request());
    let (labelled, _) = calibration(&model);
    let refused = learn_advice(&job, &labelled.basis, &mut Ledger::default(), &mut Unwatched);
    assert!(matches!(refused, Err(RunError::Unlabelled { .. })));
}
