use crate::run::{Outcome, flipcast};
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Four pictures in two classes, and a small network that knows them.
fn scene(name: &str) -> (Scratch, String) {
    let scratch = Scratch::with_pictures(name, 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    (scratch, model)
}

/// Adapts `model` to `data` of `scratch` on one thread, with more arguments behind.
fn adapt(scratch: &Scratch, model: &str, method: &str, more: &[&str]) -> Outcome {
    let data = scratch.path("data");
    let fixed = ["adapt", "--model", model, "--data", &data, "--method", method, "--threads", "1"];
    flipcast(&[&fixed, more].concat())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("it was written")
}

#[test]
fn adapt_writes_a_row_per_image_and_a_summary() {
    let (scratch, model) = scene("adapt-rows");
    let out = ["out.csv", "out.jsonl", "out.parquet"].map(|name| scratch.path(name));
    let batches = ["--batch-size", "2", "--order", "stored"];
    adapt(&scratch, &model, "tent", &[&batches[..], &["--out", &out[0]]].concat()).expect(0, &[]).prints(&[
        "method       tent",
        "images       4, 2 steps",
        "accuracy ",
        "% source",
        "kept         100.0% of the images",
        "flips ",
        "guard        nothing seen",
    ]);
    let text = read(&out[0]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[0], "id,class,class_name,confidence,entropy,flipped");
    assert_eq!(rows.len(), 5);
    assert!(rows[1].starts_with("cat/a.jpg,"), "{}", rows[1]);
    assert!(!Path::new(&format!("{}.partial", out[0])).exists());
    let json = adapt(&scratch, &model, "tent", &[&batches[..], &["--out", &out[1], "--json", "--no-source"]].concat())
        .expect(0, &[])
        .stdout;
    let summary: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!((&summary["images"], &summary["labelled"]), (&json!(4), &json!(4)));
    assert_eq!(summary["flip_rate"], Value::Null);
    let row: Value = serde_json::from_str(read(&out[1]).lines().next().expect("a row")).expect("JSON");
    assert_eq!((&row["id"], &row["flipped"]), (&json!("cat/a.jpg"), &Value::Null));
    let class = row["class"].as_u64().expect("a number") as usize;
    assert_eq!(row["class_name"], NAMES[class]);
    adapt(&scratch, &model, "bn", &["--out", &out[2], "--progress"]).expect(0, &["adapting: "]);
    assert!(fs::read(&out[2]).expect("written").starts_with(b"PAR1"));
}

#[test]
fn predictions_do_not_depend_on_the_threads() {
    let (scratch, model) = scene("adapt-threads");
    let data = scratch.path("data") + "@gaussian_noise:2";
    let rows = ["1", "3"].map(|threads| {
        let out = scratch.path(&format!("{threads}.csv"));
        let args = [
            "adapt",
            "--model",
            &model,
            "--data",
            &data,
            "--method",
            "rdumb",
            "--batch-size",
            "2",
            "--seed",
            "5",
            "--epochs",
            "2",
            "--quiet",
            "--threads",
            threads,
            "--out",
            &out,
        ];
        assert_eq!(flipcast(&args).expect(0, &[]).stderr, "");
        read(&out)
    });
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0].lines().count(), 9);
}

#[test]
fn a_saved_vector_is_where_the_next_run_starts() {
    let (scratch, model) = scene("adapt-affine");
    let (affine, plain, resumed) =
        (scratch.path("adapted.safetensors"), scratch.path("plain.csv"), scratch.path("resumed.csv"));
    let save = ["--lr", "0.01", "--save-affine", &affine];
    adapt(&scratch, &model, "tent", &save).expect(0, &[]).prints(&["affine       "]);
    adapt(&scratch, &model, "bn", &["--out", &plain]).expect(0, &[]);
    adapt(&scratch, &model, "bn", &["--out", &resumed, "--affine", &affine]).expect(0, &[]);
    assert_ne!(read(&plain), read(&resumed));
    let other = write_model(&scratch, "other", 2, &json!(NAMES));
    adapt(&scratch, &other, "bn", &["--affine", &affine])
        .expect(2, &["was adapted from `tiny` with SHA-256", "hint: an adapted vector fits only"]);
    adapt(&scratch, &model, "bn", &["--affine", &model]).expect(2, &["holds no affine vector", "hint: "]);
}

#[test]
fn labels_are_matched_by_name_or_refused() {
    let (scratch, model) = scene("adapt-labels");
    let three = write_model(&scratch, "three", 1, &json!(3));
    adapt(&scratch, &three, "source", &[])
        .expect(2, &["the dataset has 2 classes, but the model has 3", "`--labels none`"]);
    adapt(&scratch, &three, "source", &["--labels", "none", "--json"]).expect(0, &[]).prints(&["\"accuracy\":null"]);
    let others = write_model(&scratch, "others", 1, &json!(["cat", "cow"]));
    adapt(&scratch, &others, "source", &[])
        .expect(2, &["1 of the dataset's 2 classes are not among the model's", "`dog`"]);
    adapt(&scratch, &model, "source", &[]).expect(0, &[]).prints(&["accuracy "]);
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    let (scratch, model) = scene("adapt-refused");
    let nowhere = scratch.path("nowhere.safetensors");
    adapt(&scratch, &nowhere, "tent", &[]).expect(2, &["nowhere.safetensors"]);
    adapt(&scratch, "resnet50", "tent", &[]).expect(2, &["is the name of a model", "--weights FILE"]);
    adapt(&scratch, &model, "tnet", &[]).expect(2, &["no method `tnet`", "`tent`"]);
    adapt(&scratch, &model, "eata", &[]).expect(2, &["`eata`", "--clean DATA"]);
    adapt(&scratch, &model, "bn", &["--lr", "1"]).expect(2, &["`bn` has no learning rate"]);
    adapt(&scratch, &model, "tent", &["--batch-size", "0"]).expect(2, &["batch size is 0"]);
    adapt(&scratch, &model, "tent", &["--batch-size", "1"]).expect(2, &["batch size is 1", "statistics of the batch"]);
    adapt(&scratch, &model, "source", &["--batch-size", "1"]).expect(0, &[]);
    adapt(&scratch, &model, "tent", &["--steps", "0"]).expect(2, &["number of steps is 0"]);
    adapt(&scratch, &model, "tent", &["--out", "rows.xlsx"]).expect(2, &["`.xlsx`", "`.csv`"]);
    let lost = scratch.path("no/such/folder/a.safetensors");
    adapt(&scratch, &model, "tent", &["--save-affine", &lost]).expect(2, &["does not exist"]);
    adapt(&scratch, &model, "tent", &["--lr", "nan"]).expect(2, &["--lr is NaN"]);
    adapt(&scratch, &model, "tent", &["--lr", "-1"]).expect(2, &["--lr is -1"]);
    let data = scratch.path("no-data");
    let missing = ["adapt", "--model", &model, "--data", &data, "--method", "tent"];
    flipcast(&missing).expect(2, &["cannot open", "no-data", "hint: check the path"]);
    fs::create_dir(&data).expect("writable");
    flipcast(&missing).expect(2, &["holds no images"]);
}

#[test]
fn an_unreadable_image_ends_the_run_or_is_left_out() {
    let (scratch, model) = scene("adapt-unreadable");
    scratch.write("data/dog/broken.jpg", b"no picture");
    adapt(&scratch, &model, "tent", &[]).expect(2, &["unusable: `dog/broken.jpg`", "--on-bad-image skip"]);
    adapt(&scratch, &model, "tent", &["--on-bad-image", "skip"])
        .expect(0, &[])
        .prints(&["4, 1 steps, 1 unusable ones left out"]);
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let (scratch, model) = scene("adapt-nan");
    let mut bytes = fs::read(&model).expect("written");
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    scratch.write("nan.safetensors", &bytes);
    fs::copy(scratch.path("tiny.json"), scratch.path("nan.json")).expect("writable");
    adapt(&scratch, &scratch.path("nan.safetensors"), "tent", &[]).expect(2, &["holds NaN", "expected finite values"]);
}

#[test]
fn a_run_without_a_single_prediction_leaves_no_file() {
    let (scratch, model) = scene("adapt-unreadable");
    for below in ["cat/a", "cat/b", "dog/a", "dog/c"] {
        scratch.write(&format!("data/{below}.jpg"), b"no picture");
    }
    let out = scratch.path("out.csv");
    adapt(&scratch, &model, "bn", &["--out", &out]).expect(2, &["unusable"]);
    assert!(!fs::exists(&out).expect("readable") && !fs::exists(format!("{out}.partial")).expect("readable"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_the_environment_s_fault() {
    let (scratch, model) = scene("adapt-full");
    for (flag, name) in [("--out", "full.csv"), ("--out", "full.parquet"), ("--save-affine", "full.safetensors")] {
        let path = scratch.path(name);
        std::os::unix::fs::symlink("/dev/full", &path).expect("writable");
        adapt(&scratch, &model, "tent", &[flag, &path]).expect(3, &["cannot write `", name, "hint: the disk is full"]);
    }
    // What the run found is told all the same.
    for flag in ["--record", "--logits-out", "--save-affine"] {
        adapt(&scratch, &model, "tent", &[flag, "/dev/full"])
            .expect(3, &["cannot write `/dev/full`", "hint: the disk is full"])
            .prints(&["accuracy ", "adapting"]);
    }
}

/// Starts a run without end whose predictions go to `out`, and waits until some are there.
fn start(scratch: &Scratch, model: &str, out: &str) -> Child {
    let data = scratch.path("data");
    let child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(["adapt", "--model", model, "--data", &data, "--method", "tent", "--lr", "1e-6"])
        .args(["--steps", "1000000", "--threads", "1", "--out", out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let partial = format!("{out}.partial");
    let begun = Instant::now();
    while fs::read_to_string(&partial).map_or(0, |text| text.lines().count()) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no predictions");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("`kill` exists").success());
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_run_after_the_batch_and_keeps_what_is_there() {
    let (scratch, model) = scene("adapt-ctrl-c");
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let out = scratch.path(&format!("out{name}.csv"));
        let child = start(&scratch, &model, &out);
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("interrupted after") && stderr.contains(".csv.partial"), "{stderr}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(", interrupted"));
        assert!(!Path::new(&out).exists());
        assert!(read(&format!("{out}.partial")).ends_with('\n'));
    }
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_whole_rows_and_can_be_repeated() {
    let (scratch, model) = scene("adapt-kill");
    let out = scratch.path("out.csv");
    let mut child = start(&scratch, &model, &out);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let left = read(&format!("{out}.partial"));
    let whole = left.rfind('\n').map_or("", |end| &left[..end]);
    assert!(whole.lines().skip(1).all(|row| row.split(',').count() == 6), "{whole}");
    assert!(!Path::new(&out).exists());
    adapt(&scratch, &model, "tent", &["--out", &out]).expect(0, &[]);
    assert_eq!(read(&out).lines().count(), 5);
    assert!(!Path::new(&format!("{out}.partial")).exists());
}

#[test]
fn clean_images_prepare_a_method_that_needs_them() {
    let (scratch, model) = scene("adapt-clean");
    for number in 0..4 {
        scratch.write(&format!("clean/{number}.jpg"), &picture(32, 20 + number));
    }
    let clean = scratch.path("clean");
    let more = ["--clean", &clean, "--batch-size", "2"];
    adapt(&scratch, &model, "eata", &more).expect(0, &[]);
    adapt(&scratch, &model, "eta", &more).expect(2, &["`eta` makes no use of clean images"]);
}

#[test]
fn a_report_shows_what_an_adaptation_did() {
    let scratch = Scratch::with_pictures("adapt-report", 32);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let (data, record) = (scratch.path("data"), scratch.path("runs.jsonl"));
    let fixed = ["adapt", "--model", &model, "--data", &data, "--method", "tent", "--batch-size", "2"];
    let run = flipcast(&[&fixed[..], &["--record", &record, "--json"]].concat()).expect(0, &[]);
    let seen: Value = serde_json::from_str(&run.stdout).expect("an object");
    let table = ["report", &record, "--format", "markdown", "--table", "adaptations"];
    let table = flipcast(&table).expect(0, &[]).stdout;
    let number = |name: &str, scale: f64, digits: usize| {
        seen[name].as_f64().map_or("\u{2013}".to_owned(), |value| format!("{:.digits$}", scale * value))
    };
    let expected = format!(
        "| data | cifar\\_resnet20 | tent | {} | {} | {} | {} | {} | {} | {} | {} |",
        seen["images"],
        seen["steps"],
        number("source_accuracy", 100.0, 1),
        number("accuracy", 100.0, 1),
        number("flip_rate", 100.0, 1),
        number("used_share", 100.0, 1),
        number("first_entropy", 1.0, 3),
        number("last_entropy", 1.0, 3),
    );
    assert!(table.contains(&expected), "{expected}\n{table}");
}
