//! What a few labels add: width and coverage of intervals against the number of labels, and how tables by class do.
//!
//! Run it with `cargo run --release -p flipcast-lab --bin few_labels -- MODEL CALIBRATION DATA SHIFT...`; `DATA` needs labels, a
//! `SHIFT` is a corruption such as `fog:3`. `studies/few_labels` holds its output.

use flipcast::estimate::{
    Answer, ByClassConfig, Estimate, Marginal, Outputs, choose_questions, estimate_by_class, join_with_labels,
    match_temperature, normal_quantile, powered_estimate,
};
use flipcast::run::{EstimateSource, Images, run_source};
use flipcast::{Calibration, DataRequest, Device, Ledger, Model, ModelRequest, OpenedData, Setting, Unwatched};
use flipcast_ground::SplitMix64;
use std::error::Error;
use std::path::Path;

const LEVEL: f64 = 0.9;
const IMAGES: usize = 1000;
const DRAWS: usize = 500;
const LABELS: [usize; 4] = [20, 50, 100, 300];

/// A set of images of which the truth is known.
struct Known {
    outputs: Outputs,
    labels: Vec<usize>,
    right: Vec<bool>,
}

impl Known {
    fn truth(&self) -> f64 {
        self.right.iter().filter(|right| **right).count() as f64 / self.right.len() as f64
    }
}

fn look(model: &Model, data: &OpenedData) -> Result<Known, Box<dyn Error>> {
    let request = data.request();
    let images = Images::open(request.dataset.clone(), request.config.clone(), request.memory_limit)?;
    let pass = run_source(model, &images, request.scope, Device::cpu(0), &mut Unwatched)?;
    let label = |label| request.scope.alternative(label);
    let labels: Option<Vec<usize>> = pass.labels.iter().map(label).collect();
    let labels = labels.ok_or("an image has no label")?;
    let right = pass.outputs.classes_predicted().iter().zip(&labels).map(|(answer, label)| answer == label).collect();
    Ok(Known { outputs: pass.outputs, labels, right })
}

/// Mean widths with guesses and without, and how often each interval held.
#[derive(Default)]
struct Measured {
    width: f64,
    held: f64,
    width_alone: f64,
    held_alone: f64,
    error: f64,
    /// With the calibration's estimate, or without it where the two contradict each other.
    width_joined: f64,
    held_joined: f64,
}

fn measure(guesses: &[f64], right: &[bool], labels: usize, combined: &Estimate) -> Result<Measured, Box<dyn Error>> {
    let truth = right.iter().filter(|right| **right).count() as f64 / right.len() as f64;
    let mut sums = Measured::default();
    let share = 1.0 / DRAWS as f64;
    let held = |estimate: &Estimate| f64::from(u8::from(estimate.holds(truth))) * share;
    for seed in 0..DRAWS as u64 {
        let question = choose_questions(guesses, labels, seed)?;
        let answer = |&image: &usize| Answer { image, right: right[image], stratum: question.strata[image] };
        let answers: Vec<Answer> = question.images.iter().map(answer).collect();
        let found = powered_estimate(guesses, &question.strata, &answers, LEVEL)?;
        // Without guesses nobody knows strata either.
        let mut order: Vec<usize> = (0..right.len()).collect();
        SplitMix64::new(seed).shuffle(&mut order);
        let plain = |&image: &usize| Answer { image, right: right[image], stratum: 0 };
        let plain: Vec<Answer> = order[..labels].iter().map(plain).collect();
        let alone = powered_estimate(guesses, &vec![0; right.len()], &plain, LEVEL)?.labels_alone;
        sums.width += (found.estimate.high - found.estimate.low) * share;
        sums.held += held(&found.estimate);
        sums.width_alone += (alone.high - alone.low) * share;
        sums.held_alone += held(&alone);
        let joined = join_with_labels(combined, &found.estimate).unwrap_or(found.estimate.clone());
        sums.width_joined += (joined.high - joined.low) * share;
        sums.held_joined += held(&joined);
        sums.error += (found.estimate.accuracy - truth).abs() * share;
    }
    Ok(sums)
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, calibration, data, shifts @ ..] = args.as_slice() else {
        return Err("expected MODEL CALIBRATION DATA SHIFT...".into());
    };
    let model = ModelRequest::new(Path::new(model)).open()?;
    let calibration = Calibration::load(Path::new(calibration))?;
    let temperature = calibration.basis.temperature.value;
    let setting = Setting { model: &model, protocol: &calibration.protocol, device: Device::cpu(0) };
    println!("{IMAGES} images, {DRAWS} draws of the labelled ones; 90% intervals; width and held in percent.\n");
    println!(
        "| shift | guesses | labels | width | held | error | width, labels alone | held, labels alone | width, with calibration | held, with calibration |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut tables = Vec::new();
    for shift in shifts {
        let spec = format!("{data}@{shift}");
        let all = DataRequest::new(&spec).open(&model)?;
        let some = DataRequest { limit: Some(IMAGES), ..DataRequest::new(&spec) }.open(&model)?;
        let known = look(&model, &some)?;
        let source = EstimateSource::Calibration(&calibration, None);
        let request = some.request();
        let (_, estimates) = setting.estimate(source, &request, LEVEL, &mut Ledger::default(), &mut Unwatched)?;
        let combined = &estimates.source["combined"];
        let (truth, guesses) = (known.truth(), known.outputs.scaled(temperature).confidences());
        let mean_guess = guesses.iter().sum::<f64>() / guesses.len() as f64;
        let mut shuffled = guesses.clone();
        SplitMix64::new(1).shuffle(&mut shuffled);
        println!(
            "| {shift}, truth {} | mean {} | 0 (combined) | {} | {} | {} | | | | |",
            percent(truth),
            percent(mean_guess),
            percent(combined.high - combined.low),
            if combined.holds(truth) { "yes" } else { "no" },
            percent((combined.accuracy - truth).abs()),
        );
        for (what, guesses) in [("as they are", &guesses), ("shuffled", &shuffled)] {
            for labels in LABELS {
                let found = measure(guesses, &known.right, labels, combined)?;
                println!(
                    "| | {what} | {labels} | {} | {} | {} | {} | {} | {} | {} |",
                    percent(found.width),
                    percent(found.held),
                    percent(found.error),
                    percent(found.width_alone),
                    percent(found.held_alone),
                    percent(found.width_joined),
                    percent(found.held_joined),
                );
            }
        }
        tables.push(by_class_row(shift, &look(&model, &all)?, &calibration, combined)?);
    }
    println!(
        "\nBy class, all images: intervals that hold the truth, and total variation between shares and the truth.\n"
    );
    println!("| shift | truth | matched to | precisions held | shares held | shares off | shares by EM off |");
    println!("|---|---|---|---|---|---|---|");
    tables.iter().for_each(|row| println!("{row}"));
    Ok(())
}

/// How tables by class do on a set, matched to what is estimated of a part of it.
fn by_class_row(
    shift: &str,
    known: &Known,
    calibration: &Calibration,
    combined: &Estimate,
) -> Result<String, Box<dyn Error>> {
    let outputs = known.outputs.scaled(match_temperature(&known.outputs, combined.accuracy)?);
    let deviation = 0.5 * (combined.high - combined.low) / normal_quantile(LEVEL);
    let calibration_error = deviation.hypot(calibration.basis.temperature.ece_after);
    let config = ByClassConfig { level: LEVEL, calibration_error };
    let marginals = &calibration.basis.marginals;
    let found = estimate_by_class(&outputs, marginals, &config)?;
    let (images, classes) = (known.labels.len() as f64, outputs.classes());
    let mut shares = vec![0.0; classes];
    known.labels.iter().for_each(|&label| shares[label] += 1.0 / images);
    let predicted = outputs.classes_predicted();
    let (mut precisions_held, mut precisions, mut shares_held) = (0, 0, 0);
    for class in &found.classes {
        shares_held += usize::from((class.share_low..=class.share_high).contains(&shares[class.class]));
        let Some(precision) = &class.precision else { continue };
        let right = predicted.iter().zip(&known.right).filter(|(answer, right)| **answer == class.class && **right);
        precisions += 1;
        precisions_held += usize::from(precision.holds(right.count() as f64 / class.answered as f64));
    }
    let soft: Vec<f64> = found.classes.iter().map(|class| class.share).collect();
    let off = |found: &[f64]| found.iter().zip(&shares).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
    let em = Marginal::Em.resolve(&outputs, marginals)?;
    Ok(format!(
        "| {shift} | {} | {} | {precisions_held} of {precisions} | {shares_held} of {classes} | {} | {} |",
        percent(known.truth()),
        percent(combined.accuracy),
        percent(off(&soft)),
        percent(off(&em)),
    ))
}
