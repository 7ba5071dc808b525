//! `ccc.json`: constants between severities, walks and the order of pairs.

use flipcast_corrupt::ccc::{AccuracyTable, Difficulty, PairSequence, QuarterSeverity, constants_at};

use crate::bank::{load_json, number, numbers, text};

const LEVELS: [(&str, Difficulty); 3] = [("40", Difficulty::Easy), ("20", Difficulty::Medium), ("0", Difficulty::Hard)];

/// The golden lists shorten two names.
fn published(name: &str) -> &str {
    match name {
        "elastic" => "elastic_transform",
        "jpeg" => "jpeg_compression",
        other => other,
    }
}

#[test]
fn constants_at_every_quarter_are_those_of_the_reference() {
    let golden = load_json("ccc.json");
    let severities = numbers(&golden["severities"]);
    let mut checked = 0;
    for (name, rows) in golden["constants"].as_object().expect("an object") {
        for (&severity, row) in severities.iter().zip(rows.as_array().expect("a list")) {
            let severity = QuarterSeverity::new(severity).expect("quarters");
            assert_eq!(constants_at(name, severity).expect("listed"), numbers(row), "{name} at {severity}");
            checked += 1;
        }
    }
    assert_eq!(checked, 15 * 20);
}

#[test]
fn walks_are_those_of_the_reference() {
    for example in load_json("ccc.json")["path_examples"].as_array().expect("a list") {
        let percent = example["accuracy"].as_array().expect("a list").iter().flat_map(numbers).collect();
        let table = AccuracyTable::new(percent).expect("21 x 21");
        for (target, walk) in example["walks"].as_object().expect("an object") {
            let found: Vec<Vec<f64>> = table
                .walk(target.parse().expect("a number"))
                .iter()
                .map(|(a, b)| vec![a.quarters() as f64, b.quarters() as f64])
                .collect();
            let expected: Vec<Vec<f64>> = walk.as_array().expect("a list").iter().map(numbers).collect();
            assert_eq!(found, expected, "target {target}");
        }
    }
}

#[test]
fn corruptions_and_pair_sequences_are_those_of_the_reference() {
    let golden = load_json("ccc.json");
    for (key, difficulty) in LEVELS {
        let names: Vec<&str> =
            golden["noises"][key].as_array().expect("a list").iter().map(|name| published(text(name))).collect();
        assert_eq!(difficulty.corruptions(), names);
        assert_eq!(difficulty.target_percent(), key.parse::<f64>().expect("a number"));
        for seed in 43..=45 {
            let pairs = golden["pair_sequences"][key][seed.to_string()].as_array().expect("a list");
            for (found, expected) in PairSequence::new(difficulty, seed).zip(pairs) {
                assert_eq!([found.first, found.second], [0, 1].map(|i| published(text(&expected[i]))));
            }
            assert_eq!(pairs.len(), 40);
        }
    }
    assert!(number(&golden["severities"][0]) > 0.0);
}
