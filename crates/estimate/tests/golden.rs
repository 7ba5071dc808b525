//! Estimators and fits against independent libraries (`golden/estimators`).

use flipcast_estimate::{
    AtcScore, Embeddings, ManoConfig, Outputs, Reference, ac, atc, dispersion, doc, ece, fit_polynomial,
    fit_temperature, flips, gde, im, mano, mde, nuclear_norm, weighted_flips,
};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::PathBuf;

/// The golden folder's own bound for double precision.
const TOLERANCE: f64 = 1e-9;

/// The bound of the searched temperature, relative.
const TEMPERATURE_TOLERANCE: f64 = 1e-6;

struct Golden {
    arrays: Vec<u8>,
    expected: Value,
    extra: Value,
}

impl Golden {
    fn load() -> Self {
        let root = std::env::var_os("FLIPCAST_GOLDEN")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
        let folder = root.join("estimators");
        let values = |file| {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        Self {
            arrays: std::fs::read(folder.join("arrays.safetensors")).unwrap(),
            expected: values("expected.json"),
            extra: values("extra.json"),
        }
    }

    fn bytes<const N: usize>(&self, name: &str) -> Vec<[u8; N]> {
        let tensors = SafeTensors::deserialize(&self.arrays).unwrap();
        let (values, rest) = tensors.tensor(name).unwrap().data().as_chunks::<N>();
        assert!(rest.is_empty(), "{name}");
        values.to_vec()
    }

    fn f32s(&self, name: &str) -> Vec<f32> {
        let values = self.bytes(name).into_iter();
        values.map(f32::from_le_bytes).collect()
    }

    fn f64s(&self, name: &str) -> Vec<f64> {
        let values = self.bytes(name).into_iter();
        values.map(f64::from_le_bytes).collect()
    }

    fn labels(&self, name: &str) -> Vec<usize> {
        let values = self.bytes(name).into_iter();
        values.map(|bytes| usize::try_from(i64::from_le_bytes(bytes)).unwrap()).collect()
    }

    fn cases(&self) -> Vec<Case<'_>> {
        let cases = self.expected["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 3);
        let pairs = cases.iter().zip(self.extra["cases"].as_array().unwrap());
        pairs
            .map(|(expected, extra)| {
                assert_eq!(expected["name"], extra["name"]);
                Case { golden: self, expected, extra }
            })
            .collect()
    }
}

struct Case<'a> {
    golden: &'a Golden,
    expected: &'a Value,
    extra: &'a Value,
}

impl Case<'_> {
    fn name(&self, array: &str) -> String {
        format!("{}.{array}", self.expected["name"].as_str().unwrap())
    }

    fn outputs(&self, array: &str) -> Outputs {
        let classes = self.expected["classes"].as_u64().unwrap() as usize;
        let outputs = Outputs::new(self.golden.f32s(&self.name(array)), classes).unwrap();
        assert_eq!(outputs.images() as u64, self.expected["n"].as_u64().unwrap());
        outputs
    }

    fn labels(&self, array: &str) -> Vec<usize> {
        self.golden.labels(&self.name(array))
    }

    fn reference(&self) -> Reference {
        Reference::fit(&self.outputs("val_logits"), &self.labels("val_labels")).unwrap()
    }

    fn compare(&self, what: &str, found: f64, expected: &Value) {
        close(&self.name(what), found, expected.as_f64().unwrap());
    }
}

fn close(what: &str, found: f64, expected: f64) {
    let bound = TOLERANCE * expected.abs().max(1.0);
    let error = (found - expected).abs();
    assert!(error <= bound, "{what}: {found} is not {expected}, off by {error:e} with bound {bound:e}");
}

#[test]
fn accuracies_are_those_of_numpy() {
    let golden = Golden::load();
    for case in golden.cases() {
        for set in ["val", "test"] {
            let labels = case.labels(&format!("{set}_labels"));
            let found = case.outputs(&format!("{set}_logits")).accuracy(&labels);
            let what = format!("{set}_accuracy");
            case.compare(&what, found.unwrap(), &case.expected[&what]);
        }
    }
}

#[test]
fn ac_and_doc_are_those_of_numpy() {
    let golden = Golden::load();
    for case in golden.cases() {
        let outputs = case.outputs("test_logits");
        case.compare("ac", ac(&outputs).unwrap().value, &case.expected["ac"]);
        let found = doc(&outputs, &case.reference()).unwrap().value;
        case.compare("doc", found, &case.expected["doc"]);
    }
}

#[test]
fn atc_is_that_of_numpy() {
    let golden = Golden::load();
    for case in golden.cases() {
        let outputs = case.outputs("test_logits");
        let reference = case.reference();
        for (what, score, threshold) in [
            ("atc_max_confidence", AtcScore::MaxConfidence, reference.atc_mc),
            ("atc_negative_entropy", AtcScore::NegativeEntropy, reference.atc_ne),
        ] {
            let expected = &case.expected[what];
            case.compare(what, threshold.unwrap(), &expected["threshold"]);
            let found = atc(&outputs, &reference, score).unwrap().value;
            case.compare(what, found, &expected["accuracy"]);
        }
    }
}

#[test]
fn flips_are_those_of_pandas_ranks() {
    let golden = Golden::load();
    for case in golden.cases() {
        let before = case.outputs("test_logits").classes_predicted();
        let after = case.outputs("after_logits").classes_predicted();
        let confidence = golden.f64s(&case.name("confidence"));
        // Scores refer to 1,000 images, the golden values to those of the case.
        let scale = before.len() as f64 / 1000.0;
        let found = flips(&before, &after).unwrap().value * scale;
        case.compare("flips", found, &case.expected["flips"]);
        let weighted = weighted_flips(&before, &confidence, &after).unwrap();
        case.compare("weighted_flips", weighted.value * scale, &case.expected["weighted_flips"]);
        let ranks = golden.f64s(&case.name("rank"));
        let terms = weighted.terms.unwrap();
        for (image, term) in terms.iter().enumerate() {
            let weight = f64::from(u8::from(before[image] != after[image])) * ranks[image];
            close(&case.name("rank"), term / 1000.0, weight);
        }
    }
}

#[test]
fn polynomials_are_those_of_numpy() {
    let golden = Golden::load();
    let (x, y) = (golden.f64s("fit.x"), golden.f64s("fit.y"));
    for degree in 1..=3 {
        let expected = &golden.expected["polynomial_fits_highest_power_first"][degree.to_string()];
        let found = fit_polynomial(degree, &x, &y).unwrap().powers_of_x();
        let expected = expected.as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let expected = expected.as_f64().unwrap();
            // Relative, since the leading coefficients are far below 1.
            assert!((found / expected - 1.0).abs() <= TOLERANCE, "degree {degree}: {found} is not {expected}");
        }
    }
}

#[test]
fn im_gde_and_mde_are_those_of_numpy() {
    let golden = Golden::load();
    for case in golden.cases() {
        let outputs = case.outputs("test_logits");
        let found = im(&outputs, &case.reference()).unwrap().value;
        case.compare("im", found, &case.extra["im"]);
        let found = gde(&outputs, &case.outputs("after_logits")).unwrap().value;
        case.compare("gde", found, &case.extra["gde"]);
        let found = mde(&outputs, 1.0).unwrap().value;
        case.compare("mde", found, &case.extra["mde"]);
    }
}

#[test]
fn temperatures_are_those_of_a_search() {
    let golden = Golden::load();
    for case in golden.cases() {
        let (outputs, labels) = (case.outputs("val_logits"), case.labels("val_labels"));
        case.compare("ece", ece(&outputs, &labels).unwrap(), &case.extra["ece"]);
        let found = fit_temperature(&outputs, &labels).unwrap();
        case.compare("nll_before", found.nll_before, &case.extra["nll_before"]);
        case.compare("nll_after", found.nll_after, &case.extra["nll_after"]);
        let expected = case.extra["temperature"].as_f64().unwrap();
        let error = (found.value / expected - 1.0).abs();
        assert!(error <= TEMPERATURE_TOLERANCE, "{found:?} is not {expected}");
    }
}

#[test]
fn nuclear_norms_are_those_of_a_singular_value_decomposition() {
    let golden = Golden::load();
    for case in golden.cases() {
        let outputs = case.outputs("test_logits");
        let found = nuclear_norm(&outputs).unwrap().value;
        case.compare("nuclear_norm", found, &case.extra["nuclear_norm"]);
        let first: Vec<f32> = outputs.rows().take(30).flatten().copied().collect();
        let first = Outputs::new(first, outputs.classes()).unwrap();
        let found = nuclear_norm(&first).unwrap().value;
        let expected = &case.extra["nuclear_norm_first_30"];
        case.compare("nuclear_norm_first_30", found, expected);
    }
}

#[test]
fn mano_and_dispersion_are_those_of_numpy() {
    let golden = Golden::load();
    for case in golden.cases() {
        let outputs = case.outputs("test_logits");
        // A quarter is a power of two, so scaled logits are exact.
        for (what, outputs) in [("mano_sharpened", outputs.scaled(0.25)), ("mano", outputs)] {
            let found = mano(&outputs, &ManoConfig::published()).unwrap().value;
            case.compare(what, found, &case.extra[what]["score"]);
        }
    }
    let embeddings = Embeddings::new(golden.f32s("embed.points"), 24).unwrap();
    let found = dispersion(&embeddings, &golden.labels("embed.labels"), 6).unwrap();
    let expected = golden.extra["dispersion"].as_f64().unwrap();
    close("dispersion", found.value, expected);
}
