use crate::run::{Outcome, flipcast};
use crate::scratch::{Scratch, picture};
use serde_json::{Value, json};
use std::path::Path;

const NAME: &str = "baseline_0_transition+speed_1000_seed_43";

/// Writes a table per ordered pair of the hard level: `slope` per cent less with every step.
fn write_tables(scratch: &Scratch, slope: f64, left_out: &str) {
    let names = ["gaussian_noise", "shot_noise", "impulse_noise", "contrast"];
    let row = |i: usize| (0..21).map(|j| 50.0 - slope * (i + j) as f64).collect();
    let rows: Vec<Vec<f64>> = (0..21).map(row).collect();
    let mut tables = serde_json::Map::new();
    for first in names {
        for second in names {
            let pair = format!("{first}+{second}");
            if first != second && pair != left_out {
                tables.insert(pair, json!(rows));
            }
        }
    }
    let file = json!({"flipcast_accuracy_tables": 1, "tables": tables});
    scratch.write("tables.json", file.to_string().as_bytes());
}

/// Writes a stream of the hard level over `data` of `scratch` into `out`, with more arguments behind.
fn stream(scratch: &Scratch, more: &[&str]) -> Outcome {
    let paths = ["data", "out", "tables.json"].map(|below| scratch.path(below));
    let [data, out, tables] = paths.each_ref().map(String::as_str);
    let fixed =
        ["corrupt", "--set", "ccc", "--data", data, "--out", out, "--accuracy-tables", tables, "--baseline", "0"];
    flipcast(&[&fixed, more].concat())
}

#[test]
fn a_stream_is_written_resumed_and_read_back() {
    let scratch = Scratch::with_pictures("stream", 40);
    write_tables(&scratch, 1.0, "");
    stream(&scratch, &["--limit", "10", "--threads", "1"])
        .expect(0, &[&format!("clean images: 4, stream: {NAME}, images: 10"), "every cell shows 4"])
        .prints(&[NAME, "wrote 10 of 10 images, in"]);
    let written = scratch.files("out");
    let shard = scratch.path(&format!("out/{NAME}/serial_00000.tar"));
    assert!(written.contains_key(Path::new(&shard)));
    stream(&scratch, &["--limit", "10"]).expect(0, &[]).prints(&["wrote 0 of 10 images, 10 were there"]);
    std::fs::remove_file(&shard).expect("it was written");
    stream(&scratch, &["--limit", "10", "--threads", "3"]).expect(0, &[]).prints(&["wrote 10 of 10 images"]);
    assert_eq!(scratch.files("out"), written);
    flipcast(&["data", "check", &scratch.path(&format!("out/{NAME}"))])
        .expect(0, &[])
        .prints(&["images       10, 10 with a label", "pixels       224 x 224"]);
}

#[test]
fn streams_stand_side_by_side_but_never_mix() {
    let scratch = Scratch::with_pictures("streams", 40);
    write_tables(&scratch, 1.0, "");
    let few = ["--limit", "2"];
    stream(&scratch, &few).expect(0, &[]);
    stream(&scratch, &[&few[..], &["--seed", "44", "--speed", "5000"]].concat()).expect(0, &[]);
    let written = scratch.files("out");
    let other = scratch.path("out/baseline_0_transition+speed_5000_seed_44/serial_00000.tar");
    assert!(written.contains_key(Path::new(&other)));
    stream(&scratch, &["--limit", "3"]).expect(2, &["3 images from 4", "hint: choose an empty folder"]);
    write_tables(&scratch, -1.0, "");
    stream(&scratch, &few).expect(2, &["hint: choose an empty folder"]);
    write_tables(&scratch, 1.0, "");
    scratch.write("data/dog/d.jpg", &picture(40, 8));
    stream(&scratch, &few).expect(2, &["images 4 there, 5 asked for"]);
    assert_eq!(scratch.files("out"), written);
}

#[test]
fn shards_of_others_are_left_alone() {
    let scratch = Scratch::with_pictures("shards", 40);
    write_tables(&scratch, 1.0, "");
    scratch.write(&format!("out/{NAME}/serial_00000.tar"), b"published");
    stream(&scratch, &["--limit", "2"]).expect(2, &["holds `serial_00000.tar`", "an empty folder"]);
    assert_eq!(scratch.files("out").len(), 1);
}

#[test]
fn streams_that_cannot_be_made_are_refused_before_anything_is_written() {
    let scratch = Scratch::with_pictures("no-stream", 40);
    let out = scratch.path("out");
    stream(&scratch, &[]).expect(2, &["cannot use the accuracy tables"]);
    scratch.write("tables.json", b"\x80\x04pickle");
    stream(&scratch, &[]).expect(2, &["is no JSON", "hint: the file reads {"]);
    let text = json!({"flipcast_accuracy_tables": 1, "tables": {"fog+snow": Value::Null}});
    scratch.write("tables.json", text.to_string().as_bytes());
    stream(&scratch, &[]).expect(2, &["table `fog+snow`: null found", "21 rows of 21"]);
    write_tables(&scratch, 1.0, "contrast+shot_noise");
    stream(&scratch, &[]).expect(2, &["no accuracy table for the pair `contrast+shot_noise`", "hint: add the table"]);
    write_tables(&scratch, 1.0, "");
    for (more, part) in [
        (["--severity", "3"], "--severity is given"),
        (["--layout", "npy"], "--layout is given"),
        (["--limit", "0"], "at least 1"),
        (["--seed", "5000000000"], "--seed is 5000000000"),
        (["--speed", "3000"], "1000, 2000, 5000"),
    ] {
        stream(&scratch, &more).expect(2, &[part]);
    }
    scratch.write("loose/a.jpg", &picture(40, 1));
    let loose = scratch.path("loose");
    let tables = scratch.path("tables.json");
    flipcast(&[
        "corrupt",
        "--set",
        "ccc",
        "--data",
        &loose,
        "--out",
        &out,
        "--accuracy-tables",
        &tables,
        "--baseline",
        "0",
        "--limit",
        "1",
    ])
    .expect(2, &["without a label found", "hint: put the images into class folders"]);
    assert!(!Path::new(&out).exists());
}
