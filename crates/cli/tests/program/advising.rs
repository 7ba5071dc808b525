//! `flipcast advise`, and `flipcast adapt --method auto`, which follows it.

use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model};
use serde_json::{Value, json};

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

#[test]
fn advice_is_learned_given_and_followed() {
    let scratch = Scratch::new("advice");
    for number in 0..12 {
        let class = NAMES[number % 2];
        scratch.write(&format!("data/{class}/{number}.jpg"), &picture(32, 11 * number));
    }
    let model = write_model(&scratch, "net", 5, &json!(NAMES));
    let (data, calibration, out) = (scratch.path("data"), scratch.path("cal.json"), scratch.path("advice.json"));
    let many = "fog:1,brightness:2,spatter:1,saturate:2,frost:1,contrast:1,jpeg_compression:1,pixelate:1";
    let shifts = ["--shifts", many, "--quick", "--advise"];
    let args = ["calibrate", "--model", &model, "--data", &data, "--out", &calibration, "--progress", "never"];
    flipcast(&[&args[..], &shifts].concat()).expect(0, &[]).prints(&["19 ways to adapt"]);

    let args = ["advise", "--model", &model, "--data", &data, "--calibration", &calibration, "--progress", "never"];
    flipcast(&[&args[..], &["--out", &out]].concat()).expect(0, &[]).prints(&[
        "tried on 12 images",
        "way to adapt",
        "bn half anchored",
        "adaptations to these images",
    ]);
    let written: Value = serde_json::from_slice(&std::fs::read(&out).expect("it was written")).expect("JSON");
    let printed: Value =
        serde_json::from_str(&flipcast(&[&args[..], &["--json"]].concat()).expect(0, &[]).stdout).expect("JSON");
    assert_eq!(written, printed);
    assert_eq!((&written["flipcast_advice"], &written["advice"]["images"]), (&json!(1), &json!(12)));

    let record = scratch.path("advice.jsonl");
    let first = flipcast(&[&args[..], &["--record", &record]].concat()).expect(0, &[]);
    let again = flipcast(&[&args[..], &["--record", &record]].concat()).expect(0, &[]);
    assert_eq!(first.stdout, again.stdout, "what is kept is not tried again");
    let page = scratch.path("advice.html");
    flipcast(&["report", &record, "--out", &page]).expect(0, &[]);
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Should the model be adapted?") && page.contains("bn half anchored"));

    let args = ["adapt", "--method", "auto", "--model", &model, "--data", &data, "--progress", "never"];
    let followed = ["--calibration", &calibration, "--advice", &out];
    let told = flipcast(&[&args[..], &followed].concat()).expect(0, &["note: "]).prints(&["method"]);
    assert!(!told.stderr.contains("was given for"), "{}", told.stderr);
    for number in 0..4 {
        scratch.write(&format!("others/{}/{number}.jpg", NAMES[number % 2]), &picture(32, number));
    }
    let others = ["adapt", "--method", "auto", "--model", &model, "--data", &scratch.path("others")];
    flipcast(&[&others[..], &followed].concat())
        .expect(0, &["note: the advice", &format!("was given for `{data}`, but --data is"), "others`"]);
    for settings in [
        &["--lr", "0.1"][..],
        &["--params", "all-norm"],
        &["--recipe", "cifar10"],
        &["--published-code"],
        &["--clean", "x"],
    ] {
        flipcast(&[&args[..], &followed, settings].concat())
            .expect(2, &[&format!("{} is given, but `--method auto` chooses", settings[0]), "hint: leave it out"]);
    }
    flipcast(&[&args[..], &followed, &["--clean-images", "9"]].concat()).expect(2, &["--clean"]);
    let wrong = ["--calibration", &calibration, "--advice", &calibration];
    flipcast(&[&args[..], &wrong].concat())
        .expect(2, &["holds no advice", "hint: expected what `flipcast advise --out FILE` wrote"]);
    flipcast(&[&args[..], &["--calibration", &calibration]].concat()).expect(0, &["note: "]).prints(&["method"]);
    flipcast(&args).expect(2, &["`--method auto`", "hint: give `--calibration FILE`"]);
    let tent = ["adapt", "--method", "tent", "--model", &model, "--data", &data, "--progress", "never"];
    let watched = ["--batch-size", "4", "--watch", "2", "--record", &record];
    flipcast(&[&tent[..], &watched].concat())
        .expect(0, &["before adapting: entropy", "batch 2: entropy", "of answers changed since"]);
    flipcast(&[&tent[..], &["--watch", "0"]].concat()).expect(2, &["batches between looks is 0", "at least 1"]);
    let other = ["--calibration", &calibration, "--batch-size", "8"];
    flipcast(&[&args[..], &other].concat()).expect(2, &["--batch-size is 8", "64"]);
}

#[test]
fn few_kinds_of_shift_tell_no_risk_and_leave_the_model_as_it_is() {
    let scratch = Scratch::new("advice-few");
    for number in 0..12 {
        scratch.write(&format!("data/{}/{number}.jpg", NAMES[number % 2]), &picture(32, 11 * number));
    }
    let model = write_model(&scratch, "net", 5, &json!(NAMES));
    let (data, calibration) = (scratch.path("data"), scratch.path("cal.json"));
    let images = ["--model", &model, "--data", &data, "--progress", "never"];
    let made = ["--out", &calibration, "--shifts", "fog:1,brightness:2", "--quick", "--advise"];
    flipcast(&[&["calibrate"], &images[..], &made].concat()).expect(0, &[]);
    let asked = [&["advise"], &images[..], &["--calibration", &calibration]].concat();
    let told = flipcast(&asked).expect(0, &[]);
    assert!(!told.stdout.contains("to adapt:"), "{}", told.stdout);
    let found: Value = serde_json::from_str(&flipcast(&[&asked[..], &["--json"]].concat()).stdout).expect("JSON");
    let tried = found["advice"]["tried"].as_array().expect("ways to adapt");
    let changed: Vec<&Value> = tried.iter().filter(|way| way["flips"] != json!(0.0)).collect();
    assert!(changed.iter().all(|way| way["risk"].is_null()) && found["advice"]["recommended"].is_null());
    if !changed.is_empty() {
        told.prints(&["unknown", "too few kinds to tell the risk"]);
    }
    let auto = [&["adapt", "--method", "auto"], &images[..], &["--calibration", &calibration]].concat();
    let seen = [&auto[..], &["--json"]].concat();
    let notes = ["note: staying with the source model", "too few kinds to tell the risk"];
    let seen: Value = serde_json::from_str(&flipcast(&seen).expect(0, &notes).stdout).expect("JSON");
    assert_eq!(seen["method"], "source");
}

#[test]
fn a_calibration_without_trials_says_how_to_make_one_with_them() {
    let (model, calibration) =
        (format!("{ASSETS}/resnet20.fashion_mnist.safetensors"), format!("{ASSETS}/calibration.json"));
    let args = ["--model", &model, "--calibration", &calibration, "--data", ASSETS];
    let hint = "hint: make it with `flipcast calibrate --advise`";
    flipcast(&[&["advise"], &args[..]].concat()).expect(2, &["knows nothing of adapting", hint]);
    flipcast(&[&["adapt", "--method", "auto"], &args[..]].concat()).expect(2, &["knows nothing of adapting", hint]);
}
