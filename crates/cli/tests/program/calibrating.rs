//! `flipcast calibrate`: what it refuses before any work, and what is said of its artefact elsewhere.

use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use std::path::Path;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

/// The built-in network.
fn network() -> String {
    format!("{ASSETS}/resnet20.fashion_mnist.safetensors")
}

#[test]
fn one_kind_of_shift_is_refused_before_any_work() {
    let scratch = Scratch::new("calibrate-one-kind");
    let (model, out) = (network(), scratch.path("c.json"));
    let calibrate = |shifts: &str, more: &[&str]| {
        let fixed = ["calibrate", "--model", &model, "--data", "absent", "--quick", "--out", &out, "--shifts", shifts];
        flipcast(&[&fixed, more].concat())
    };
    for shifts in ["fog:3,fog:4", "fog:3,fog:3", "fog:3"] {
        calibrate(shifts, &[])
            .expect(2, &["one kind of shift, `fog`", "at least two kinds", "hint:", "--shifts", "--also DATA"]);
    }
    calibrate("", &[]).expect(2, &["no kind of shift", "hint:"]);
    calibrate("", &["--also", "night", "--also", "night"]).expect(2, &["one kind of shift, `night`"]);
    // Other labelled images are a kind too: the next complaint is about the images.
    calibrate("fog:3", &["--also", "night"]).expect(2, &["`absent`"]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn unknown_classes_are_not_ignored_where_labels_are_needed() {
    let scratch = Scratch::with_pictures("calibrate-classes", 28);
    let data = scratch.path("data");
    let args = ["--model", &network(), "--data", &data];
    let told = flipcast(&[&["calibrate", "--out", &scratch.path("c.json")], &args[..]].concat());
    let told = told.expect(
        2,
        &["cannot use the labels of", "2 of the dataset's 2 classes", "`--class-map FILE`", "`--labels index`"],
    );
    assert!(!told.stderr.contains("--labels none") && !told.stderr.contains("ignore the labels"), "{}", told.stderr);
    // Elsewhere they are no more than the truth beside a number.
    let calibration = format!("{ASSETS}/calibration.json");
    let estimate = [&["estimate", "--calibration", &calibration], &args[..]].concat();
    flipcast(&estimate).expect(2, &["2 of the dataset's 2 classes", "`--labels none`"]);
}

#[test]
fn other_sizes_than_the_calibration_s_are_told_and_other_values_refused() {
    let scratch = Scratch::new("calibrate-sizes");
    for number in 0..4 {
        scratch.write(&format!("data/{number}.jpg"), &picture(28, number));
    }
    let (model, calibration, data) = (network(), format!("{ASSETS}/calibration.json"), scratch.path("data"));
    let estimate = |more: &[&str]| {
        let fixed = ["estimate", "--model", &model, "--calibration", &calibration, "--data", &data];
        flipcast(&[&fixed, more].concat())
    };
    let told = estimate(&[]).expect(0, &[]);
    assert!(!told.stderr.contains("brought to size"), "{}", told.stderr);
    for (option, here) in
        [(["--crop", "20"], "here: as it is, crop 20 x 20"), (["--resize", "20x20"], "here: to 20 x 20 (bilinear)")]
    {
        estimate(&option).expect(0, &["note: `", "otherwise than those of the calibration", here, "there: as it is)"]);
    }
    let other = estimate(&["--mean", "0.5"])
        .expect(2, &["the normalisation `mean 0.286,0.286,0.286, std 0.353,", "has `mean 0.5,0.5,0.5, std 0.353,"]);
    assert!(!other.stderr.contains("MeanStd"), "{}", other.stderr);
}
