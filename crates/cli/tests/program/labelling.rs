//! `flipcast estimate` with a few labels and by class, with the files of the demo.

use crate::run::flipcast;
use crate::scratch::Scratch;
use serde_json::{Value, json};
use std::fs;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

/// Estimates on 200 noisy images of the demo; cells are kept in `scratch`, so that they are made once.
fn estimate(scratch: &Scratch, more: &[&str]) -> crate::run::Outcome {
    let (model, calibration) =
        (format!("{ASSETS}/resnet20.fashion_mnist.safetensors"), format!("{ASSETS}/calibration.json"));
    let (data, record) = (format!("{ASSETS}@gaussian_noise:3"), scratch.path("runs.jsonl"));
    let fixed = ["estimate", "--model", &model, "--calibration", &calibration, "--data", &data, "--limit", "200"];
    flipcast(&[&fixed[..], &["--record", &record], more].concat())
}

fn object(outcome: &crate::run::Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("an object")
}

#[test]
fn images_asked_for_and_labelled_give_an_estimate_that_is_recorded() {
    let scratch = Scratch::new("few-labels");
    let (ask, few) = (scratch.path("ask.csv"), scratch.path("few.csv"));
    estimate(&scratch, &["--ask", "100", "--ask-out", &ask]).expect(0, &["100 images to label written to"]);
    let asked = fs::read_to_string(&ask).expect("written");
    let lines: Vec<&str> = asked.lines().collect();
    assert_eq!((lines[0], lines.len()), ("image,label,predicted,stratum", 101));

    // Three of four answers are confirmed, the fourth is called another class.
    let mut labelled = format!("{}\n", lines[0]);
    for (number, line) in lines[1..].iter().enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        let [image, "", predicted, stratum] = cells[..] else { panic!("{line}") };
        let label = if number % 4 > 0 {
            predicted
        } else if predicted == "Bag" {
            "0"
        } else {
            "bag"
        };
        labelled += &format!("{image},{label},{predicted},{stratum}\n");
    }
    fs::write(&few, &labelled).expect("writable");
    let found = object(&estimate(&scratch, &["--labelled", &few, "--json"]).expect(0, &[]));
    let few_labels = &found["few_labels"];
    assert_eq!((&few_labels["labels"], &few_labels["right"]), (&json!(100), &json!(75)));
    assert_eq!((&few_labels["strata"], &few_labels["images"]), (&json!(2), &json!(200)));
    let width = |estimate: &Value| {
        let end = |name: &str| estimate[name].as_f64().expect("a number");
        assert!(end("low") < 0.75 && 0.75 < end("high"), "{estimate}");
        end("high") - end("low")
    };
    let powered = &few_labels["powered"];
    assert!(width(&powered["estimate"]) <= width(&powered["labels_alone"]) + 1e-9, "{powered}");
    let text = estimate(&scratch, &["--labelled", &few]).expect(0, &[]);
    text.prints(&[
        "source model, 100 labels (75 right, from 2 strata)",
        "with labels",
        "labels alone",
        "effective labels",
    ]);
    let records = fs::read_to_string(scratch.path("runs.jsonl")).expect("kept");
    assert_eq!(records.matches("\"kind\":\"few_labels\"").count(), 2, "the record and its protocol, once");

    // A label that was left out is told; strata of other images are refused.
    fs::write(&few, labelled.replacen(",bag,", ",,", 1)).expect("writable");
    estimate(&scratch, &["--labelled", &few]).expect(0, &["note:", "1 image without a label"]);
    let swapped: String = labelled.lines().map(|line| line.replace(",0", ",9").replace(",1", ",0") + "\n").collect();
    fs::write(&few, swapped.replace(",9", ",1")).expect("writable");
    estimate(&scratch, &["--labelled", &few]).expect(2, &["stratum", "hint:"]);
}

#[test]
fn labels_that_do_not_fit_are_refused_with_what_is_wrong() {
    let scratch = Scratch::new("bad-labels");
    let few = scratch.path("few.csv");
    let refused = |text: &str, expected: &[&str]| {
        fs::write(&few, text).expect("writable");
        estimate(&scratch, &["--labelled", &few]).expect(2, expected);
    };
    refused("a.jpg,1\n", &["the first line is `a.jpg,1`", "`image` and `label`", "hint:"]);
    refused("image,label\n", &["no image has a label"]);
    refused("image,right\n0,1\n", &["1 images have a label", "at least 5", "hint:"]);
    refused("image,right\na,1\nb,0\nc,1\nd,1\ne,0\n", &["line 2 names the image `a`", "200 images", "hint:"]);
    estimate(&scratch, &["--labelled", &scratch.path("absent.csv")]).expect(2, &["absent.csv"]);
    estimate(&scratch, &["--ask", "10"]).expect(2, &["--ask-out"]);
    estimate(&scratch, &["--ask", "2", "--ask-out", &scratch.path("ask.csv")]).expect(2, &["at least 5"]);
    estimate(&scratch, &["--use-labels", "201"]).expect(2, &["201 labels", "at most 200", "hint:"]);
    let unlabelled = ["--use-labels", "50", "--labels", "none"];
    estimate(&scratch, &unlabelled).expect(2, &["images have no label"]);
    let two = ["--ask", "10", "--ask-out", &few, "--data", ASSETS];
    estimate(&scratch, &two).expect(2, &["--data is given 2 times"]);
}

#[test]
fn labels_are_not_asked_for_in_a_file_that_holds_some() {
    let scratch = Scratch::new("ask-again");
    let ask = scratch.path("ask.csv");
    let asking = || estimate(&scratch, &["--ask", "10", "--ask-out", &ask, "--quiet"]);
    // A file of images that nobody labelled yet, or an empty one, is replaced.
    scratch.write("ask.csv", b"");
    for _ in 0..2 {
        let asked = asking().expect(0, &[]);
        assert_eq!(asked.stderr, "", "--quiet leaves out what is no result");
    }
    let asked = fs::read_to_string(&ask).expect("written");
    for (text, found) in [
        (asked.replacen(",,", ",3,", 2), "which holds 2 labels and would be overwritten"),
        (asked.replace(',', ";"), "which holds something else than images to label"),
    ] {
        fs::write(&ask, &text).expect("writable");
        asking().expect(2, &["ask.csv", found, "hint: give another name"]);
        assert_eq!(fs::read_to_string(&ask).expect("there"), text);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_no_read_error() {
    let scratch = Scratch::new("estimate-full");
    let full = ["cannot write `/dev/full`", "hint: the disk is full"];
    estimate(&scratch, &["--logits-out", "/dev/full"]).expect(3, &full).prints(&["source model", "combined"]);
    estimate(&scratch, &["--ask", "10", "--ask-out", "/dev/full"]).expect(3, &full);
    let (model, calibration) =
        (format!("{ASSETS}/resnet20.fashion_mnist.safetensors"), format!("{ASSETS}/calibration.json"));
    let fixed = ["estimate", "--model", &model, "--calibration", &calibration, "--data", ASSETS, "--limit", "60"];
    flipcast(&[&fixed[..], &["--shard", "2/2", "--part", "/dev/full"]].concat()).expect(3, &full);
}

#[test]
fn labels_of_the_data_are_used_on_request_and_classes_are_shown() {
    let scratch = Scratch::new("by-class");
    let found = object(&estimate(&scratch, &["--use-labels", "100", "--by-class", "--json"]).expect(0, &[]));
    assert_eq!(found["few_labels"]["accuracy"], found["truth"]);
    let by_class = &found["by_class"];
    assert_eq!(by_class["names"].as_array().expect("names").len(), 10);
    assert_eq!(by_class["accuracy"], found["few_labels"]["powered"]["estimate"]["accuracy"]);
    let classes = by_class["by_class"]["classes"].as_array().expect("classes");
    let sum = |key: &str| classes.iter().map(|class| class[key].as_f64().expect("a number")).sum::<f64>();
    assert!((sum("share") - 1.0).abs() < 1e-6);
    assert_eq!(sum("answered"), 200.0);
    for class in classes {
        assert_eq!(class["precision"].is_null(), class["answered"].as_u64().expect("a count") < 20, "{class}");
    }
    // Without labels the combined estimate is what confidences are matched to, and no label is used.
    let plain = object(&estimate(&scratch, &["--by-class", "--json"]).expect(0, &[]));
    assert_eq!(plain["by_class"]["accuracy"], plain["estimates"]["combined"]["accuracy"]);
    assert_eq!(plain["few_labels"], Value::Null);
    let text = estimate(&scratch, &["--by-class"]).expect(0, &[]);
    text.prints(&["classes that occur most", "right least often", "confusions expected most", "precision"]);
    let paper = ["estimate", "--calibration", "paper-cifar10", "--model", "x", "--data", ASSETS, "--by-class"];
    flipcast(&paper).expect(2, &["--by-class needs a calibration", "hint:"]);
}
