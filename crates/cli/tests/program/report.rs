//! `flipcast report` and `flipcast figure`, on records with invented numbers.

use crate::run::flipcast;
use crate::scratch::Scratch;
use std::fs;

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/fixtures/synthetic.jsonl");
const UNLABELLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/tests/fixtures/unlabelled.jsonl");

#[test]
fn a_page_is_written_twice_the_same() {
    let scratch = Scratch::new("report-page");
    let pages: Vec<String> = ["a.html", "b.html"]
        .iter()
        .map(|name| {
            let out = scratch.path(name);
            flipcast(&["report", RECORDS, "--out", &out]).expect(0, &[]).prints(&["records; written to"]);
            fs::read_to_string(out).expect("written")
        })
        .collect();
    assert_eq!(pages[0], pages[1]);
    assert!(pages[0].contains("How accurate is this model on images nobody labelled?"));
}

#[test]
fn tables_come_in_every_form() {
    flipcast(&["report", RECORDS, "--format", "markdown"]).expect(0, &[]).prints(&["| combined | **"]);
    flipcast(&["report", RECORDS, "--format", "latex", "--table", "mae-1"])
        .expect(0, &[])
        .prints(&["\\toprule", "\\textbf{"]);
    flipcast(&["report", RECORDS, "--format", "csv", "--table", "mae-1"]).expect(0, &[]).prints(&["estimator,C (15),"]);
    flipcast(&["report", RECORDS, "--format", "csv", "--table", "mea"]).expect(2, &["no table `mea`", "`mae-1`"]);
    flipcast(&["report", RECORDS, "--table", "mae-1"]).expect(2, &["hint: add `--format"]);
}

#[test]
fn kinds_nobody_knows_are_named_and_left_out() {
    let scratch = Scratch::new("report-kinds");
    let out = scratch.path("page.html");
    flipcast(&["report", UNLABELLED, "--out", &out]).expect(0, &["not shown: 1 of kind `tomorrow`"]);
    let empty = scratch.path("");
    flipcast(&["report", &empty, "--out", &out]).expect(2, &["no file that ends in `.jsonl` or `.jsonl.gz`"]);
    let newer = fs::read_to_string(UNLABELLED).expect("there");
    scratch.write("newer.jsonl", newer.replace("\"format\":1", "\"format\":9").as_bytes());
    flipcast(&["report", &scratch.path("newer.jsonl"), "--out", &out])
        .expect(2, &["has format 9", "hint: use the newer flipcast"]);
}

#[test]
fn figures_are_written_as_the_ending_says() {
    let scratch = Scratch::new("report-figure");
    let (svg, png) = (scratch.path("fig.svg"), scratch.path("fig.png"));
    flipcast(&["figure", "phases", RECORDS, "--out", &svg, "--width", "900"]).expect(0, &[]);
    let text = fs::read_to_string(&svg).expect("written");
    assert!(text.starts_with("<svg ") && text.contains("width=\"900\""));
    let arguments = ["--out", &png, "--theme", "dark", "--scale", "1", "--frame", "2"];
    flipcast(&[&["figure", "map", RECORDS], &arguments[..]].concat()).expect(0, &[]);
    assert!(fs::read(&png).expect("written").starts_with(b"\x89PNG"));
    flipcast(&["figure", "--list"]).expect(0, &[]).prints(&[
        "estimates",
        "flipcast study run, flipcast estimate --record",
        "flipcast analyse map",
    ]);
    flipcast(&["figure", "fases", RECORDS, "--out", &svg]).expect(2, &["no figure `fases`", "`phases`"]);
    flipcast(&["figure", "map", UNLABELLED, "--out", &svg])
        .expect(2, &["no record holds", "hint: `flipcast analyse map`"]);
    flipcast(&["figure", "map", RECORDS, "--out", &scratch.path("fig.gif")]).expect(2, &["neither `.svg` nor `.png`"]);
    flipcast(&["figure", "map", RECORDS, "--out", &svg, "--frame", "99"]).expect(2, &["has 6"]);
}

#[test]
fn what_is_not_there_is_refused_with_the_nearest_folder() {
    let scratch = Scratch::new("report-missing");
    scratch.write("study/records-1-of-1.jsonl", b"");
    let (gone, out) = (scratch.path("study/records.jsonl"), scratch.path("x.html"));
    let expected =
        ["records.jsonl` does not exist", "hint: expected a record file, or a folder", "holds `records-1-of-1.jsonl`"];
    flipcast(&["report", &gone, "--out", &out]).expect(2, &expected);
    flipcast(&["study", "merge", &scratch.path("stud"), "--out", &out])
        .expect(2, &["stud` does not exist", "holds `study/`"]);
    let status = ["study", "status", "tiny_imagenet", "--out"];
    flipcast(&[&status[..], &[&scratch.path("none/at/all")]].concat())
        .expect(2, &["none/at/all` does not exist", "`flipcast study run --out`"]);
}

#[test]
fn an_unknown_figure_is_named_before_anything_is_read() {
    let found = flipcast(&["figure", "fases", "nowhere.jsonl", "--out", "x.svg"])
        .expect(2, &["no figure `fases`, the nearest are `phases`", "hint: all figures are `estimates`"]);
    assert!(!found.stderr.contains("not shown"));
}

#[test]
fn a_bad_device_is_refused_before_weights_are_opened() {
    for (option, value) in [("--device", "cuda:x"), ("--precision", "f8")] {
        let problem = format!("error: {option} is `{value}`");
        let commands = [
            &["estimate", "--model", "nowhere", "--data", "nowhere", "--calibration", "nowhere"][..],
            &["calibrate", "--model", "nowhere", "--data", "nowhere", "--out", "nowhere/x"][..],
            &["adapt", "--model", "nowhere", "--data", "nowhere", "--method", "tent"][..],
            &["analyse", "flips", "--model", "nowhere", "--data", "nowhere"][..],
            &["study", "run", "nowhere", "--out", "nowhere"][..],
            &["bench", "--model", "nowhere"][..],
        ];
        for command in commands {
            flipcast(&[command, &[option, value]].concat()).expect(2, &[&problem]);
        }
    }
}

#[test]
fn every_gpu_at_once_is_for_commands_that_make_several_cells() {
    for command in [&["adapt", "--method", "tent"][..], &["analyse", "flips"], &["bench"]] {
        let data: &[&str] = if command[0] == "bench" { &[] } else { &["--data", "nowhere"] };
        flipcast(&[command, data, &["--model", "nowhere", "--device", "cuda:all"]].concat())
            .expect(2, &["--device is `cuda:all`, but this command works on one device", "`study run`, `calibrate`"]);
    }
    if flipcast_cuda::report().usable() {
        return;
    }
    let commands = [
        &["estimate", "--model", "nowhere", "--data", "nowhere", "--calibration", "nowhere"][..],
        &["calibrate", "--model", "nowhere", "--data", "nowhere", "--out", "nowhere/x"][..],
        &["study", "run", "nowhere", "--out", "nowhere"][..],
    ];
    for command in commands {
        flipcast(&[command, &["--device", "cuda:all"]].concat()).expect(3, &["--device is `cuda:all`, but "]);
    }
}

#[test]
fn a_report_is_not_written_over_its_records() {
    let scratch = Scratch::new("report-over");
    scratch.write("runs/records.jsonl", &fs::read(UNLABELLED).expect("there"));
    let records = scratch.path("runs/records.jsonl");
    for runs in [&records, &scratch.path("runs")] {
        for command in [&["report", runs][..], &["report", runs, "--format", "csv"]] {
            flipcast(&[command, &["--out", &records]].concat())
                .expect(2, &["would be overwritten", "hint: give another"]);
        }
    }
    assert_eq!(fs::read(&records).expect("there"), fs::read(UNLABELLED).expect("there"));
}
