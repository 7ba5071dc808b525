use super::*;
use crate::{ExpandOptions, expand};

const GOOD: &str = r#"
[study]
name = "small"
question = "how good?"
[[models]]
name = "a"
weights = "${MODELS}/a.safetensors"
[[calibrations]]
name = "half"
data = "${DATA}/x.tar#first-half:0"
[[datasets]]
name = "c"
data = "${DATA}/x.tar#second-half:0"
clean = true
corruptions = ["c", "cifar-c-bar", "fog"]
severities = [1, 5]
"#;

/// What is said about a plan with one thing changed, causes included.
fn refused(change: &str, to: &str) -> String {
    assert!(GOOD.contains(change), "{change}");
    let text = GOOD.replace(change, to);
    let plan = Plan::parse(&text).and_then(|plan| expand(&plan, &ExpandOptions::default()));
    let error = plan.expect_err("it is wrong");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[test]
fn corruptions_and_sets_are_expanded() {
    let plan = Plan::parse(GOOD).unwrap();
    let units = expand(&plan, &ExpandOptions::default()).unwrap();
    // `fog` is one of the 15.
    assert_eq!(units.len(), 1 + (15 + 10) * 2);
    let names: Vec<String> = units.iter().map(|unit| unit.data.name()).collect();
    assert_eq!(names[0], "x.tar#second-half:0");
    assert!(names.contains(&"x.tar#second-half:0@gaussian_noise:5".to_owned()));
    let mut keys: Vec<&str> = units.iter().map(|unit| unit.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), units.len());
}

#[test]
fn errors_say_where_and_what_was_expected() {
    for (change, to, parts) in [
        ("question =", "qestion =", &["line 4", "column 1", "qestion", "question"][..]),
        ("[study]", "[study", &["line 2"]),
        ("\"half\"", "\"half\"\nmodels = [\"b\"]", &["line 10", "`b`", "`a`"]),
        ("\"fog\"", "\"fogg\"", &["fogg", "fog"]),
        ("[1, 5]", "[1, 9]", &["9"]),
        ("clean = true", "dataset = \"imagnet-c\"", &["imagnet-c", "imagenet-c"]),
        ("\"${DATA}/x.tar#first-half:0\"", "\"x\"\npublished = \"papr\"", &["papr", "paper-"]),
        ("\"half\"", "\"half\"\nlimit = -1", &["line 10"]),
    ] {
        let text = refused(change, to);
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

#[test]
fn keys_do_not_depend_on_the_rest_of_the_plan() {
    let keys = |text: &str| -> Vec<String> {
        let units = expand(&Plan::parse(text).unwrap(), &ExpandOptions::default()).unwrap();
        units.into_iter().map(|unit| unit.key).collect()
    };
    let few = keys(&GOOD.replace("\"c\", \"cifar-c-bar\", ", ""));
    let all = keys(GOOD);
    assert!(few.iter().all(|key| all.contains(key)));
}

#[test]
fn keys_tell_the_storage_step_unless_it_is_none() {
    let keys = |storage: &str| -> Vec<String> {
        let text = GOOD.replace("question =", &format!("{storage}\nquestion ="));
        let units = expand(&Plan::parse(&text).unwrap(), &ExpandOptions::default()).unwrap();
        units.into_iter().map(|unit| unit.key).collect()
    };
    let [published, none, jpeg] = [keys(""), keys("storage = \"none\""), keys("storage = \"jpeg85\"")];
    for (unit, key) in published.iter().enumerate() {
        assert!(*key != none[unit] && none[unit] != jpeg[unit] && *key != jpeg[unit]);
    }
    let text = refused("question =", "storage = \"png\"\nquestion =");
    assert!(text.contains("png") && text.contains("jpeg85"), "{text}");
}

#[test]
fn committed_records_belong_to_units_of_their_plans() {
    let studies = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
    for name in ["cifar100_analyses", "tiny_imagenet", "tiny_imagenet_resnet50"] {
        let plan = std::fs::read_to_string(format!("{studies}/plans/{name}.toml")).unwrap();
        let units = expand(&Plan::parse(&plan).unwrap(), &ExpandOptions::default()).unwrap();
        let keys: Vec<&str> = units.iter().map(|unit| unit.key.as_str()).collect();
        let records = std::fs::read_to_string(format!("{studies}/{name}/records.jsonl")).unwrap();
        let mut found = 0;
        for line in records.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            if let Some(unit) = record["protocol"]["unit"].as_str() {
                assert!(keys.contains(&unit), "{name}: {unit}");
                found += 1;
            }
        }
        assert!(found > 50, "{name}: {found}");
    }
}
