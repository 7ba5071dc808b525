//! `flipcast agree` with small random networks.

use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model};
use serde_json::{Value, json};

/// Pictures in a folder per class.
fn pictures(scratch: &Scratch) -> String {
    for number in 0..6 {
        let class = NAMES[number % 2];
        scratch.write(&format!("data/{class}/{number}.jpg"), &picture(32, number));
    }
    scratch.path("data")
}

#[test]
fn agreement_is_an_accuracy_beside_both_truths() {
    let scratch = Scratch::new("agree");
    let data = pictures(&scratch);
    let one = write_model(&scratch, "one", 1, &json!(NAMES));
    let two = write_model(&scratch, "two", 2, &json!(NAMES));
    let record = scratch.path("record.jsonl");
    let args = ["agree", "--model", &one, "--other", &two, "--data", &data];
    let kept = [&args[..], &["--record", &record, "--json"]].concat();
    let first = flipcast(&kept).expect(0, &[]).stdout;
    let found: Value = serde_json::from_str(&first).expect("one object");
    assert_eq!(found["images"], 6);
    let estimate = &found["estimates"]["gde"];
    let [accuracy, low, high] = ["accuracy", "low", "high"].map(|name| estimate[name].as_f64());
    assert!(low <= accuracy && accuracy <= high && high <= Some(1.0), "{found}");
    assert_eq!(estimate["flags"], json!(["too_few_images"]));
    assert!(found["truth"][0].is_f64() && found["truth"][1].is_f64());
    // The second time it is read, not measured, the time it took included.
    assert_eq!(flipcast(&kept).expect(0, &[]).stdout, first);
    let text = [&args[..], &["--labels", "none"]].concat();
    flipcast(&text).expect(0, &[]).prints(&["6 images", "90% interval", "unknown", "too_few_images"]);
}

#[test]
fn models_that_cannot_be_compared_are_refused() {
    let scratch = Scratch::new("agree-bad");
    let data = pictures(&scratch);
    let one = write_model(&scratch, "one", 1, &json!(NAMES));
    let three = write_model(&scratch, "three", 1, &json!(3));
    let agree = |other: &str, more: &[&str]| {
        let fixed = ["agree", "--model", &one, "--other", other, "--data", &data];
        flipcast(&[&fixed, more].concat())
    };
    agree(&one, &[]).expect(2, &["same weights", "another seed"]);
    agree(&three, &["--labels", "none"]).expect(2, &["classes of the other network", "3", "2"]);
    agree(&scratch.path("absent"), &[]).expect(2, &["absent"]);
    agree(&three, &["--level", "-1"]).expect(2, &["--level is -1"]);
}
