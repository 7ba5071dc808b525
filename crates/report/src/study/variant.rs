//! Telling apart what one model was estimated with.

use super::Subject;
use flipcast_record::RunRecord;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A model that was estimated in several ways is as many subjects, so that no mean mixes them: flips counted under several
/// protocols, or one protocol read with several calibrations.
pub(super) fn name_variants(sorted: &mut [(Subject, RunRecord)]) {
    // Only estimates know what their plan calls a protocol; other records of it are found by its settings.
    let mut known: BTreeMap<(String, String), String> = BTreeMap::new();
    for (subject, record) in sorted.iter() {
        if let (Some(name), Some(flips)) = (&subject.variant, record.protocol.get("flips")) {
            let place = (subject.network.clone(), flips.to_string());
            known.entry(place).or_insert_with(|| name.clone());
        }
    }
    let mut variants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut curves: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (subject, record) in sorted.iter_mut() {
        if subject.variant.is_none()
            && let Some(flips) = record.protocol.get("flips")
        {
            let place = (subject.network.clone(), flips.to_string());
            subject.variant = known.get(&place).cloned().or_else(|| flips_name(flips));
        }
        let names = variants.entry(subject.network.clone()).or_default();
        names.extend(subject.variant.clone());
        if record.kind == "estimates" {
            let names = curves.entry(subject.network.clone()).or_default();
            names.insert(subject.paper_fit.clone().unwrap_or_default());
        }
    }
    for (subject, record) in sorted {
        let several =
            |of: &BTreeMap<String, BTreeSet<String>>| of.get(&subject.network).is_some_and(|names| names.len() > 1);
        let mut model = subject.network.clone();
        if let (true, Some(name)) = (several(&variants), &subject.variant) {
            model += &format!(", {name}");
        }
        if let (true, Some(name)) = (record.kind == "estimates", &subject.paper_fit)
            && several(&curves)
        {
            model += &format!(", {name}");
        }
        subject.model = model;
    }
}

fn flips_name(flips: &Value) -> Option<String> {
    Some(flips.get("name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_record::{Protocol, Timing};
    use serde_json::json;

    fn models(records: &[(&str, Value)]) -> Vec<String> {
        let mut sorted: Vec<_> = records
            .iter()
            .map(|(kind, fields)| {
                let mut protocol = Protocol::new(kind)
                    .with("model", &json!({"name": "a"}))
                    .and_then(|p| p.with("data", &"x@fog:1"))
                    .expect("JSON");
                for (name, value) in fields.as_object().expect("an object") {
                    protocol = protocol.with(name, value).expect("JSON");
                }
                let timing = Timing { created: 1, seconds: 1.0 };
                let record = RunRecord::new(protocol, json!({}), timing);
                (Subject::of(&record), record)
            })
            .collect();
        name_variants(&mut sorted);
        sorted.into_iter().map(|(subject, _)| subject.model).collect()
    }

    #[test]
    fn protocols_of_one_model_are_kept_apart() {
        let estimates = |flips: &str| ("estimates", json!({"flips": {"name": flips}}));
        assert_eq!(models(&[estimates("paper")]), ["a"]);
        let both = [estimates("paper"), estimates("flipcast")];
        assert_eq!(models(&both), ["a, paper", "a, flipcast"]);
    }

    #[test]
    fn variants_of_one_base_are_kept_apart_and_found_by_their_settings() {
        let flips = |stop: usize| json!({"name": "code", "stops": [stop]});
        let records = [
            ("estimates", json!({"flips": flips(25), "variant": "steps-25"})),
            ("estimates", json!({"flips": flips(50), "variant": "steps-50"})),
            ("transfer", json!({"flips": flips(50)})),
        ];
        assert_eq!(models(&records), ["a, steps-25", "a, steps-50", "a, steps-50"]);
    }

    #[test]
    fn the_paper_s_curve_is_kept_apart_from_own_ones() {
        let records = [
            ("estimates", json!({"calibration": "paper-resnet50"})),
            ("estimates", json!({"calibration": "0123456789abcdef"})),
        ];
        assert_eq!(models(&records), ["a, paper-resnet50", "a"]);
    }
}
