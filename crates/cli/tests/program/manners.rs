//! What all commands have in common: early refusals, progress, completions, defaults.

use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model, write_weights};
use flipcast_models::Model;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

#[test]
fn a_misspelt_second_dataset_is_noticed_before_any_work() {
    let scratch = Scratch::with_pictures("second-typo", 32);
    let tiny = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let other = write_model(&scratch, "other", 2, &json!(NAMES));
    let (good, typo) = (scratch.path("data"), scratch.path("dta"));
    let data = ["--data", &good, "--data", &typo];
    let demo_model = format!("{ASSETS}/resnet20.fashion_mnist.safetensors");
    let calibration = format!("{ASSETS}/calibration.json");
    let commands: [&[&str]; 4] = [
        &["estimate", "--model", &demo_model, "--calibration", &calibration, "--labels", "none"],
        &["agree", "--model", &tiny, "--other", &other],
        &["analyse", "phases", "--model", &tiny, "--steps", "1"],
        &["analyse", "omission", "--model", &tiny, "--steps", "1", "--top-k", "1"],
    ];
    for command in commands {
        let record = scratch.path("records.jsonl");
        let outcome = flipcast(&[command, &data[..], &["--record", &record]].concat());
        let outcome = outcome.expect(2, &["dta"]);
        assert_eq!(outcome.stdout, "", "{command:?}");
        assert_eq!(fs::read_to_string(&record).unwrap_or_default(), "", "{command:?}");
    }
}

#[test]
fn commands_for_one_dataset_refuse_a_second_one() {
    let scratch = Scratch::with_pictures("one-dataset", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let data = scratch.path("data");
    let data = ["--model", &model, "--data", &data, "--data", &data];
    flipcast(&[&["adapt", "--method", "bn"], &data[..]].concat()).expect(2, &["--data is given 2 times"]);
    flipcast(&[&["calibrate"], &data[..]].concat()).expect(2, &["--data is given 2 times"]);
}

#[test]
fn a_limit_is_an_even_sample_everywhere() {
    let scratch = Scratch::new("even-limit");
    for number in 0..40 {
        scratch.write(&format!("data/{}/{number:02}.jpg", NAMES[number / 20]), &picture(32, number));
    }
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let (data, out) = (scratch.path("data"), scratch.path("out.csv"));
    let fixed = ["adapt", "--model", &model, "--data", &data, "--method", "source", "--order", "stored"];
    flipcast(&[&fixed[..], &["--limit", "4", "--out", &out]].concat()).expect(0, &[]);
    let text = fs::read_to_string(&out).expect("written");
    // Images are stored as cat/20 to cat/39, then dog/00 to dog/19: one of every ten.
    let ids: Vec<&str> = text.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    let tens: Vec<&str> = ids.iter().map(|id| &id[..5]).collect();
    assert_eq!(tens, ["cat/2", "cat/3", "dog/0", "dog/1"], "{ids:?}");
}

#[test]
fn a_transformer_adapts_at_the_same_rate_in_adapt_and_analyse() {
    let scratch = Scratch::new("vit-rate");
    for number in 0..16 {
        scratch.write(&format!("data/{}/{number}.jpg", NAMES[number % 2]), &picture(64, number));
    }
    let model = Model::random("vit_tiny_p8", 2, 1).expect("a known architecture");
    let card = json!({
        "flipcast_model": 1,
        "architecture": "vit_tiny_p8",
        "classes": NAMES,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.25, 0.25, 0.25],
        "resize": "none",
        "crop": 64,
        "interpolation": "bilinear",
    });
    let model = write_weights(&scratch, "vit", &model, &card);
    let data = scratch.path("data");
    let settings = |command: &[&str], file: &str| {
        let record = scratch.path(file);
        let fixed = ["--model", &model, "--data", &data, "--batch-size", "4", "--steps", "1", "--record", &record];
        flipcast(&[command, &fixed[..]].concat()).expect(0, &[]);
        let text = fs::read_to_string(&record).expect("written");
        let record: Value = serde_json::from_str(text.lines().next().expect("a record")).expect("JSON");
        let found = find(&record["protocol"], "lr").cloned();
        found.unwrap_or_else(|| panic!("no learning rate in {}", record["protocol"]))
    };
    let adapted = settings(&["adapt", "--method", "tent"], "adapt.jsonl");
    let omission = ["analyse", "omission", "--method", "tent", "--top-k", "0", "--every", "1", "--holdout", "4"];
    let analysed = settings(&omission, "omission.jsonl");
    assert_eq!(adapted, analysed);
}

/// The first field called `name`.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.values().find_map(|value| find(value, name)))
}

#[test]
fn progress_is_told_as_asked_for() {
    let scratch = Scratch::with_pictures("progress", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let data = scratch.path("data");
    let fixed = ["adapt", "--model", &model, "--data", &data, "--method", "bn"];
    for (how, told) in [("auto", false), ("always", true), ("never", false), ("plain", true)] {
        let outcome = flipcast(&[&fixed[..], &["--progress", how]].concat()).expect(0, &[]);
        assert_eq!(outcome.stderr.contains("adapting: "), told, "{how}: {}", outcome.stderr);
    }
    flipcast(&[&fixed[..], &["--progress", "loud"]].concat()).expect(2, &["auto, always, never, plain"]);
    flipcast(&[&fixed[..], &["--progress", "plain", "--quiet"]].concat()).expect(2, &["cannot be used with"]);
    flipcast(&["data", "check", &data, "--progress", "plain"]).expect(0, &["checking"]);
}

#[test]
fn quiet_leaves_out_every_note() {
    let scratch = Scratch::with_pictures("quiet", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    // Notes about the model and the images, and what is told of the run.
    scratch.write("tiny.json", b"{\"somebody\": \"else's\"}");
    scratch.write("data/cat/z.heic", b"not read");
    let (data, out) = (scratch.path("data"), scratch.path("out"));
    let adapt = ["adapt", "--model", &model, "--data", &data, "--method", "bn"];
    let adapt = [&adapt[..], &["--mean", "0.5", "--std", "0.25", "--crop", "32", "--resize", "none"]].concat();
    let corrupt = ["corrupt", "--data", &data, "--out", &out, "--set", "imagenet-c", "--corruption", "fog"];
    let corrupt = [&corrupt[..], &["--resize-crop", "none", "--severity", "1"]].concat();
    for command in [&adapt, &corrupt] {
        let told = flipcast(command).expect(0, &[]);
        assert!(told.stderr.contains("note: "), "{}", told.stderr);
        let quiet = flipcast(&[&command[..], &["--quiet"]].concat()).expect(0, &[]);
        assert_eq!(quiet.stderr, "");
    }
}

#[test]
fn a_missing_calibration_is_told_with_its_neighbours() {
    let scratch = Scratch::new("calibration-typo");
    scratch.write("resnet.json", b"{}");
    let estimate = |calibration: &str| {
        flipcast(&["estimate", "--model", "m.safetensors", "--data", "d", "--calibration", calibration])
    };
    estimate(&scratch.path("resnt.json")).expect(2, &["resnt.json` does not exist", "`resnet.json`"]);
    estimate("paper-resnet5").expect(2, &["`paper-resnet5` does not exist", "`paper-resnet50`"]);
    let advise = ["advise", "--model", "m.safetensors", "--data", "d", "--calibration", "paper-resnet50"];
    flipcast(&advise).expect(2, &["`paper-resnet50` is one of the paper's fits", "`flipcast calibrate`"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_stream_that_takes_nothing_changes_no_exit_code() {
    let scratch = Scratch::with_pictures("stderr-full", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let (data, record) = (scratch.path("data"), scratch.path("runs.jsonl"));
    let (tree, bad) = (scratch.path("tree"), scratch.path("bad"));
    scratch.write("bad/cat/torn.jpg", b"no picture");
    let adapt = ["adapt", "--model", &model, "--method", "bn", "--progress", "always", "--data"];
    let recorded = [&adapt[..], &[&data, "--record", &record]].concat();
    let corrupt = ["corrupt", "--data", &data, "--out", &tree, "--set", "imagenet-c", "--corruption", "fog"];
    // The second call of the same run has a note, and corruptions for 224 pixels have another.
    let calls: [(&[&str], i32); 5] = [
        (&recorded, 0),
        (&recorded, 0),
        (&[&adapt[..], &[&bad]].concat(), 2),
        (&[&corrupt[..], &["--resize-crop", "none", "--severity", "1"]].concat(), 0),
        (&["runs", "list", "absent.jsonl"], 2),
    ];
    for (args, code) in calls {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there on Linux");
        let program = Command::new(env!("CARGO_BIN_EXE_flipcast")).args(args).stderr(full).output();
        assert_eq!(program.expect("the program starts").status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn no_command_writes_over_a_file_that_it_reads_or_writes() {
    let scratch = Scratch::with_pictures("overwritten", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    for name in ["c.json", "clean.npy", "truth.npy", "a.safetensors", "l.csv"] {
        scratch.write(name, name.as_bytes());
    }
    let (data, clean) = (scratch.path("data"), scratch.path("clean.npy"));
    let path = |name: &str| scratch.path(name);
    let (calibration, truth, vector, labels) =
        (path("c.json"), path("truth.npy"), path("a.safetensors"), path("l.csv"));
    let (card, dotted, new) = (path("tiny.json"), path("data/../clean.npy"), path("new"));
    let before = scratch.files(".");
    let adapt = ["adapt", "--model", &model, "--method", "bn", "--data"];
    let estimate = ["estimate", "--model", &model, "--data", &data, "--calibration", &calibration];
    let from_logits = ["calibrate", "--logits", &clean, "--truth", &truth, "--out"];
    let on_images = ["calibrate", "--model", &model, "--data", &data, "--out"];
    let advise = ["advise", "--model", &model, "--data", &data, "--calibration", &calibration, "--out"];
    let commands: [(&[&str], &[&str], &str); 13] = [
        (&adapt, &[&data, "--save-affine", &model], "which is the weight file"),
        (&adapt, &[&data, "--logits-out", &card], "which is the place of the model card of"),
        (&adapt, &[&data, "--affine", &vector, "--save-affine", &vector], "which is the adapted vector"),
        (&adapt, &[&clean, "--logits-out", &dotted], "which is the data"),
        (&adapt, &[&format!("{clean}@fog:3"), "--logits-out", &clean], "which is the data"),
        (&adapt, &[&data, "--out", &new, "--record", &new], "and so is `--out`"),
        (&estimate, &["--logits-out", &calibration], "which is the calibration"),
        (&estimate, &["--logits-out", &new, "--ask", "10", "--ask-out", &new], "and so is `--ask-out`"),
        (&estimate, &["--ask", "10", "--ask-out", &labels, "--labelled", &labels], "which is the file of labels"),
        (&from_logits, &[&clean], "which is the logits"),
        (&on_images, &[&clean, "--also", &clean], "which is the data"),
        (&on_images, &[&new, "--record", &new], "and so is `--out`"),
        (&advise, &[&calibration], "which is the calibration"),
    ];
    for (command, more, problem) in commands {
        flipcast(&[command, more].concat()).expect(2, &[problem, "hint: give another name, such as `--"]);
    }
    assert_eq!(scratch.files("."), before);
    // What is no plain file holds nothing that could be lost.
    let nowhere = ["--logits-out", "/dev/null", "--save-affine", "/dev/null"];
    flipcast(&[&adapt, &[data.as_str()][..], &nowhere].concat()).expect(0, &[]);
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        flipcast(&["completions", shell]).expect(0, &[]).prints(&["flipcast", "calibrate", "progress"]);
    }
    flipcast(&["completions", "csh"]).expect(2, &["bash"]);
}

#[test]
fn cargo_run_finds_one_program() {
    // README's first command names none: `cargo run` must find this one alone among the members it looks at.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("cargo's answer is JSON");
    let members = metadata["workspace_default_members"].as_array().expect("default members");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let targets = packages.filter(|package| members.contains(&package["id"])).flat_map(|package| {
        let targets = package["targets"].as_array().expect("targets");
        targets.iter().filter(|target| target["kind"] == json!(["bin"])).map(|target| &target["name"])
    });
    assert_eq!(targets.collect::<Vec<_>>(), ["flipcast"]);
}
