use super::testing::samples;
use super::*;

#[test]
fn intervals_hold_for_kinds_of_shift_that_were_not_seen() {
    let fit = AccuracyFit::fit(&samples(18, 12, 1), 5000).unwrap();
    let new = samples(60, 20, 2);
    let estimates: Vec<_> = new.iter().map(|sample| fit.estimate(&sample.signals, 0.9)).collect();
    let held = estimates.iter().zip(&new).filter(|(e, sample)| e.holds(sample.accuracy)).count();
    let share = held as f64 / new.len() as f64;
    assert!((0.85..1.0).contains(&share), "{share}");
    // Errors of the kinds have a size of 0.1 in log-odds, a fortieth in accuracy; chance adds its own for few images.
    let mean_error = |least: usize| {
        let large = estimates.iter().zip(&new).filter(|(_, sample)| sample.signals.images >= least);
        let sizes: Vec<f64> = large.map(|(e, sample)| (e.accuracy - sample.accuracy).abs()).collect();
        sizes.iter().sum::<f64>() / sizes.len() as f64
    };
    assert!(mean_error(1000) < 0.03 && mean_error(1000) < mean_error(0), "{} {}", mean_error(1000), mean_error(0));
}

#[test]
fn fewer_images_widen_an_interval() {
    let fit = AccuracyFit::fit(&samples(18, 12, 1), 5000).unwrap();
    let width = |images: usize, labelled: usize| {
        let fit = AccuracyFit { labelled_images: labelled, ..fit.clone() };
        let signals = Signals { images, ..samples(1, 1, 3)[0].signals };
        let estimate = fit.estimate(&signals, 0.9);
        estimate.high - estimate.low
    };
    assert!(width(50, 5000) > width(1000, 5000) && width(1000, 500) > width(1000, 5000));
}

#[test]
fn other_shares_are_told_from_usual_ones() {
    let fit = AccuracyFit::fit(&samples(18, 12, 1), 5000).unwrap();
    let flagged = |concentrated: bool| {
        let chosen = samples(40, 12, 5).into_iter().filter(|sample| {
            sample.signals.images >= 300
                && (sample.signals.concentration > 1.0) == concentrated
                && (concentrated || sample.has_usual_shares())
        });
        let flags: Vec<bool> = chosen
            .map(|sample| fit.estimate(&sample.signals, 0.9).flags.contains(&Flag::ClassMarginalMismatch))
            .collect();
        flags.iter().filter(|flag| **flag).count() as f64 / flags.len() as f64
    };
    assert!(flagged(true) > 0.9, "{}", flagged(true));
    assert!(flagged(false) < 0.15, "{}", flagged(false));
}

#[test]
fn what_no_sample_was_like_is_flagged_and_widened() {
    let fit = AccuracyFit::fit(&samples(18, 12, 1), 5000).unwrap();
    let usual = samples(1, 1, 3)[0].signals;
    let strange = Signals { cross: 0.01, confidence: 0.999, ..usual };
    let (usual, strange) = (fit.estimate(&usual, 0.9), fit.estimate(&strange, 0.9));
    assert!(!usual.flags.contains(&Flag::OutsideFittedRange), "{usual:?}");
    assert!(strange.flags.contains(&Flag::OutsideFittedRange), "{strange:?}");
    assert!(strange.high - strange.low > usual.high - usual.low);
}

#[test]
fn too_few_kinds_of_shift_make_wide_intervals_and_one_none() {
    let (few, many) = (samples(5, 12, 1), samples(18, 12, 1));
    let width = |samples: &[SignalSample]| {
        let estimate = AccuracyFit::fit(samples, 5000).unwrap().estimate(&many[0].signals, 0.9);
        estimate.high - estimate.low
    };
    assert!(width(&few) > 1.2 * width(&many));
    assert!(AccuracyFit::fit(&samples(1, 12, 1), 5000).is_err());
    assert!(AccuracyFit::fit(&many[..5], 5000).is_err());
}

#[test]
fn a_fit_is_the_same_after_it_was_stored() {
    let fit = AccuracyFit::fit(&samples(10, 8, 1), 5000).unwrap();
    let text = serde_json::to_string(&fit).unwrap();
    let again: AccuracyFit = serde_json::from_str(&text).unwrap();
    assert_eq!(again.estimate(&samples(1, 1, 3)[0].signals, 0.9), fit.estimate(&samples(1, 1, 3)[0].signals, 0.9));
}

/// Samples with an early look whose `cross` is what `look` makes of the accuracy.
fn with_early_look(look: impl Fn(f64) -> f64) -> Vec<SignalSample> {
    let add = |sample: SignalSample| SignalSample {
        signals: Signals { early_cross: Some(look(sample.accuracy)), ..sample.signals },
        ..sample
    };
    samples(18, 15, 1).into_iter().map(add).collect()
}

#[test]
fn an_early_look_is_used_where_it_makes_errors_smaller() {
    let known = with_early_look(|accuracy| share(0.8 * log_odds(accuracy) + 0.2));
    let fit = AccuracyFit::fit(&known, 5000).unwrap();
    assert!(fit.wants_early_look());
    let plain = AccuracyFit::fit(&samples(18, 15, 1), 5000).unwrap();
    assert!(fit.errors().mae(0) < plain.errors().mae(0));
    // Images without such a look are told as before.
    let without = Signals { early_cross: None, ..known[7].signals };
    assert_eq!(fit.estimate(&without, 0.9), plain.estimate(&without, 0.9));
    assert_ne!(fit.estimate(&known[7].signals, 0.9), plain.estimate(&without, 0.9));
}

#[test]
fn an_early_look_that_tells_nothing_is_left_out() {
    let known = with_early_look(|_| 0.5);
    let fit = AccuracyFit::fit(&known, 5000).unwrap();
    assert!(!fit.wants_early_look());
    assert_eq!(fit, AccuracyFit::fit(&samples(18, 15, 1), 5000).unwrap());
}
