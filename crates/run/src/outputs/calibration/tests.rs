use super::*;
use crate::{Calibration, Unwatched};
use flipcast_estimate::{EstimateError, ac, cot};
use flipcast_ground::{Hint, SplitMix64};

const CLASSES: usize = 5;

/// Logits of images that a classifier tells apart with this sharpness, the answers it should give, and a second look at them.
fn drawn(seed: u64, images: usize, sharpness: f64) -> (Outputs, Vec<usize>, Outputs) {
    let mut random = SplitMix64::new(seed);
    let (mut first, mut second, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..images {
        let label = (random.uniform() * CLASSES as f64) as usize;
        for class in 0..CLASSES {
            let sharp = if class == label { sharpness } else { 0.0 };
            let seen = 2.0 * (sharp + random.normal());
            first.push(seen as f32);
            second.push((seen + random.normal()) as f32);
        }
        labels.push(label);
    }
    (Outputs::new(first, CLASSES).unwrap(), labels, Outputs::new(second, CLASSES).unwrap())
}

fn clean(looks: LooksAtImages) -> LabelledOutputs {
    let (outputs, labels, second) = drawn(1, 1500, 3.0);
    with_looks(LabelledOutputs::clean(outputs, labels).unwrap(), second, looks)
}

/// Six kinds of shift in two severities.
fn shifted(looks: LooksAtImages) -> Vec<LabelledOutputs> {
    let cell = |number: usize| {
        let (kind, severity) = (number / 2, number % 2);
        let sharpness = 2.6 - 0.2 * kind as f64 - 0.8 * severity as f64;
        let (outputs, labels, second) = drawn(10 + number as u64, 1500, sharpness);
        let name = format!("kind{kind}:{severity}");
        with_looks(LabelledOutputs::shifted(&name, outputs, labels).unwrap(), second, looks)
    };
    (0..12).map(cell).collect()
}

fn with_looks(labelled: LabelledOutputs, second: Outputs, looks: LooksAtImages) -> LabelledOutputs {
    match looks {
        LooksAtImages::Once => labelled,
        LooksAtImages::Twice => labelled.with_second(second).unwrap(),
    }
}

fn fitted(shifted: &[LabelledOutputs], looks: LooksAtImages) -> OutputsCalibration {
    OutputsCalibration::fit(&clean(looks), shifted, ScoreOptions::default(), 3, &mut Unwatched).unwrap()
}

#[test]
fn without_shifts_no_interval_is_invented() {
    for shifts in [0, 2] {
        // Two severities of one kind say nothing about the next kind either.
        let calibration = fitted(&shifted(LooksAtImages::Once)[..shifts], LooksAtImages::Once);
        assert!(calibration.fits.is_none() && calibration.accuracy.is_none());
        let (outputs, ..) = drawn(99, 400, 2.0);
        let estimates = calibration.estimate(&outputs, None, 0.9).unwrap();
        let names: Vec<&str> = estimates.source.keys().map(String::as_str).collect();
        assert_eq!(names, ["ac", "atc_mc", "atc_ne", "cot", "cott", "doc", "im"]);
        for estimate in estimates.source.values() {
            assert_eq!((estimate.low, estimate.high), (0.0, 1.0));
            assert!(estimate.flags.contains(&Flag::NoKnownShifts));
        }
        assert_eq!(estimates.source["ac"].accuracy, ac(&outputs).unwrap().value);
        let uniform = [1.0 / CLASSES as f64; CLASSES];
        assert_eq!(estimates.best().unwrap().1.accuracy, cot(&outputs, &uniform).unwrap().value);
    }
}

#[test]
fn the_combined_interval_holds_the_truth_on_new_images() {
    for looks in [LooksAtImages::Once, LooksAtImages::Twice] {
        let calibration = fitted(&shifted(looks), looks);
        assert_eq!(calibration.kinds(), 6);
        for (seed, sharpness) in [(50, 2.9), (51, 2.2), (52, 1.5)] {
            let (outputs, labels, second) = drawn(seed, 1000, sharpness);
            let second = (looks == LooksAtImages::Twice).then_some(&second);
            let estimates = calibration.estimate(&outputs, second, 0.9).unwrap();
            let (name, combined) = estimates.best().unwrap();
            let truth = outputs.accuracy(&labels).unwrap();
            assert!(name == "combined" && combined.holds(truth), "{looks} {sharpness}: {combined:?} {truth}");
            assert!(combined.high - combined.low < 0.3, "{combined:?}");
            for name in ["mano", "mde", "nuclear_norm", "atc_mc_calibrated"] {
                assert!(estimates.source.contains_key(name), "{name}");
            }
            assert!(estimates.adapted.is_empty());
        }
    }
}

#[test]
fn a_second_look_is_part_of_the_signals() {
    let (outputs, _, second) = drawn(7, 300, 2.0);
    let signals = |looks: LooksAtImages, second: Option<&Outputs>| {
        fitted(&[], looks).cell(&outputs, second, None).unwrap().signals.unwrap()
    };
    let (once, twice) = (signals(LooksAtImages::Once, None), signals(LooksAtImages::Twice, Some(&second)));
    assert_eq!(once.cross, once.confidence);
    assert!(twice.cross < twice.confidence);
    assert!(
        (once.confidence - twice.confidence).abs() < 1e-12,
        "the clean outputs, and so the temperature, are the same"
    );
}

#[test]
fn outputs_that_do_not_belong_together_are_refused() {
    let refused = |result: Result<OutputsCalibration, RunError>| match result.unwrap_err() {
        RunError::Outputs(error) => error,
        other => panic!("{other}"),
    };
    let fit = |cells: &[LabelledOutputs]| {
        OutputsCalibration::fit(&clean(LooksAtImages::Once), cells, ScoreOptions::default(), 0, &mut Unwatched)
    };
    let other = LabelledOutputs::shifted("other", Outputs::new(vec![0.0, 1.0], 2).unwrap(), vec![1]).unwrap();
    let error = refused(fit(&[other]));
    assert_eq!(error.to_string(), "`other` has 2 classes, but the clean images have 5");
    assert!(error.hint().is_some());
    assert!(matches!(refused(fit(&shifted(LooksAtImages::Twice))), OutputsError::Looks { .. }));
    let twice = [shifted(LooksAtImages::Once), shifted(LooksAtImages::Once)].concat();
    assert_eq!(refused(fit(&twice)), OutputsError::Name { name: "kind0:0".into() });
    let (outputs, labels, second) = drawn(1, 10, 1.0);
    assert!(LabelledOutputs::shifted("clean:2", outputs.clone(), labels.clone()).is_err());
    assert!(LabelledOutputs::clean(outputs.clone(), vec![0; 9]).is_err());
    assert!(LabelledOutputs::clean(outputs.clone(), vec![5; 10]).is_err());
    let (fewer, ..) = drawn(1, 9, 1.0);
    assert!(LabelledOutputs::clean(outputs.clone(), labels).unwrap().with_second(fewer).is_err());
    let calibration = fitted(&[], LooksAtImages::Once);
    assert!(calibration.estimate(&outputs, Some(&second), 0.9).is_err());
    let narrow = calibration.cell(&Outputs::new(vec![0.0; 4], 2).unwrap(), None, None).unwrap_err();
    let RunError::Outputs(narrow) = narrow else { panic!("{narrow}") };
    assert_eq!(narrow.to_string(), "the new images have outputs of 2 classes, but the clean images have 5");
    let probs = Outputs::new([0.6, 0.1, 0.1, 0.1, 0.1].repeat(10), CLASSES).unwrap();
    let refused = calibration.estimate(&probs, None, 0.9).unwrap_err();
    assert!(matches!(refused, RunError::Estimate(EstimateError::Probabilities { images: 10 })), "{refused}");
    let soft = LabelledOutputs::shifted("soft", probs, vec![0; 10]).unwrap();
    assert!(matches!(fit(&[soft]), Err(RunError::Estimate(EstimateError::Probabilities { .. }))));
}

#[test]
fn an_artefact_survives_storage_and_is_told_from_that_of_a_network() {
    let calibration = fitted(&shifted(LooksAtImages::Once)[..4], LooksAtImages::Once);
    let text = calibration.to_json().unwrap();
    let read: OutputsCalibration = crate::artefact::parse_artefact(&text).unwrap();
    let (outputs, ..) = drawn(7, 300, 2.0);
    assert_eq!(read, calibration);
    assert_eq!(read.estimate(&outputs, None, 0.9).unwrap(), calibration.estimate(&outputs, None, 0.9).unwrap());
    let changed = text.replacen("\"seed\": 3", "\"seed\": 4", 1);
    let refused = crate::artefact::parse_artefact::<OutputsCalibration>(&changed).unwrap_err().to_string();
    assert!(refused.contains("changed after it was written"), "{refused}");
    let refused = Calibration::parse(&text).unwrap_err().to_string();
    assert!(refused.contains("a calibration of outputs alone"), "{refused}");
}
