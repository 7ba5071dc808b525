//! `flipcast analyse`, with the files of the demo and a tiny random model.

use crate::run::{Outcome, flipcast};
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

/// Arguments of an analysis of the demo's model.
fn demo_args(analysis: &str, data: &[&str], more: &[&str]) -> Vec<String> {
    let model = format!("{ASSETS}/resnet20.fashion_mnist.safetensors");
    let mut args = vec!["analyse", analysis, "--model", &model];
    for data in data {
        args.extend(["--data", data]);
    }
    args.extend(["--limit", "200", "--batch-size", "20"]);
    args.extend(more);
    args.into_iter().map(str::to_owned).collect()
}

fn run(args: &[String]) -> Outcome {
    flipcast(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines.map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

fn lines(path: &str) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// A record's protocol kind and result, by line.
fn records(path: &str) -> Vec<(Value, Value)> {
    let text = fs::read_to_string(path).expect("written");
    let records = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record per line");
        (record["protocol"].clone(), record["result"].clone())
    });
    records.collect()
}

#[test]
fn phases_are_printed_recorded_and_correlated() {
    let scratch = Scratch::new("phases");
    let record = scratch.path("runs.jsonl");
    let noisy: Vec<String> = (1..=4).map(|severity| format!("{ASSETS}@gaussian_noise:{severity}")).collect();
    let noisy: Vec<&str> = noisy.iter().map(String::as_str).collect();
    let more = [
        "--clean",
        ASSETS,
        "--clean-images",
        "150",
        "--steps",
        "4",
        "--images",
        "60",
        "--restarts",
        "2",
        "--record",
        &record,
    ];
    let args = demo_args("phases", &noisy, &more);
    run(&args).expect(0, &[]).prints(&[
        "60 images, 10 clusters",
        "phase 1 ends at step",
        "changes in phase 1 and phase 2",
        "silhouette rises in",
    ]);
    assert_eq!(lines(&record), 4);
    for (protocol, result) in records(&record) {
        assert_eq!(protocol["kind"], json!("phases"));
        assert_eq!(protocol["method"]["method"], json!("tent"));
        assert_eq!(protocol["checkpoints"], json!([0, 1, 2, 4]));
        let looks = result["checkpoints"].as_array().expect("checkpoints");
        assert_eq!(looks.len(), 4);
        for look in looks {
            for field in ["accuracy", "entropy", "flips", "silhouette", "shift_distance", "inertia"] {
                assert!(look[field].is_number(), "{field}");
            }
        }
    }
    let again = [args, vec!["--json".to_owned()]].concat();
    let seen = objects(&run(&again).expect(0, &[]).stdout);
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[0]["result"], records(&record)[0].1);
    assert!(seen[4]["correlations"].is_object());
    assert_eq!(lines(&record), 4, "from the records alone");
}

#[test]
fn omission_has_a_record_per_value() {
    let scratch = Scratch::new("omission");
    let record = scratch.path("runs.jsonl");
    let more = [
        "--top-k",
        "0,1,10",
        "--entropy",
        "0.5",
        "--steps",
        "4",
        "--every",
        "2",
        "--holdout",
        "40",
        "--record",
        &record,
    ];
    let data = format!("{ASSETS}@gaussian_noise:3");
    run(&demo_args("omission", &[&data], &more)).expect(0, &[]).prints(&[
        "100 images to adapt to",
        "top 10",
        "100.0%",
        "entropy 0.5",
    ]);
    let found = records(&record);
    let values: Vec<(Value, Value)> =
        found.iter().map(|(protocol, _)| (protocol["rule"].clone(), protocol["value"].clone())).collect();
    assert_eq!(values[1], (json!("top_k"), json!(1.0)));
    assert_eq!(values[3], (json!("entropy"), json!(0.5)));
    assert_eq!(found[0].1["curve"].as_array().expect("a curve").len(), 3);
    assert_eq!(found[0].1["dropped"], json!(0));
    assert_eq!(found[2].1["dropped"], json!(100), "ten classes in all");
}

#[test]
fn flips_and_maps_are_recorded() {
    let scratch = Scratch::new("flips-map");
    let record = scratch.path("runs.jsonl");
    let more = ["--steps", "3", "--images", "50", "--record", &record];
    let flips = demo_args("flips", &[ASSETS], &more);
    run(&flips).expect(0, &[]).prints(&["silhouette", "weighted"]);
    let more = [
        "--clean",
        ASSETS,
        "--clean-images",
        "100",
        "--steps",
        "2",
        "--points",
        "60",
        "--shown-classes",
        "4",
        "--perplexity",
        "8",
        "--record",
        &record,
    ];
    run(&demo_args("map", &[ASSETS], &more)).expect(0, &[]).prints(&["of 4 classes", "divergence"]);
    let found = records(&record);
    assert_eq!(found[0].0["kind"], json!("flips"));
    assert_eq!(found[0].0["method"]["method"], json!("rdumb"));
    assert!(found[0].1["flips"].is_number() && found[0].1["accuracy"].is_number());
    let map = &found[1].1;
    assert_eq!(found[1].0["kind"], json!("map"));
    let frames = map["frames"].as_array().expect("frames");
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[2]["class_means"].as_array().map(Vec::len), Some(4));
    let points = map["labels"].as_array().map(Vec::len);
    assert_eq!(frames[1]["points"].as_array().map(Vec::len), points);
}

#[test]
fn the_toy_needs_nothing() {
    let scratch = Scratch::new("toy");
    let record = scratch.path("toy.jsonl");
    let args = ["analyse", "toy", "--rounds", "20", "--record", &record];
    let text = flipcast(&args).expect(0, &[]).prints(&["purity", "drift"]).stdout;
    assert_eq!(flipcast(&args).expect(0, &[]).stdout, text);
    let found = records(&record);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1["panels"].as_array().map(Vec::len), Some(3));
    flipcast(&["analyse", "toy", "--rate", "2"]).expect(2, &["rate is 2", "0 to 1"]);
}

#[test]
fn unlabelled_pictures_and_bad_requests_are_told_apart() {
    let scratch = Scratch::new("analyse-bad");
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    for number in 0..12 {
        scratch.write(&format!("flat/{number}.jpg"), &picture(32, number));
    }
    let flat = scratch.path("flat");
    let analyse = |analysis: &str, more: &[&str]| {
        let fixed = ["analyse", analysis, "--model", &model, "--data", &flat];
        let small = ["--steps", "2", "--batch-size", "4"];
        flipcast(&[&fixed, &small[..], more].concat())
    };
    analyse("phases", &["--images", "10"]).expect(0, &[]).prints(&["without labels", "2 clusters"]);
    analyse("omission", &["--top-k", "1"]).expect(2, &["have no label", "hint:"]);
    analyse("omission", &["--entropy=-1"]).expect(2, &["--entropy is -1"]);
    analyse("phases", &["--checkpoints", "5"]).expect(2, &["up to 5", "--steps is 2"]);
    analyse("phases", &["--method", "eata"]).expect(2, &["`eata`", "--method eta"]);
    analyse("phases", &["--clusters", "13"]).expect(2, &["clusters is 13"]);
    analyse("phases", &["--restriction", "sixteen-class"]).expect(2, &["number of classes is 2"]);
    analyse("map", &["--perplexity", "30"]).expect(2, &["perplexity is 30", "hint:"]);
    analyse("phases", &["--clean", &flat]).expect(2, &["have no label"]);
}

#[test]
fn an_analysis_killed_in_the_middle_goes_on_where_it_was() {
    let scratch = Scratch::new("analyse-killed");
    let record = scratch.path("runs.jsonl");
    let data: Vec<String> = (1..=4).map(|s| format!("{ASSETS}@fog:{s}")).collect();
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    let more = ["--steps", "6", "--images", "60", "--restarts", "2", "--json", "--record", &record];
    let args = demo_args("phases", &data, &more);
    let mut child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let patience = Instant::now() + Duration::from_secs(120);
    while lines(&record) < 1 && Instant::now() < patience && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    let before = lines(&record);
    assert!(before >= 1, "{before} records");
    let kept = fs::read_to_string(&record).expect("written");
    let first = run(&args).expect(0, &[]).stdout;
    assert_eq!(lines(&record), 4, "none lost, none twice");
    let whole: Vec<&str> = kept.split_inclusive('\n').filter(|l| l.ends_with('\n')).collect();
    let after = fs::read_to_string(&record).expect("written");
    assert!(after.starts_with(&whole.concat()), "finished records stay");
    assert_eq!(run(&args).expect(0, &[]).stdout, first, "from the records alone");
}
