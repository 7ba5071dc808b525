//! What holds for every estimator, whatever the outputs look like.

use flipcast_estimate::{
    AtcScore, EstimateError, ManoConfig, Outputs, Reference, Score, ac, atc, doc, fit_temperature, flips, gde, im,
    mano, mde, nuclear_norm, weighted_flips,
};

/// Values that a small generator turns into irregular, tied and extreme logits.
fn logits(kind: usize, images: usize, classes: usize) -> Vec<f32> {
    let mut state = (kind * 1009 + images * 31 + classes) as u32;
    (0..images * classes)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let small = (state >> 16) as f32 / 65536.0;
            match kind {
                0 => 8.0 * small - 4.0,
                1 => (4.0 * small).floor(),
                2 => 0.0,
                3 => f32::MAX * (2.0 * small - 1.0),
                _ => 1e-40 * small,
            }
        })
        .collect()
}

const SHAPES: [(usize, usize); 7] = [(1, 1), (1, 6), (6, 1), (2, 2), (7, 30), (120, 4), (130, 130)];

/// Every estimator of accuracies, and those of other scores.
fn scores(outputs: &Outputs, other: &Outputs, labels: &[usize]) -> (Vec<Score>, Vec<Result<Score, EstimateError>>) {
    let reference = Reference::fit(other, labels).unwrap();
    reference.check().unwrap();
    let accuracies = vec![
        ac(outputs).unwrap(),
        im(outputs, &reference).unwrap(),
        atc(outputs, &reference, AtcScore::MaxConfidence).unwrap(),
        atc(outputs, &reference, AtcScore::NegativeEntropy).unwrap(),
        gde(outputs, other).unwrap(),
    ];
    let (before, after) = (outputs.classes_predicted(), other.classes_predicted());
    let others = vec![
        doc(outputs, &reference),
        nuclear_norm(outputs),
        mano(outputs, &ManoConfig::published()),
        mde(outputs, 1.0),
        flips(&before, &after),
        weighted_flips(&before, &outputs.confidences(), &after),
    ];
    (accuracies, others)
}

#[test]
fn any_outputs_give_finite_scores_and_terms_that_average_to_them() {
    for (images, classes) in SHAPES {
        for kind in 0..5 {
            let outputs = Outputs::new(logits(kind, images, classes), classes).unwrap();
            let other = Outputs::new(logits((kind + 1) % 5, images, classes), classes).unwrap();
            let labels: Vec<usize> = (0..images).map(|i| i * 7 % classes).collect();
            let (accuracies, others) = scores(&outputs, &other, &labels);
            for score in &accuracies {
                // A mean of numbers up to 1 may exceed it by rounding.
                let fraction = -1e-12..=1.0 + 1e-12;
                assert!(fraction.contains(&score.value), "{kind} {images} {classes}");
            }
            for score in others.iter().chain(&accuracies.into_iter().map(Ok).collect::<Vec<_>>()) {
                match score {
                    // One image alone has no distribution of energies.
                    Err(error) => assert!(images == 1 && matches!(error, EstimateError::TooFew { .. }), "{error}"),
                    Ok(score) => {
                        assert!(score.value.is_finite(), "{kind} {images} {classes}");
                        if let Some(terms) = &score.terms {
                            assert_eq!(terms.len(), images);
                            let mean = terms.iter().sum::<f64>() / images as f64;
                            assert!((mean - score.value).abs() <= 1e-12 * mean.abs().max(1.0));
                        }
                    }
                }
            }
            let fitted = fit_temperature(&other, &labels).unwrap();
            fitted.check().unwrap();
            assert!(fitted.nll_after.is_finite() && fitted.nll_before.is_finite());
            assert!(fitted.nll_after <= fitted.nll_before * (1.0 + 1e-12));
        }
    }
}

#[test]
fn the_order_of_images_does_not_matter() {
    let (images, classes) = (40, 6);
    let forward = logits(0, images, classes);
    let rows: Vec<&[f32]> = forward.chunks_exact(classes).collect();
    let backward: Vec<f32> = rows.iter().rev().flat_map(|row| row.to_vec()).collect();
    let forward = Outputs::new(forward, classes).unwrap();
    let backward = Outputs::new(backward, classes).unwrap();
    let single_batch = ManoConfig { batch_size: images, ..ManoConfig::published() };
    let scores = |outputs: &Outputs| {
        [
            ("ac", ac(outputs)),
            ("nuclear_norm", nuclear_norm(outputs)),
            ("mano", mano(outputs, &single_batch)),
            ("mde", mde(outputs, 1.0)),
        ]
    };
    for ((name, one), (_, other)) in scores(&forward).iter().zip(&scores(&backward)) {
        let gap = (one.as_ref().unwrap().value - other.as_ref().unwrap().value).abs();
        assert!(gap < 1e-12, "{name}: {gap:e}");
    }
}
