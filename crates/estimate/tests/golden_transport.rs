//! COT against values two independent solvers agree on, and against exhaustive and assignment solvers.

use flipcast_estimate::embed::solve_assignment;
use flipcast_estimate::{
    CottThreshold, Flag, Marginal, MarginalReference, Outputs, ac, cot, cott, fit_temperature, measure_mismatch,
};
use safetensors::SafeTensors;
use std::path::PathBuf;

/// The goldens' README: double precision throughout.
const BOUND: f64 = 1e-9;

struct Goldens {
    bytes: Vec<u8>,
    cases: Vec<serde_json::Value>,
}

impl Goldens {
    fn load() -> Self {
        let root = std::env::var_os("FLIPCAST_GOLDEN")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
        let folder = root.join("estimators");
        let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
        let values: serde_json::Value = serde_json::from_str(&text).unwrap();
        Self {
            bytes: std::fs::read(folder.join("arrays.safetensors")).unwrap(),
            cases: values["cases"].as_array().unwrap().clone(),
        }
    }

    /// Logits and labels of one part, `val` or `test`, of a case.
    fn labelled(&self, case: &serde_json::Value, part: &str) -> (Outputs, Vec<usize>) {
        let name = case["name"].as_str().unwrap();
        let arrays = SafeTensors::deserialize(&self.bytes).unwrap();
        let logits = arrays.tensor(&format!("{name}.{part}_logits")).unwrap();
        let labels = arrays.tensor(&format!("{name}.{part}_labels")).unwrap();
        let values = logits.data().as_chunks::<4>().0.iter();
        let numbers = labels.data().as_chunks::<8>().0.iter();
        (
            Outputs::new(values.map(|&value| f32::from_le_bytes(value)).collect(), logits.shape()[1]).unwrap(),
            numbers.map(|&number| usize::try_from(i64::from_le_bytes(number)).unwrap()).collect(),
        )
    }
}

fn uniform(classes: usize) -> Vec<f64> {
    vec![1.0 / classes as f64; classes]
}

#[test]
fn cot_equals_the_reference_solvers() {
    let goldens = Goldens::load();
    for case in &goldens.cases {
        let (outputs, _) = goldens.labelled(case, "test");
        for kind in ["cot_uniform", "cot_true_marginal"] {
            let capacities = case[kind]["capacities"].as_array().unwrap();
            let counts = capacities.iter().map(|count| count.as_f64().unwrap()).collect();
            let marginal =
                Marginal::Given(counts).resolve(&outputs, &MarginalReference::uniform(outputs.classes())).unwrap();
            let found = cot(&outputs, &marginal).unwrap();
            let expected = case[kind]["accuracy"].as_f64().unwrap();
            assert!(
                (found.value - expected).abs() < BOUND,
                "{} {kind}: {}, expected {expected}",
                case["name"],
                found.value
            );
            assert!(found.value <= ac(&outputs).unwrap().value + BOUND);
            assert_eq!(found.terms.unwrap().len(), outputs.images());
        }
    }
}

#[test]
fn real_capacities_lie_near_rounded_ones() {
    // The rounded uniform capacities of this case differ from the real ones by at most half an image per class, and moving an
    // image changes the sum of probabilities by at most one.
    let goldens = Goldens::load();
    let case = &goldens.cases[1];
    let (outputs, _) = goldens.labelled(case, "test");
    let found = cot(&outputs, &uniform(outputs.classes())).unwrap().value;
    let expected = case["cot_uniform"]["accuracy"].as_f64().unwrap();
    let most = outputs.classes() as f64 / 4.0 / outputs.images() as f64;
    assert!((found - expected).abs() < most, "{found}, {expected}");
}

#[test]
fn thresholds_reproduce_the_accuracy_of_their_own_images() {
    let goldens = Goldens::load();
    for case in &goldens.cases {
        let (outputs, labels) = goldens.labelled(case, "val");
        let mut marginal = vec![0.0; outputs.classes()];
        for &label in &labels {
            marginal[label] += 1.0 / labels.len() as f64;
        }
        let threshold = CottThreshold::Exact.fit(&outputs, &labels).unwrap();
        let found = cott(&outputs, &marginal, threshold).unwrap().value;
        let expected = case["val_accuracy"].as_f64().unwrap();
        assert!((found - expected).abs() < BOUND, "{}: {found}, expected {expected}", case["name"]);
    }
}

#[test]
fn only_the_skewed_case_is_flagged() {
    let goldens = Goldens::load();
    for case in &goldens.cases {
        let (validation, labels) = goldens.labelled(case, "val");
        let temperature = fit_temperature(&validation, &labels).unwrap();
        let outputs = goldens.labelled(case, "test").0.scaled(temperature.value);
        let reference = MarginalReference::fit(&validation, &labels).unwrap();
        let assumed = uniform(outputs.classes());
        let found = measure_mismatch(&outputs, &assumed, &reference.marginal).unwrap();
        let skewed = case["name"] == "k37_skewed";
        assert_eq!(found.flag() == Some(Flag::ClassMarginalMismatch), skewed, "{}: {found:?}", case["name"]);
    }
}

/// Logits between -2 and 2 from a fixed rule without pattern.
fn scattered(images: usize, classes: usize, salt: u64) -> Outputs {
    let logits = (0..(images * classes) as u64).map(|index| {
        let mixed = (index + salt * 7919 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f32 / 4_194_304.0 - 2.0
    });
    Outputs::new(logits.collect(), classes).unwrap()
}

#[test]
fn cot_equals_an_assignment_of_images_to_places() {
    for salt in 0..5 {
        let outputs = scattered(40, 8, salt);
        let mut costs = Vec::new();
        let mut probs = Vec::new();
        for image in 0..40 {
            outputs.probs_into(image, &mut probs);
            costs.extend(probs.iter().flat_map(|p| [1.0 - p; 5]));
        }
        let expected = 1.0 - solve_assignment(&costs, 40).unwrap().cost / 40.0;
        let found = cot(&outputs, &uniform(8)).unwrap().value;
        assert!((found - expected).abs() < BOUND, "{found}, {expected}");
    }
}

/// The largest sum of probabilities when parts of images are given classes one by one, all ways tried.
fn exhausted(parts: &[Vec<f64>], room: &mut [usize]) -> f64 {
    let Some((probs, rest)) = parts.split_first() else {
        return 0.0;
    };
    let mut best = f64::NEG_INFINITY;
    for class in 0..room.len() {
        if room[class] > 0 {
            room[class] -= 1;
            best = best.max(probs[class] + exhausted(rest, room));
            room[class] += 1;
        }
    }
    best
}

#[test]
fn cot_equals_a_search_of_all_plans() {
    // Halves of four images: capacities in half images, so images get split.
    for (salt, halves) in [[3, 3, 2], [1, 7, 0], [5, 2, 1], [8, 0, 0]].iter().enumerate() {
        let outputs = scattered(4, 3, salt as u64);
        let parts: Vec<Vec<f64>> = (0..8)
            .map(|half| {
                let mut probs = Vec::new();
                outputs.probs_into(half / 2, &mut probs);
                probs
            })
            .collect();
        let marginal: Vec<f64> = halves.iter().map(|&count| count as f64 / 8.0).collect();
        let expected = exhausted(&parts, &mut halves.clone()) / 8.0;
        let found = cot(&outputs, &marginal).unwrap().value;
        assert!((found - expected).abs() < BOUND, "{found}, {expected}");
    }
}

#[test]
fn cot_does_not_depend_on_the_order_of_images_or_classes() {
    let outputs = scattered(90, 7, 3);
    let marginal = [0.3, 0.05, 0.05, 0.2, 0.1, 0.17, 0.13];
    let backwards: Vec<f32> = outputs.rows().flatten().rev().copied().collect();
    let reversed = Outputs::new(backwards, 7).unwrap();
    let turned: Vec<f64> = marginal.iter().rev().copied().collect();
    let found = cot(&outputs, &marginal).unwrap().value;
    let other = cot(&reversed, &turned).unwrap().value;
    assert!((found - other).abs() < BOUND, "{found}, {other}");
}
