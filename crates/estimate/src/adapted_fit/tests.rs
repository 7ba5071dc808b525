use super::*;
use crate::accuracy_fit::testing::samples;
use crate::{ClassShares, SignalSample};
use flipcast_ground::SplitMix64;

/// Steps on cells of `kinds` kinds of shift, in which half of the flips are for the better.
fn steps(kinds: usize) -> Vec<StepsSample> {
    let mut random = SplitMix64::new(3);
    let cell = |kind: usize| {
        let flips = 0.01 + 0.04 * random.uniform();
        StepsSample {
            flips,
            gain: 0.5 * flips + 0.002 * random.normal(),
            images: 1000,
            group: (kind > 0).then(|| kind - 1),
        }
    };
    (0..=kinds).map(cell).collect()
}

/// The samples with their looks exchanged, so that what tells the source model's accuracy there tells the second look's here.
fn exchanged(samples: &[SignalSample]) -> Vec<SignalSample> {
    samples.iter().map(|sample| SignalSample { signals: sample.signals.of_second(), ..*sample }).collect()
}

fn fit() -> (AccuracyFit, AdaptedFit) {
    let samples = samples(18, 12, 1);
    // The second look is told by the same signals; the source model's accuracy is of no interest here.
    let samples = exchanged(&samples);
    let second = AccuracyFit::fit_second(&samples, 5000).unwrap();
    let source = AccuracyFit::fit(&samples, 5000).unwrap();
    (source, AdaptedFit::fit(Some(second), &steps(18)).unwrap())
}

#[test]
fn the_second_look_and_what_steps_gain_add_up() {
    let (source, fit) = fit();
    let seen = StepsSeen { flips: 0.04, images: 1000 };
    assert!((fit.gain(&seen) - 0.02).abs() < 0.003, "{}", fit.gain(&seen));
    let (mut held, mut error) = (0, 0.0);
    let new: Vec<SignalSample> = samples(60, 10, 2).into_iter().filter(|sample| sample.signals.images >= 300).collect();
    for sample in &new {
        let found = fit.estimate(&source, &sample.signals.of_second(), &seen, 0.9);
        let truth = sample.accuracy + 0.02;
        held += usize::from(found.holds(truth));
        error += (found.accuracy - truth).abs() / new.len() as f64;
    }
    let share = held as f64 / new.len() as f64;
    assert!((0.85..=1.0).contains(&share) && error < 0.04, "{share} {error}");
}

#[test]
fn an_interval_is_no_wider_than_steps_could_make_it_and_as_wide_with_unusual_shares() {
    let (source, fit) = fit();
    let of_shares = |usual: bool| {
        let all = samples(18, 12, 1).into_iter();
        let mut fitting = all.filter(|sample| {
            sample.signals.images >= 1000
                && (sample.shares == ClassShares::Sample) == usual
                && sample.signals.concentration >= 0.0
        });
        let chosen = fitting.find(|sample| {
            let start = fit.start_estimate(&source, &sample.signals.of_second(), 0.9);
            start.flags.contains(&Flag::ClassMarginalMismatch) != usual && start.low > 0.1 && start.high < 0.9
        });
        chosen.unwrap().signals.of_second()
    };
    let half = |signals: &Signals, flips: f64| {
        let found = fit.estimate(&source, signals, &StepsSeen { flips, images: 1000 }, 0.9);
        (found.high - found.low) / 2.0
    };
    let (usual, unusual) = (of_shares(true), of_shares(false));
    for signals in [&usual, &unusual] {
        let alone = half(signals, 0.0);
        assert!(half(signals, 0.05) > alone && half(signals, 0.05) <= alone.hypot(0.05 * 1.6));
    }
    let most = half(&unusual, 0.0).hypot(0.05 * (1.0 + fit.gain_per_flip));
    assert!((half(&unusual, 0.05) - most).abs() < 1e-9);
}

#[test]
fn images_that_are_strange_to_the_source_models_fit_widen_the_adapted_models_interval() {
    let samples = samples(18, 12, 1);
    let source = AccuracyFit::fit(&samples, 5000).unwrap();
    let fit = AdaptedFit::fit(Some(AccuracyFit::fit_second(&samples, 5000).unwrap()), &steps(18)).unwrap();
    let still = StepsSeen { flips: 0.0, images: 1000 };
    let usual = samples.iter().find(|sample| sample.signals.images >= 1000).unwrap().signals;
    let strange = Signals { second_confidence: 0.2, ..usual };
    let found = [&usual, &strange].map(|signals| fit.estimate(&source, signals, &still, 0.9));
    let flagged = found.each_ref().map(|estimate| estimate.flags.contains(&Flag::UnlikeKnownShifts));
    assert_eq!(flagged, [false, true], "{found:?}");
    assert!(found[1].high - found[1].low > found[0].high - found[0].low);
}

#[test]
fn without_a_second_look_steps_begin_from_the_source_model() {
    let samples = samples(18, 12, 1);
    let source = AccuracyFit::fit(&samples, 5000).unwrap();
    let fit = AdaptedFit::fit(None, &steps(18)).unwrap();
    let signals = samples[0].signals;
    let still = StepsSeen { flips: 0.0, images: 1000 };
    assert_eq!(fit.estimate(&source, &signals, &still, 0.9), source.estimate(&signals, 0.9));
    assert!(!fit.begins_from_second_look());
}

#[test]
fn steps_that_change_nothing_gain_nothing_and_too_few_kinds_are_refused() {
    let still: Vec<StepsSample> = steps(18).iter().map(|s| StepsSample { flips: 0.0, gain: 0.0, ..*s }).collect();
    let fit = AdaptedFit::fit(None, &still).unwrap();
    assert_eq!(fit.gain(&StepsSeen { flips: 0.3, images: 100 }), 0.0);
    assert!(AdaptedFit::fit(None, &steps(1)).is_err());
}
