use crate::run::{Outcome, flipcast};
use crate::scratch::Scratch;
use crate::tiny_model::{NAMES, write_model};
use flipcast_record::{Protocol, RecordStore, RunRecord, Timing};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Adapts a small network to four pictures and records it.
fn recorded(scratch: &Scratch, model: &str, more: &[&str]) -> Outcome {
    let (data, record) = (scratch.path("data"), scratch.path("runs.jsonl"));
    let fixed =
        ["adapt", "--model", model, "--data", &data, "--threads", "1", "--batch-size", "2", "--record", &record];
    flipcast(&[&fixed, more].concat())
}

/// Two recorded runs, and their keys.
fn scene(name: &str) -> (Scratch, String, [String; 2]) {
    let scratch = Scratch::with_pictures(name, 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    recorded(&scratch, &model, &["--method", "tent"]).expect(0, &[]).prints(&["record       ", ", key "]);
    recorded(&scratch, &model, &["--method", "tent", "--lr", "0.001", "--seed", "3"]).expect(0, &[]);
    let text = fs::read_to_string(scratch.path("runs.jsonl")).expect("written");
    let keys: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["key"].to_string())
        .map(|key| key.trim_matches('"').to_owned())
        .collect();
    let keys = keys.try_into().expect("two runs");
    (scratch, model, keys)
}

#[test]
fn a_recorded_run_is_not_repeated() {
    let (scratch, model, keys) = scene("runs-recorded");
    let before = fs::read(scratch.path("runs.jsonl")).expect("written");
    recorded(&scratch, &model, &["--method", "tent"])
        .expect(0, &["recorded as", &keys[0], "not repeated"])
        .prints(&["images       4, 2 steps"]);
    assert_eq!(fs::read(scratch.path("runs.jsonl")).expect("there"), before);
    let json = recorded(&scratch, &model, &["--method", "tent", "--json"]).expect(0, &[]);
    let object: Value = serde_json::from_str(&json.stdout).expect("one object");
    let first: Value = recorded_object(&scratch, &model);
    assert_eq!(object["model"], first["model"], "a run has one name, whether made or remembered");
    // Predictions are not recorded, so that they are made anew; the record stays as it is.
    let out = scratch.path("out.csv");
    recorded(&scratch, &model, &["--method", "tent", "--out", &out]).expect(0, &[]);
    assert!(fs::metadata(&out).is_ok());
    assert_eq!(fs::read(scratch.path("runs.jsonl")).expect("there"), before);
}

/// The object of the same run where it is not recorded.
fn recorded_object(scratch: &Scratch, model: &str) -> Value {
    let args = ["adapt", "--model", model, "--data", &scratch.path("data"), "--method", "tent", "--json"];
    let made = flipcast(&args).expect(0, &[]);
    serde_json::from_str(&made.stdout).expect("one object")
}

#[test]
fn networks_of_one_architecture_are_told_apart() {
    let (scratch, _, _) = scene("runs-networks");
    let other = write_model(&scratch, "other", 2, &json!(NAMES));
    recorded(&scratch, &other, &["--method", "tent"]).expect(0, &[]);
    let file = scratch.path("runs.jsonl");
    let models = || {
        let listed = flipcast(&["runs", "list", &file]).expect(0, &[]);
        let names =
            |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).nth(2).expect("a model").trim().to_owned();
        listed.stdout.lines().skip(1).map(names).collect::<Vec<String>>()
    };
    let [one, same, another] = &models()[..] else { panic!("three runs") };
    assert_eq!(one, same);
    assert!(one != another && one.starts_with("cifar_resnet20 ") && another.starts_with("cifar_resnet20 "), "{one}");
    // A run that knows the weights by a name lends it to those that do not.
    let mut store = RecordStore::open(Path::new(&file)).expect("records");
    let weights = store.iter().next().expect("a record").protocol.get("model").expect("a model")["weights"].clone();
    let named = json!({"name": "tiny.pets", "weights_sha256": weights, "num_classes": 2});
    let protocol = Protocol::new("estimate").with("model", &named).expect("JSON");
    store.append(RunRecord::new(protocol, json!({}), Timing { created: 1, seconds: 1.0 })).expect("writable");
    drop(store);
    assert_eq!(models(), ["tiny.pets", "tiny.pets", another, "tiny.pets"]);
}

#[test]
fn runs_are_listed_shown_and_compared() {
    let (scratch, _, [one, two]) = scene("runs-shown");
    let file = scratch.path("runs.jsonl");
    flipcast(&["runs", "list", &file]).expect(0, &[]).prints(&[
        "key",
        "accuracy",
        &one,
        &two,
        "adapt",
        "cifar_resnet20",
        "tent",
        &scratch.path("data"),
    ]);
    let none = flipcast(&["runs", "list", &file, "--kind", "estimate"]).expect(0, &[]);
    assert_eq!(none.stdout.lines().count(), 1);
    flipcast(&["runs", "show", &file, &one[..10]]).expect(0, &[]).prints(&[
        &one,
        "settings",
        "stream.batch_size",
        "result",
        "flip_rate",
    ]);
    let json = flipcast(&["runs", "show", &file, &one, "--json"]).expect(0, &[]);
    let record: Value = serde_json::from_str(&json.stdout).expect("one object");
    assert_eq!((&record["format"], &record["kind"]), (&json!(2), &json!("adapt")));
    flipcast(&["runs", "diff", &file, &one, &two]).expect(0, &[]).prints(&[
        "method.settings.optimiser.sgd.lr",
        "0.00025",
        "0.001",
        "stream.order_seed",
    ]);
    flipcast(&["runs", "diff", &file, &one, &one])
        .expect(0, &[])
        .prints(&["no difference in settings", "no difference in results"]);
}

#[test]
fn keys_and_files_that_are_not_there_are_refused() {
    let (scratch, _, [one, _]) = scene("runs-refused");
    let file = scratch.path("runs.jsonl");
    flipcast(&["runs", "show", &file, "zz"]).expect(2, &["no run with key `zz`", "runs list"]);
    flipcast(&["runs", "show", &file, ""]).expect(2, &["2 runs of", "start with ``"]);
    let missing = scratch.path("none.jsonl");
    flipcast(&["runs", "list", &missing]).expect(2, &["cannot read", "none.jsonl"]);
    let text = fs::read_to_string(&file).expect("written");
    scratch.write("newer.jsonl", text.replace("\"format\":2", "\"format\":3").as_bytes());
    flipcast(&["runs", "list", &scratch.path("newer.jsonl")])
        .expect(2, &["line 1", "has format 3", "hint: use the newer flipcast"]);
    scratch.write("changed.jsonl", text.replace(&one, "0123456789abcdef").as_bytes());
    flipcast(&["runs", "list", &scratch.path("changed.jsonl")]).expect(2, &["has key `0123456789abcdef`", &one]);
    scratch.write("changed.jsonl", text.replace("\"labelled\":4,", "\"labelled\":3,").as_bytes());
    flipcast(&["runs", "list", &scratch.path("changed.jsonl")])
        .expect(2, &["line 1", "has checksum", "hint: the line was changed"]);
}

#[test]
fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let scratch = Scratch::with_pictures("runs-foreign", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let notes = scratch.path("notes.txt");
    scratch.write("notes.txt", b"my notes");
    let refused = ["notes.txt` is no record file: it begins with `my notes`", "left as it is"];
    flipcast(&["adapt", "--model", &model, "--data", &scratch.path("data"), "--method", "bn", "--record", &notes])
        .expect(2, &refused);
    flipcast(&["runs", "list", &notes]).expect(2, &refused);
    flipcast(&["report", &notes, "--out", &scratch.path("report.html")]).expect(2, &refused);
    assert_eq!(fs::read_to_string(&notes).expect("there"), "my notes");
}
