//! `flipcast calibrate` and `flipcast estimate` from files of logits, and the files of logits that commands write.

use crate::run::{Outcome, flipcast};
use crate::scratch::Scratch;
use flipcast_ground::SplitMix64;
use flipcast_images::table::{read_logits, write_npy};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");
const CLASSES: usize = 4;

/// Writes logits of images that a classifier tells apart with this sharpness, and their labels beside them.
fn write_cell(scratch: &Scratch, name: &str, images: usize, sharpness: f64) -> [String; 3] {
    let mut random = SplitMix64::new(SplitMix64::hash_text(name));
    let (mut logits, mut second, mut labels) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..images {
        let label = (random.uniform() * CLASSES as f64) as usize;
        for class in 0..CLASSES {
            let sharp = if class == label { sharpness } else { 0.0 };
            let seen = 2.0 * (sharp + random.normal());
            logits.push(seen as f32);
            second.push((seen + random.normal()) as f32);
        }
        labels += &format!("{label}\n");
    }
    let paths = ["npy", "labels.csv", "second.npy"].map(|ending| scratch.path(&format!("{name}.{ending}")));
    write_npy(Path::new(&paths[0]), &logits, CLASSES).expect("writable");
    fs::write(&paths[1], labels).expect("writable");
    write_npy(Path::new(&paths[2]), &second, CLASSES).expect("writable");
    paths
}

fn object(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("an object")
}

/// Arguments that calibrate on clean images and three kinds of shift.
fn calibrate(scratch: &Scratch, second: bool, out: &str) -> Outcome {
    let [logits, truth, clean_second] = write_cell(scratch, "clean", 600, 3.0);
    let mut args: Vec<String> =
        ["calibrate", "--logits", &logits, "--truth", &truth, "--out", out].map(str::to_owned).to_vec();
    if second {
        args.extend(["--second-logits".to_owned(), clean_second]);
    }
    for (kind, sharpness) in [("fog:1", 2.5), ("fog:3", 1.5), ("night", 2.0), ("blur:2", 2.2)] {
        let [logits, truth, twice] = write_cell(scratch, &kind.replace(':', "-"), 600, sharpness);
        let third = if second { format!(",{twice}") } else { String::new() };
        args.extend(["--also-logits".to_owned(), format!("{kind}={logits},{truth}{third}")]);
    }
    flipcast(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn logits_of_labelled_cells_calibrate_and_new_ones_are_estimated() {
    let scratch = Scratch::new("outputs-alone");
    let [new, truth, second] = write_cell(&scratch, "new", 500, 1.9);
    for twice in [false, true] {
        let out = scratch.path(&format!("c{twice}.json"));
        let told = calibrate(&scratch, twice, &out).expect(0, &[]);
        told.prints(&[
            "outputs alone",
            "of 600 clean images right",
            "the combined estimate errs by",
            "with other class shares and sizes, kinds of shift unseen",
            "written to",
        ]);
        let mut args = vec!["estimate", "--logits", &new, "--calibration", &out];
        if twice {
            args.extend(["--second-logits", &second]);
        }
        let found = object(&flipcast(&[&args[..], &["--truth", &truth, "--json"]].concat()).expect(0, &[]));
        assert_eq!((&found["images"], &found["best"]), (&json!(500), &json!("combined")));
        let combined = &found["estimates"]["combined"];
        let number = |value: &Value| value.as_f64().expect("a number");
        let truth = number(&found["truth"]);
        assert!(number(&combined["low"]) <= truth && truth <= number(&combined["high"]), "{found}");
        for name in ["ac", "atc_mc_calibrated", "doc", "cott", "mano", "mde", "nuclear_norm"] {
            assert!(found["estimates"][name].is_object(), "{name}");
        }
        assert!(found["estimates"]["wf"].is_null() && found["estimates"]["aetta"].is_null());
        let told = flipcast(&args).expect(0, &[]).prints(&["new.npy: 500 images", "combined", "cot_calibrated"]);
        assert_eq!(told.stdout.contains("second look"), twice, "{}", told.stdout);
    }
    // Equal logits give equal bytes.
    let (again, first) = (scratch.path("again.json"), scratch.path("cfalse.json"));
    calibrate(&scratch, false, &again).expect(0, &[]);
    assert_eq!(fs::read(again).expect("written"), fs::read(first).expect("written"));
}

#[test]
fn clean_logits_alone_give_estimates_without_intervals() {
    let scratch = Scratch::new("outputs-clean");
    let [logits, truth, _] = write_cell(&scratch, "clean", 300, 3.0);
    let out = scratch.path("c.json");
    let told = flipcast(&["calibrate", "--logits", &logits, "--truth", &truth, "--out", &out]).expect(0, &[]);
    told.prints(&["intervals will span everything"]);
    let [new, ..] = write_cell(&scratch, "new", 300, 2.0);
    let told = flipcast(&["estimate", "--logits", &new, "--calibration", &out]).expect(0, &[]);
    told.prints(&["0.0% to 100.0%", "no_known_shifts"]);
}

#[test]
fn wrong_files_and_options_are_refused_with_what_would_help() {
    let scratch = Scratch::new("outputs-wrong");
    let [logits, truth, second] = write_cell(&scratch, "clean", 50, 3.0);
    let out = scratch.path("c.json");
    let calibrate = |more: &[&str]| {
        let fixed = ["calibrate", "--logits", &logits, "--out", &out];
        flipcast(&[&fixed[..], more].concat())
    };
    calibrate(&[]).expect(2, &["--truth"]);
    calibrate(&["--truth", &truth, "--model", "x"]).expect(2, &["--model", "cannot be used"]);
    calibrate(&["--truth", &scratch.path("absent.npy")]).expect(2, &["absent.npy"]);
    calibrate(&["--truth", &logits]).expect(2, &["the shape of the labels"]);
    calibrate(&["--truth", &truth, "--also-logits", "fog"]).expect(2, &["`fog`", "hint:", "fog3.npy"]);
    let cell = format!("clean={logits},{truth}");
    calibrate(&["--truth", &truth, "--also-logits", &cell]).expect(2, &["called `clean`", "hint:"]);
    let cell = format!("fog={logits},{truth},{second}");
    calibrate(&["--truth", &truth, "--also-logits", &cell]).expect(2, &["looked at twice", "hint:"]);
    let short = scratch.path("short.csv");
    fs::write(&short, "0\n1\n").expect("writable");
    calibrate(&["--truth", &short]).expect(2, &["short.csv", "2 class numbers", "50"]);
    assert!(!Path::new(&out).exists(), "nothing half-written stays");
    flipcast(&["calibrate", "--out", &out]).expect(2, &["--model", "--data"]);
    flipcast(&["estimate", "--calibration", &out]).expect(2, &["--model", "--data"]);

    calibrate(&["--truth", &truth]).expect(0, &[]);
    let estimate = |calibration: &str, more: &[&str]| {
        flipcast(&[&["estimate", "--logits", &logits, "--calibration", calibration], more].concat())
    };
    let narrow = scratch.path("narrow.npy");
    write_npy(Path::new(&narrow), &[0.0, 2.0, 1.0, 5.0], 2).expect("writable");
    flipcast(&["estimate", "--logits", &narrow, "--calibration", &out])
        .expect(2, &["narrow.npy", "the new images have outputs of 2 classes, but the clean images have 4"]);
    write_npy(Path::new(&narrow), &[0.0, 2.0, 1.0, 5.0, 1.0, 2.0, f32::NAN, 3.0], 4).expect("writable");
    flipcast(&["estimate", "--logits", &narrow, "--calibration", &out])
        .expect(2, &["narrow.npy", "the logit of class 2 for image 1 is NaN"]);
    estimate(&out, &["--second-logits", &second]).expect(2, &["looked at twice", "once", "hint:"]);
    let network = format!("{ASSETS}/calibration.json");
    let kinds = "hint: outputs alone go with a calibration made of outputs, a network with one made of images: `--logits FILE` with";
    let told = estimate(&network, &[])
        .expect(2, &["is a calibration of a network, expected a calibration of outputs alone", kinds]);
    assert!(!told.stderr.contains("refit"), "{}", told.stderr);
    estimate(&scratch.path("absent.json"), &[]).expect(2, &["absent.json", "hint:"]);
    let (model, data) = (format!("{ASSETS}/resnet20.fashion_mnist.safetensors"), ASSETS);
    flipcast(&["estimate", "--model", &model, "--data", data, "--calibration", &out])
        .expect(2, &["is a calibration of outputs alone, expected a calibration of a network", kinds]);
    flipcast(&["calibrate", "refit", &out, "--out", &scratch.path("again.json")])
        .expect(2, &["a calibration of outputs alone", "hint: make it again", "`flipcast calibrate --logits`"]);
    #[cfg(feature = "serve")]
    flipcast(&["serve", "--calibration", &network, "--state", &scratch.path("state")])
        .expect(2, &["is a calibration of a network", kinds]);
}

#[test]
fn logits_that_commands_write_give_the_estimates_of_the_network() {
    let scratch = Scratch::new("outputs-written");
    let (model, calibration) =
        (format!("{ASSETS}/resnet20.fashion_mnist.safetensors"), format!("{ASSETS}/calibration.json"));
    let (source, batch) = (scratch.path("source.npy"), scratch.path("batch.npy"));
    let network = ["estimate", "--model", &model, "--calibration", &calibration, "--data", ASSETS, "--limit", "200"];
    let seen = object(&flipcast(&[&network[..], &["--json", "--logits-out", &source]].concat()).expect(0, &[]));
    let adapt = ["adapt", "--model", &model, "--data", ASSETS, "--limit", "200", "--method", "bn", "--order", "stored"];
    flipcast(&[&adapt[..], &["--logits-out", &batch]].concat()).expect(0, &[]);
    let [source_logits, batch_logits] = [&source, &batch].map(|path| read_logits(Path::new(path)).expect("written"));
    assert_eq!((source_logits.values.len(), source_logits.columns), (2000, 10));
    assert_eq!((batch_logits.values.len(), batch_logits.columns), (2000, 10));
    assert_ne!(source_logits, batch_logits);

    // Labels do not matter for what is compared here.
    let truth = scratch.path("labels.csv");
    fs::write(&truth, (0..200).map(|i| format!("{}\n", i % 10)).collect::<String>()).expect("writable");
    let out = scratch.path("c.json");
    flipcast(&["calibrate", "--logits", &source, "--truth", &truth, "--out", &out]).expect(0, &[]);
    let alone = object(&flipcast(&["estimate", "--logits", &source, "--calibration", &out, "--json"]).expect(0, &[]));
    for name in ["ac", "cot"] {
        assert_eq!(alone["estimates"][name]["accuracy"], seen["estimates"][name]["accuracy"], "{name}");
    }
}

#[test]
fn options_about_logits_and_about_networks_are_told_apart() {
    let scratch = Scratch::new("outputs-mixed");
    let [logits, truth, second] = write_cell(&scratch, "clean", 50, 3.0);
    let network = ["--model", "net", "--data", "images"];
    let cell = format!("fog={logits},{truth}");
    for command in [&["calibrate"][..], &["estimate", "--calibration", "c.json"]] {
        for about_logits in [["--truth", &truth], ["--second-logits", &second], ["--also-logits", &cell]] {
            if command[0] == "estimate" && about_logits[0] == "--also-logits" {
                continue;
            }
            let tip = format!("tip: `{}` goes with `--logits`", about_logits[0]);
            flipcast(&[command, &network, &about_logits].concat()).expect(2, &["cannot be used with", &tip]);
        }
        let both = [command, &network, &["--logits", &logits, "--truth", &truth]].concat();
        flipcast(&both).expect(2, &["tip: give `--logits`, or `--model` and `--data`"]);
    }
    let refused = |command: &[&str], option: &[&str]| {
        let tip = format!("tip: `{}` goes with `--model` and `--data`", option[0]);
        let given = [command, &["--logits", &logits, "--truth", &truth], option].concat();
        flipcast(&given).expect(2, &["cannot be used with", &tip, "taken as it is"]);
    };
    let options: [&[&str]; 6] = [
        &["--limit", "10"],
        &["--dataset", "cifar10"],
        &["--split", "test"],
        &["--labels", "none"],
        &["--on-bad-image", "skip"],
        &["--classes", "4"],
    ];
    for option in options {
        refused(&["estimate", "--calibration", "c.json"], option);
        refused(&["calibrate"], option);
    }
    for option in [&["--part", "p"][..], &["--sample", "9"], &["--ask-out", "a.csv"]] {
        refused(&["estimate", "--calibration", "c.json"], option);
    }
    for option in [&["--advise"][..], &["--no-restore"], &["--training-crop", "padded:4"]] {
        refused(&["calibrate"], option);
    }
    let shard = ["estimate", "--calibration", "c.json", "--shard", "1/2", "--part", "p", "--ask-out", "a.csv"];
    flipcast(&[&shard[..], &network].concat()).expect(2, &["--ask-out", "cannot be used with"]);
    let mapped = ["estimate", "--calibration", "c.json", "--class-map", "16-class-imagenet", "--any-size"];
    flipcast(&[&mapped[..], &network].concat()).expect(2, &["--any-size", "cannot be used with"]);
}

#[test]
fn probabilities_are_no_logits() {
    let scratch = Scratch::new("outputs-probs");
    let [logits, truth, _] = write_cell(&scratch, "clean", 60, 3.0);
    let table = read_logits(Path::new(&logits)).expect("written");
    let softmax = |row: &[f32]| {
        let powers: Vec<f32> = row.iter().map(|z| z.exp()).collect();
        powers.iter().map(|power| power / powers.iter().sum::<f32>()).collect::<Vec<f32>>()
    };
    let probs: Vec<f32> = table.values.chunks(CLASSES).flat_map(softmax).collect();
    let (soft, out) = (scratch.path("soft.npy"), scratch.path("c.json"));
    write_npy(Path::new(&soft), &probs, CLASSES).expect("writable");
    let parts = ["soft.npy", "all 60 rows are probabilities", "expected logits", "hint:", "logarithms"];
    flipcast(&["calibrate", "--logits", &soft, "--truth", &truth, "--out", &out]).expect(2, &parts);
    let cell = format!("fog={soft},{truth}");
    let calibrate = ["calibrate", "--logits", &logits, "--truth", &truth, "--out", &out];
    flipcast(&[&calibrate[..], &["--also-logits", &cell]].concat()).expect(2, &parts);
    flipcast(&calibrate).expect(0, &[]);
    flipcast(&["estimate", "--logits", &soft, "--calibration", &out]).expect(2, &parts);
}
