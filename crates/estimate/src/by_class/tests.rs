use super::*;
use crate::Marginal;
use crate::testing::calibrated;

const CONFIG: ByClassConfig = ByClassConfig { level: 0.9, calibration_error: 0.0 };

/// Rows of probabilities, each `times` over.
fn of_probs(rows: &[[f64; 3]], times: usize) -> Outputs {
    let logits = rows.iter().flat_map(|row| vec![*row; times]).flatten().map(|prob| prob.ln() as f32);
    Outputs::new(logits.collect(), 3).unwrap()
}

#[test]
fn precisions_and_confusions_are_those_of_a_hand_calculation() {
    let outputs = of_probs(&[[0.6, 0.3, 0.1], [0.8, 0.1, 0.1], [0.25, 0.15, 0.6]], 10);
    let config = ByClassConfig { calibration_error: 0.03, ..CONFIG };
    let found = estimate_by_class(&outputs, &MarginalReference::uniform(3), &config).unwrap();
    let [first, second, third] = found.classes.as_slice() else { panic!("three classes") };
    let precision = first.precision.as_ref().unwrap();
    assert!((precision.accuracy - 0.7).abs() < 1e-6);
    // Ten coins of 0.6 and ten of 0.8: (10 * 0.24 + 10 * 0.16) / 400 = 0.01.
    let em = Marginal::Em.resolve(&outputs, &MarginalReference::uniform(3)).unwrap();
    let shares = [16.5 / 30.0, 5.5 / 30.0, 8.0 / 30.0];
    let disagreement = shares.iter().zip(&em).map(|(share, em): (&f64, _)| (share - em).abs()).sum::<f64>() / 2.0;
    let half_width = 1.644854 * (0.01f64 + 0.0009 + (0.7 * disagreement).powi(2)).sqrt();
    assert!((first.share - shares[0]).abs() < 1e-6 && disagreement > 0.05, "{first:?}");
    assert!((precision.accuracy - precision.low - half_width).abs() < 1e-5, "{precision:?}");
    // Nobody answered the second class, and too few the third.
    assert_eq!((second.answered, third.answered), (0, 10));
    assert!(second.precision.is_none() && third.precision.is_none());
    let pairs: Vec<(usize, usize, f64)> = found.confusions.iter().map(|c| (c.answered, c.class, c.images)).collect();
    let expected = [(0, 1, 4.0), (2, 0, 2.5), (0, 2, 2.0), (2, 1, 1.5)];
    assert_eq!(pairs.len(), expected.len());
    for (found, expected) in pairs.iter().zip(expected) {
        assert!((found.0, found.1) == (expected.0, expected.1) && (found.2 - expected.2).abs() < 1e-5, "{pairs:?}");
    }
    assert!((found.confusions[0].probability - 0.2).abs() < 1e-6);
}

/// Total variation between the true shares and those by soft counts and by expectation maximisation.
fn distances(outputs: &Outputs, labels: &[usize]) -> (f64, f64) {
    let (classes, images) = (outputs.classes(), labels.len() as f64);
    let reference = MarginalReference::uniform(classes);
    let mut truth = vec![0.0; classes];
    labels.iter().for_each(|&label| truth[label] += 1.0 / images);
    let distance = |found: &[f64]| found.iter().zip(&truth).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
    let found = estimate_by_class(outputs, &reference, &CONFIG).unwrap();
    let soft: Vec<f64> = found.classes.iter().map(|class| class.share).collect();
    (distance(&soft), distance(&Marginal::Em.resolve(outputs, &reference).unwrap()))
}

/// Outputs of which every second image of class 0 looks like class 1, and the temperature that makes up for it on average.
fn mistaken(seed: u64) -> (Outputs, Vec<usize>) {
    let (outputs, labels) = calibrated(seed, 1000, &[1.0; 6], 2.0);
    let mut logits: Vec<f32> = outputs.rows().flatten().copied().collect();
    let rows = logits.chunks_exact_mut(6).zip(&labels).enumerate();
    rows.filter(|(image, (_, label))| **label == 0 && image % 2 == 0).for_each(|(_, (row, _))| row.swap(0, 1));
    let outputs = Outputs::new(logits, 6).unwrap();
    let accuracy = outputs.accuracy(&labels).unwrap();
    (outputs.scaled(match_temperature(&outputs, accuracy).unwrap()), labels)
}

#[test]
fn soft_counts_survive_a_shift_that_misleads_expectation_maximisation() {
    for seed in 0..5 {
        let (outputs, labels) = mistaken(seed);
        let (soft, em) = distances(&outputs, &labels);
        assert!(soft < em, "{soft} and {em}");
    }
    // Where the shares alone differ it is the other way round, which is why the interval reaches from one to the other.
    let (outputs, labels) = calibrated(11, 1000, &[0.5, 0.25, 0.15, 0.05, 0.03, 0.02], 1.5);
    let (soft, em) = distances(&outputs, &labels);
    assert!(em < 0.5 * soft, "{soft} and {em}");
}

#[test]
fn intervals_of_shares_hold_under_a_shift_that_misleads() {
    let (mut held, mut all) = (0, 0u32);
    for seed in 0..20 {
        let (outputs, labels) = mistaken(seed);
        for class in estimate_by_class(&outputs, &MarginalReference::uniform(6), &CONFIG).unwrap().classes {
            let truth = labels.iter().filter(|&&label| label == class.class).count() as f64 / 1000.0;
            held += u32::from((class.share_low..=class.share_high).contains(&truth));
            all += 1;
        }
    }
    assert!(f64::from(held) > 0.85 * f64::from(all), "{held} of {all}");
}

#[test]
fn intervals_of_calibrated_outputs_hold() {
    let weights = [0.4, 0.3, 0.15, 0.1, 0.05];
    let (mut shares_held, mut shares, mut precisions_held, mut precisions) = (0, 0, 0, 0);
    for seed in 0..60 {
        let (outputs, labels) = calibrated(seed, 300, &weights, 1.5);
        // The outputs expect equal shares; with the true ones their probabilities are right.
        let reference = MarginalReference::uniform(5);
        let found = estimate_by_class(&outputs, &reference, &CONFIG).unwrap();
        for class in &found.classes {
            let truth = labels.iter().filter(|&&label| label == class.class).count() as f64 / 300.0;
            shares += 1;
            shares_held += usize::from((class.share_low..=class.share_high).contains(&truth));
        }
        let (outputs, labels) = calibrated(seed, 300, &[1.0; 5], 1.5);
        let found = estimate_by_class(&outputs, &reference, &CONFIG).unwrap();
        let predicted = outputs.classes_predicted();
        for class in &found.classes {
            let of_class = || predicted.iter().zip(&labels).filter(|(answer, _)| **answer == class.class);
            let right = of_class().filter(|(answer, label)| answer == label).count();
            let Some(precision) = &class.precision else { continue };
            precisions += 1;
            precisions_held += usize::from(precision.holds(right as f64 / of_class().count() as f64));
        }
    }
    // Three standard errors of 300 draws below 90%. Shares of these very images vary less than those of other ones.
    let least = |draws: usize| 0.9 * draws as f64 - 3.0 * (0.09 * draws as f64).sqrt();
    assert!(shares_held as f64 > least(shares), "{shares_held} of {shares}");
    assert!(precisions_held as f64 > least(precisions), "{precisions_held} of {precisions}");
}

#[test]
fn a_class_that_never_occurs_may_still_exist() {
    let outputs = of_probs(&[[0.999, 0.0005, 0.0005]], 100);
    let found = estimate_by_class(&outputs, &MarginalReference::uniform(3), &CONFIG).unwrap();
    let rare = &found.classes[1];
    assert!(rare.share < 1e-3 && rare.share_high > 0.01 && rare.share_high < 0.05, "{rare:?}");
    assert!(found.confusions.is_empty());
}

#[test]
fn the_matched_temperature_gives_the_accuracy_as_mean_confidence() {
    let (outputs, _) = calibrated(3, 500, &[1.0; 10], 2.0);
    for accuracy in [0.2, 0.55, 0.9] {
        let matched = outputs.scaled(match_temperature(&outputs, accuracy).unwrap());
        let mean = matched.confidences().iter().sum::<f64>() / 500.0;
        assert!((mean - accuracy).abs() < 1e-4, "{mean} and {accuracy}");
    }
    // Ten classes cannot be less sure than one tenth.
    assert!(match_temperature(&outputs, 0.01).unwrap() > 99.0);
    assert!(match_temperature(&outputs, f64::NAN).is_err());
}

#[test]
fn settings_out_of_range_are_refused() {
    let outputs = of_probs(&[[0.5, 0.25, 0.25]], 2);
    let refused = |config| estimate_by_class(&outputs, &MarginalReference::uniform(3), &config).is_err();
    assert!(refused(ByClassConfig { level: 1.0, ..CONFIG }));
    assert!(refused(ByClassConfig { calibration_error: f64::NAN, ..CONFIG }));
    assert!(estimate_by_class(&outputs, &MarginalReference::uniform(2), &CONFIG).is_err());
}
