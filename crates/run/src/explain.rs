//! An estimate in words: what was seen, what follows from it, and what would make it wrong.

use flipcast_estimate::{AccuracyFit, AdaptedFit, Estimate, Flag, Opinions, Signals, StepsSeen};

/// Fewer classes than this, and one of them decides.
const FEW_CLASSES: f64 = 3.0;
/// Means of the same numbers differ by less, whatever their order.
const ROUNDING: f64 = 1e-9;
/// Errors hardly shrink beyond this many images.
const MANY_IMAGES: usize = 1000;

/// Sentences about `estimate`, which `fit` made of `signals`; `clean` are those of the labelled images as they are.
pub(crate) fn explain(
    fit: &AccuracyFit,
    clean: Option<&Signals>,
    signals: &Signals,
    estimate: &Estimate,
) -> Vec<String> {
    let mut sentences = vec![seen(clean, signals), agreement(&fit.opinions(signals))];
    sentences.extend(errors(fit, signals.images));
    if estimate.flags.contains(&Flag::OutsideFittedRange) {
        sentences.push(
            "These images are unlike every sample of the calibration: the interval is widened, but nothing is known about \
             errors that far out."
                .to_owned(),
        );
    }
    if estimate.flags.contains(&Flag::UnlikeKnownShifts) {
        sentences.push(strange(clean, signals, fit.strangeness(signals)));
    }
    if signals.present_classes() < FEW_CLASSES {
        sentences.push(
            "Almost all answers are of one or two classes. Either the images are, or the model has collapsed to these \
             answers; a few labels would tell."
                .to_owned(),
        );
    }
    sentences
}

/// A sentence about the adapted model's `estimate`: what it begins from, and what its steps did.
pub(crate) fn explain_adapted(fit: &AdaptedFit, start: &Estimate, steps: &StepsSeen, estimate: &Estimate) -> String {
    let begins =
        if fit.begins_from_second_look() { "the model with the statistics of the batch" } else { "the source model" };
    let settled = format!("{} ({} to {})", percent(estimate.accuracy), percent(estimate.low), percent(estimate.high));
    if steps.flips == 0.0 {
        return format!("No step of the adaptation changed an answer: {begins} is right in {settled}.");
    }
    format!(
        "By the signals {begins} is right in {}; the steps of the adaptation changed {} of its answers, worth {:+.1} points by the calibration: adapted, it is right in \
         {settled}.",
        percent(start.accuracy),
        percent(steps.flips),
        100.0 * fit.gain(steps)
    )
}

/// A share with its sign.
fn percent(share: f64) -> String {
    flipcast_ground::percent(share, 1) + "%"
}

fn seen(clean: Option<&Signals>, signals: &Signals) -> String {
    let beside = |value: fn(&Signals) -> f64| match clean {
        Some(clean) => format!("{} (clean labelled images: {})", percent(value(signals)), percent(value(clean))),
        None => percent(value(signals)),
    };
    let second = match looked_twice(signals) {
        true => format!("the model gives {} to the answers of a second look; ", beside(|signals| signals.cross)),
        false => String::new(),
    };
    format!(
        "Mean confidence is {}; {second}its answers are spread over about {:.0} of {} classes.",
        beside(|signals| signals.confidence),
        signals.present_classes(),
        signals.classes
    )
}

/// Whether there was a second look. Where there is none, the first stands in for it.
fn looked_twice(signals: &Signals) -> bool {
    let differ = |first: f64, second: f64| (first - second).abs() > ROUNDING;
    differ(signals.confidence, signals.second_confidence)
        || differ(signals.entropy, signals.second_entropy)
        || differ(signals.confidence, signals.cross)
}

fn strange(clean: Option<&Signals>, signals: &Signals, times: f64) -> String {
    let beside =
        clean.map_or(String::new(), |clean| format!(" (clean labelled images: {})", percent(clean.second_confidence)));
    let whose = if looked_twice(signals) { "The second look's own" } else { "Mean" };
    format!(
        "{whose} confidence is {}{beside}, {times:.1} times as far below what known shifts lead to expect as that of any sample of a kind of shift the fit had not seen: \
         these may be pictures of another kind, the interval is as many times as wide, and a few labels would tell more.",
        percent(signals.second_confidence)
    )
}

fn agreement(opinions: &Opinions) -> String {
    let settled = if opinions.shares_look_usual {
        format!("nothing contradicts these shares, so the mean counts, {}", percent(opinions.accuracy()))
    } else {
        "transport contradicts these shares, so the first alone counts".to_owned()
    };
    format!(
        "Whatever the class shares, that means {}; with the labelled images' shares, {}; {settled}.",
        percent(opinions.any_shares),
        percent(opinions.usual_shares)
    )
}

fn errors(fit: &AccuracyFit, images: usize) -> Option<String> {
    let least = images.min(MANY_IMAGES);
    let mae = fit.errors().mae(least)?;
    Some(format!(
        "Samples of {} or more images with kinds of shift the fit had not seen, {} of them, were off by {:.1} points on average; a \
         shift unlike all of them can be worse.",
        flipcast_ground::grouped(least),
        fit.errors().kinds(),
        100.0 * mae
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_estimate::StepsSample;

    fn signals() -> Signals {
        Signals {
            images: 300,
            looked_at: 300,
            classes: 10,
            confidence: 0.8,
            entropy: 0.5,
            cross: 0.6,
            reverse: 0.6,
            concentration: 0.0,
            source_concentration: 1.0,
            transport: 0.7,
            second_confidence: 0.8,
            second_entropy: 0.5,
            second_transport: 0.7,
            early_cross: None,
        }
    }

    #[test]
    fn what_was_seen_stands_beside_clean_images() {
        let clean = Signals { confidence: 0.9, cross: 0.85, ..signals() };
        let text = seen(Some(&clean), &signals());
        assert!(
            text.contains("80.0% (clean labelled images: 90.0%)") && text.contains("about 4 of 10 classes"),
            "{text}"
        );
        assert!(!seen(None, &signals()).contains("clean"));
    }

    #[test]
    fn a_second_look_is_told_of_only_where_there_was_one() {
        assert!(seen(None, &signals()).contains("60.0% to the answers of a second look"));
        // The first look stands in for the second.
        let once = Signals { cross: 0.8, reverse: 0.8, ..signals() };
        assert_eq!(seen(None, &once), "Mean confidence is 80.0%; its answers are spread over about 4 of 10 classes.");
        assert!(strange(None, &once, 2.0).starts_with("Mean confidence is 80.0%"));
        assert!(strange(None, &signals(), 2.0).starts_with("The second look's own confidence is 80.0%"));
    }

    #[test]
    fn the_members_say_why_they_count() {
        let usual = Opinions { any_shares: 0.6, usual_shares: 0.7, shares_look_usual: true };
        assert!(agreement(&usual).contains("the mean counts, 65.0%"), "{}", agreement(&usual));
        let other = Opinions { shares_look_usual: false, ..usual };
        assert!(agreement(&other).contains("the first alone counts"));
    }

    #[test]
    fn the_adapted_model_is_told_from_what_it_begins_with() {
        let steps = |group: usize| StepsSample { flips: 0.1, gain: 0.05, images: 100, group: Some(group) };
        let fit = AdaptedFit::fit(None, &[steps(0), steps(1)]).unwrap();
        let (start, estimate) = (Estimate::around(0.6, 0.05, Vec::new()), Estimate::around(0.65, 0.06, Vec::new()));
        let told = |flips: f64| explain_adapted(&fit, &start, &StepsSeen { flips, images: 100 }, &estimate);
        assert!(
            told(0.1).contains("the source model is right in 60.0%") && told(0.1).contains("+5.0 points"),
            "{}",
            told(0.1)
        );
        assert!(told(0.1).ends_with("65.0% (59.0% to 71.0%)."), "{}", told(0.1));
        assert!(told(0.0).starts_with("No step"), "{}", told(0.0));
    }

    #[test]
    fn strange_signals_are_told_with_the_second_looks_confidence() {
        let clean = Signals { second_confidence: 0.9, ..signals() };
        let text = strange(Some(&clean), &signals(), 2.04);
        assert!(text.contains("80.0% (clean labelled images: 90.0%)") && text.contains("2.0 times"), "{text}");
    }
}
