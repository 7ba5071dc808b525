//! `flipcast calibrate` and `flipcast estimate`, mostly with the files of the demo.

use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use crate::tiny_model::{NAMES, write_model};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

fn asset(name: &str) -> String {
    format!("{ASSETS}/{name}")
}

/// Arguments that estimate on `data`, a part of the demo's images.
fn estimate_args(data: &str) -> Vec<String> {
    let model = asset("resnet20.fashion_mnist.safetensors");
    let calibration = asset("calibration.json");
    let fixed = ["estimate", "--model", &model, "--calibration", &calibration];
    let more = ["--data", data, "--limit", "200", "--json"];
    fixed.iter().chain(&more).map(|a| (*a).to_owned()).collect()
}

fn run(args: &[String]) -> crate::run::Outcome {
    flipcast(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines.map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

#[test]
fn estimates_have_stable_keys_and_never_use_labels() {
    let data = format!("{ASSETS}@gaussian_noise:3");
    let args = estimate_args(&data);
    let seen = objects(&run(&args).expect(0, &[]).stdout).remove(0);
    for name in
        ["wf", "wf_batch", "ac", "doc", "atc_mc", "atc_ne", "cot", "combined", "statistics_flips", "cot_calibrated"]
    {
        let estimate = &seen["estimates"][name];
        let number = |key: &str| estimate[key].as_f64().unwrap_or_else(|| panic!("{name}.{key}"));
        assert!(number("low") <= number("accuracy") && number("accuracy") <= number("high"), "{name}");
        assert!(estimate["flags"].is_array(), "{name}");
    }
    assert_eq!(seen["data"], json!(data));
    assert_eq!(seen["images"], json!(200));
    assert!(seen["truth"].is_number() && seen["adapted"]["truth"].is_number());
    assert_eq!(seen["protocol"]["name"], json!("flipcast"));

    // A limit is a sample from all over the images, which can be asked for by name as well.
    let sample = format!("{ASSETS}#sample:200:0@gaussian_noise:3");
    let sampled = objects(&run(&estimate_args(&sample)).expect(0, &[]).stdout).remove(0);
    assert_eq!(sampled["estimates"], seen["estimates"]);
    assert_eq!(sampled["truth"], seen["truth"]);

    let blind = [args, vec!["--labels".into(), "none".into()]].concat();
    let blind = objects(&run(&blind).expect(0, &[]).stdout).remove(0);
    assert_eq!(blind["truth"], Value::Null);
    assert_eq!(blind["estimates"], seen["estimates"]);
    assert_eq!(blind["adapted"]["estimates"], seen["adapted"]["estimates"]);
}

#[test]
fn known_class_shares_change_transport_alone() {
    let with = |marginal: &str| {
        let args = [estimate_args(ASSETS), vec!["--marginal".into(), marginal.into()]].concat();
        objects(&run(&args).expect(0, &[]).stdout).remove(0)
    };
    let (uniform, subset) = (with("uniform"), with("subset:0,1,2"));
    let of = |seen: &Value, name: &str| seen["estimates"][name]["accuracy"].as_f64();
    assert!(of(&subset, "cot") < of(&uniform, "cot"));
    assert_eq!(of(&subset, "ac"), of(&uniform, "ac"));
    let broken = [estimate_args(ASSETS), vec!["--marginal".into(), "subset:x".into()]].concat();
    run(&broken).expect(2, &["`subset:x`", "hint:"]);
}

#[test]
fn a_report_shows_what_estimate_said() {
    let scratch = Scratch::new("estimate-report");
    let (record, page) = (scratch.path("runs.jsonl"), scratch.path("page.html"));
    let data = format!("{ASSETS}@gaussian_noise:3");
    let args = [estimate_args(&data), vec!["--record".into(), record.clone()]].concat();
    let seen = objects(&run(&args).expect(0, &[]).stdout).remove(0);
    let table = ["report", &record, "--format", "markdown", "--table", "estimates-1"];
    let table = flipcast(&table).expect(0, &[]).stdout;
    let cells = |line: &'_ str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>();
    let lines: Vec<Vec<String>> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let [header, _, row] = lines.as_slice() else { panic!("one dataset: {table}") };
    let combined = &seen["estimates"]["combined"];
    let percent = |value: &Value| format!("{:.1}", 100.0 * value.as_f64().expect("a number"));
    let expected = [
        ("true", percent(&seen["truth"])),
        ("combined", percent(&combined["accuracy"])),
        ("low", percent(&combined["low"])),
        ("high", percent(&combined["high"])),
        ("WF", percent(&seen["estimates"]["wf"]["accuracy"])),
        ("COT", percent(&seen["estimates"]["cot"]["accuracy"])),
    ];
    for (name, value) in expected {
        let column = header.iter().position(|heading| heading == name);
        assert_eq!(row[column.unwrap_or_else(|| panic!("no {name}: {table}"))], value, "{name}: {table}");
    }
    // A flag that the command took back is not shown either.
    let flags: Vec<&str> = combined["flags"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(row[row.len() - 2].replace('\\', ""), flags.join(", "), "{table}");
    // Another level replaces the intervals and adds no dataset.
    let again = [args, vec!["--level".into(), "0.5".into()]].concat();
    run(&again).expect(0, &[]);
    flipcast(&["report", &record, "--out", &page]).expect(0, &[]);
    let page = fs::read_to_string(&page).expect("written");
    assert!(page.contains("over one dataset where the truth is known") && page.contains("Its 50% intervals"));
}

#[test]
fn few_images_work_and_are_flagged() {
    let mut args = estimate_args(ASSETS);
    let limit = args.iter().position(|a| a == "200").expect("it is there");
    for images in ["1", "5", "49"] {
        args[limit] = images.into();
        let seen = objects(&run(&args).expect(0, &[]).stdout).remove(0);
        let flags = seen["estimates"]["combined"]["flags"].to_string();
        assert!(flags.contains("too_few_images"), "{images}: {flags}");
    }
}

/// The text of an artefact as it was before there was a checksum.
fn without_check(artefact: &str) -> String {
    let (rest, _) = artefact.rsplit_once(",\n  \"check\": ").expect("a checksum at the end");
    format!("{rest}\n}}\n")
}

#[test]
fn fits_of_an_earlier_calibration_are_made_again_from_its_cells() {
    let scratch = Scratch::new("refit");
    let newest = fs::read_to_string(asset("calibration.json")).expect("an asset");
    let (earlier, out) = (scratch.path("earlier.json"), scratch.path("again.json"));
    let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    for format in [5, 6, 7] {
        let version = format!("\"flipcast_calibration\": {format}");
        let text = without_check(&newest).replacen("\"flipcast_calibration\": 8", &version, 1);
        scratch.write("earlier.json", text.as_bytes());
        flipcast(&["calibrate", "refit", &earlier, "--out", &out]).expect(0, &[]).prints(&["combined", "written to"]);
        assert_eq!(read(&fs::read_to_string(&out).expect("written")), read(&newest));
    }
    scratch.write("no.json", b"{}");
    flipcast(&["calibrate", "refit", &scratch.path("no.json"), "--out", &out]).expect(2, &["missing field"]);
    flipcast(&["calibrate", "refit", &earlier]).expect(2, &["--out"]);
}

#[test]
fn a_calibration_of_another_model_is_refused() {
    let scratch = Scratch::new("other-calibration");
    let other = write_model(&scratch, "other", 3, &json!(10));
    let calibration = asset("calibration.json");
    let with =
        |calibration: &str| flipcast(&["estimate", "--model", &other, "--calibration", calibration, "--data", ASSETS]);
    with(&calibration).expect(2, &["the calibration is for the weights", "flipcast calibrate"]);
    with(&scratch.path("absent.json")).expect(2, &["absent.json` does not exist", "hint:"]);
    scratch.write("broken.json", b"{\"flipcast_calibration\": 1");
    with(&scratch.path("broken.json")).expect(2, &["not a calibration", "hint:"]);
    let newer = fs::read_to_string(&calibration).expect("an asset");
    for (version, message) in [
        ("99", "is 99, expected 1"),
        ("2", "is 2, which only development versions wrote"),
        ("3", "is 3, which only"),
        ("4", "is 4, which only"),
        ("5", "is 5, whose fits have another form: refit it"),
        ("6", "is 6, whose fits have another form: refit it"),
    ] {
        let version = format!("\"flipcast_calibration\": {version}");
        let other = without_check(&newer).replacen("\"flipcast_calibration\": 8", &version, 1);
        scratch.write("other.json", other.as_bytes());
        with(&scratch.path("other.json")).expect(2, &[message]);
    }
}

#[test]
fn a_protocol_other_than_the_calibrations_is_refused() {
    let args = [estimate_args(ASSETS), vec!["--protocol".into(), "paper".into()]].concat();
    run(&args).expect(2, &["made with protocol `flipcast`", "--protocol paper"]);
    let args = [estimate_args(ASSETS), vec!["--level".into(), "1.5".into()]].concat();
    run(&args).expect(2, &["--level is 1.5"]);
}

/// Pictures of two classes: sixteen files, half a class each.
fn pictures(scratch: &Scratch) {
    for number in 0..16 {
        let class = NAMES[number % 2];
        scratch.write(&format!("data/{class}/{number}.jpg"), &picture(32, number));
    }
}

#[test]
fn calibrate_writes_an_artefact_that_estimate_takes() {
    let scratch = Scratch::new("calibrate");
    pictures(&scratch);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let (data, out) = (scratch.path("data"), scratch.path("c.json"));
    let calibrate = ["calibrate", "--model", &model, "--data", &data, "--protocol", "statistics", "--out", &out];
    flipcast(&calibrate).expect(0, &[]).prints(&["of 16 clean images right", "combined", "written to"]);
    let artefact: Value = serde_json::from_slice(&fs::read(&out).expect("written")).expect("JSON");
    assert_eq!(artefact["flipcast_calibration"], json!(8));
    let text = fs::read_to_string(&out).expect("written");
    let mut changed = artefact.clone();
    changed["seed"] = json!(7);
    scratch.write("changed.json", changed.to_string().as_bytes());
    let changed = scratch.path("changed.json");
    flipcast(&["estimate", "--model", &model, "--calibration", &changed, "--data", &data])
        .expect(2, &["changed after it was written"]);
    scratch.write("old.json", without_check(&text).as_bytes());
    let old = scratch.path("old.json");
    flipcast(&["estimate", "--model", &model, "--calibration", &old, "--data", &data]).expect(0, &[]);
    assert_eq!(artefact["cells"].as_array().expect("cells").len(), 28);
    let estimate = ["estimate", "--model", &model, "--calibration", &out, "--data", &data];
    flipcast(&estimate).expect(0, &[]).prints(&["source model, truth", "combined", "too_few_images"]);
}

/// Arguments that calibrate the demo's model on a few of its images.
fn calibrate_args(out: &str) -> Vec<String> {
    let model = asset("resnet20.fashion_mnist.safetensors");
    let args = ["calibrate", "--model", &model, "--data", ASSETS, "--limit", "24", "--quick", "--out", out];
    args.map(str::to_owned).to_vec()
}

/// The artefact without what differs from run to run.
fn untimed(path: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                // The checksum covers the timings.
                fields.remove("seconds");
                fields.remove("check");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut artefact = serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON");
    strip(&mut artefact);
    artefact
}

#[test]
fn calibrate_tells_the_cost_first_and_its_progress_off_a_terminal() {
    let scratch = Scratch::new("calibrate-cost");
    let args = calibrate_args(&scratch.path("c.json"));
    let plain = [args.clone(), vec!["--progress".into(), "plain".into()]].concat();
    let told = run(&plain)
        .expect(0, &["28 cells of 24 images: 12,096 predictions, about", "c.cells.jsonl", "calibrate: 1 of 28, clean"]);
    let (cost, progress) = (told.stderr.find("predictions"), told.stderr.find("1 of 28"));
    assert!(cost < progress, "{}", told.stderr);
    let again = run(&args).expect(0, &["28 cells of 24 images, 28 of them known"]);
    assert_eq!(again.stdout, told.stdout, "from the kept cells alone");
    let quiet = run(&[args, vec!["--quiet".into()]].concat()).expect(0, &[]);
    assert_eq!(quiet.stderr, "");
}

#[cfg(unix)]
#[test]
fn an_interrupted_calibration_goes_on_from_its_cells_and_ends_the_same() {
    let scratch = Scratch::new("calibrate-interrupted");
    let (out, cells) = (scratch.path("c.json"), scratch.path("c.cells.jsonl"));
    let args = calibrate_args(&out);
    let child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = || fs::read_to_string(&cells).map_or(0, |text| text.lines().count());
    let patience = Instant::now() + Duration::from_secs(120);
    while lines() < 2 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    assert!(stderr.contains("interrupted") && stderr.contains("c.cells.jsonl"), "{stderr}");
    assert!(!fs::exists(&out).expect("readable"), "nothing half-written stays");
    let kept = lines();
    assert!((2..28).contains(&kept), "{kept} cells");
    run(&args).expect(0, &[&format!("{kept} of them known")]);
    let undisturbed = scratch.path("undisturbed.json");
    run(&calibrate_args(&undisturbed)).expect(0, &[]);
    assert_eq!(untimed(&out), untimed(&undisturbed));
    assert_eq!(lines(), fs::read_to_string(scratch.path("undisturbed.cells.jsonl")).expect("kept").lines().count());
}

#[cfg(unix)]
#[test]
fn a_calibration_whose_error_stream_is_closed_ends_at_a_signal() {
    let scratch = Scratch::new("calibrate-unheard");
    let (out, cells) = (scratch.path("c.json"), scratch.path("c.cells.jsonl"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args([calibrate_args(&out), vec!["--progress".into(), "plain".into()]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stderr.take());
    let lines = || fs::read_to_string(&cells).map_or(0, |text| text.lines().count());
    let patience = Instant::now() + Duration::from_secs(120);
    while lines() < 1 && Instant::now() < patience && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill is there");
    let mut ended = None;
    while ended.is_none() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
        ended = child.try_wait().expect("a child");
    }
    if ended.is_none() {
        child.kill().expect("SIGKILL");
    }
    assert_eq!(ended.and_then(|status| status.code()), Some(143));
    assert!(!fs::exists(&out).expect("readable"), "nothing half-written stays");
}

#[test]
fn calibrate_does_not_write_over_the_models_own_files() {
    let scratch = Scratch::new("calibrate-over");
    pictures(&scratch);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let data = scratch.path("data");
    let calibrate = |out: &str| flipcast(&["calibrate", "--model", &model, "--data", &data, "--quick", "--out", out]);
    let card = std::path::Path::new(&model).with_extension("json");
    let dotted = scratch.path("./data/../tiny.json");
    for out in [card.to_str().expect("UTF-8"), &dotted] {
        calibrate(out)
            .expect(2, &["is the place of the model card of", "would be overwritten", "tiny.calibration.json"]);
    }
    calibrate(&model).expect(2, &["is the weight file", "tiny.calibration.json"]);
}

#[test]
fn a_quick_calibration_has_no_other_protocol() {
    let args = ["calibrate", "--quick", "--protocol", "paper", "--model", "x", "--data", "y"];
    flipcast(&args).expect(2, &["--quick", "--protocol"]);
}

#[test]
fn calibration_needs_labels_of_the_models_classes() {
    let scratch = Scratch::new("calibrate-bad");
    pictures(&scratch);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let calibrate = |data: &str, more: &[&str]| {
        let out = scratch.path("c.json");
        let fixed = ["calibrate", "--model", &model, "--data", data, "--out", &out];
        flipcast(&[&fixed, more].concat())
    };
    for number in 0..3 {
        scratch.write(&format!("flat/{number}.jpg"), &picture(32, number));
    }
    calibrate(&scratch.path("flat"), &[]).expect(2, &["have no label", "hint:"]);
    calibrate(&scratch.path("absent"), &[]).expect(2, &["absent"]);
    fs::create_dir_all(scratch.path("empty")).expect("writable");
    calibrate(&scratch.path("empty"), &[]).expect(2, &["empty"]);
    scratch.write("list.csv", b"data/dog/0.jpg,0\ndata/cat/1.jpg,7\n");
    calibrate(&scratch.path("list.csv"), &[]).expect(2, &["not one of the model's 2 classes", "hint:"]);
    scratch.write("data/dog/bad.jpg", b"not a picture");
    calibrate(&scratch.path("data"), &[]).expect(2, &["bad.jpg"]);
    let other = write_model(&scratch, "three", 1, &json!(["a", "b", "c"]));
    flipcast(&["calibrate", "--model", &other, "--data", &scratch.path("data")]).expect(2, &["classes"]);
    let spec = format!("{}@fog:3", scratch.path("data"));
    calibrate(&spec, &[]).expect(2, &["with a corruption", "clean images"]);
    calibrate(&scratch.path("data"), &["--labels", "none"]).expect(2, &["--labels none", "hint:"]);
    calibrate(&scratch.path("data"), &["--limit", "0"]).expect(2, &["at least 1"]);
    calibrate(&scratch.path("data"), &["--limit", "-3"]).expect(2, &["'-3'", "at least 1"]);
    calibrate(&scratch.path("data"), &["--marginal", "subset:0,2"]).expect(2, &["class 2, expected 0 to 1"]);
    calibrate(&scratch.path("data"), &["--marginal", "given:1"]).expect(2, &["1 weights"]);
    calibrate(&scratch.path("data"), &["--protocol", "papr"]).expect(2, &["`papr`", "paper"]);
    assert!(!fs::exists(scratch.path("c.json")).expect("readable"), "nothing half-written stays");
}

#[test]
fn a_full_disk_is_the_environments_fault() {
    let scratch = Scratch::new("calibrate-full");
    pictures(&scratch);
    let model = write_model(&scratch, "tiny", 1, &json!(NAMES));
    let data = scratch.path("data");
    let calibrate = ["calibrate", "--model", &model, "--data", &data, "--record", "/dev/full"];
    let outcome = flipcast(&calibrate);
    assert_ne!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/dev/full"), "{}", outcome.stderr);
}

#[cfg(unix)]
#[test]
fn ctrl_c_says_what_is_kept() {
    let scratch = Scratch::new("estimate-interrupted");
    let record = scratch.path("cells.jsonl");
    let mut args = estimate_args(&format!("{ASSETS}@snow:1"));
    for severity in 2..=5 {
        args.extend(["--data".into(), format!("{ASSETS}@snow:{severity}")]);
    }
    args.extend(["--record".into(), record.clone()]);
    let child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = || fs::read_to_string(&record).map_or(0, |text| text.lines().count());
    let patience = Instant::now() + Duration::from_secs(120);
    while lines() < 1 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().expect("kill is there");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted") && stderr.contains("cells.jsonl"), "{stderr}");
    run(&args).expect(0, &[]);
    // A cell and its estimates for each of the five datasets.
    assert_eq!(lines(), 10, "none lost, none twice");
}

#[test]
fn a_run_killed_in_the_middle_goes_on_where_it_was() {
    let scratch = Scratch::new("estimate-killed");
    let record = scratch.path("cells.jsonl");
    let mut args = estimate_args(&format!("{ASSETS}@fog:1"));
    for severity in 2..=4 {
        args.extend(["--data".into(), format!("{ASSETS}@fog:{severity}")]);
    }
    args.extend(["--record".into(), record.clone()]);
    let lines = || fs::read_to_string(&record).map_or(0, |text| text.lines().count());
    let mut child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let patience = Instant::now() + Duration::from_secs(120);
    while lines() < 3 && Instant::now() < patience && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    let before = lines();
    assert!(before >= 3, "{before} records");
    let first = run(&args).expect(0, &[]).stdout;
    // A cell and its estimates for each of the four datasets.
    assert_eq!(lines(), 8, "none lost, none twice");
    assert_eq!(run(&args).expect(0, &[]).stdout, first, "from the records alone");
    assert_eq!(lines(), 8);
}

#[test]
fn parts_of_all_shards_give_the_estimate_of_the_whole() {
    let scratch = Scratch::new("shards");
    let data = format!("{ASSETS}@gaussian_noise:3");
    let whole = objects(&run(&estimate_args(&data)).expect(0, &[]).stdout).remove(0);
    let part = |index: usize| scratch.path(&format!("{index}.part"));
    for index in 1..=3 {
        let shard = ["--shard".into(), format!("{index}/3"), "--part".into(), part(index)];
        let made = objects(&run(&[estimate_args(&data), shard.to_vec()].concat()).expect(0, &[]).stdout).remove(0);
        assert_eq!(made["shard"], json!(format!("{index}/3")));
        assert!(made["images"].as_u64().is_some_and(|images| (30..110).contains(&images)), "{made}");
    }
    let merge = |indices: &[usize], more: &[&str]| {
        let calibration = asset("calibration.json");
        let fixed = ["estimate", "merge", "--calibration", &calibration].map(str::to_owned);
        let parts = indices.iter().map(|&index| part(index));
        run(&fixed.into_iter().chain(parts).chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>())
    };
    let merged = objects(&merge(&[3, 1, 2], &["--json"]).expect(0, &[]).stdout).remove(0);
    for key in ["images", "truth", "skipped"] {
        assert_eq!(merged[key], whole[key], "{key}");
    }
    assert_eq!(merged["sample"]["is_complete"], json!(true));
    for name in ["ac", "doc", "atc_mc"] {
        assert_eq!(merged["estimates"][name]["accuracy"], whole["estimates"][name]["accuracy"], "{name}");
    }
    let combined = |seen: &Value, key: &str| seen["estimates"]["combined"][key].as_f64().expect("a number");
    let (low, high) = (combined(&whole, "low"), combined(&whole, "high"));
    assert!((low..=high).contains(&combined(&merged, "accuracy")), "{merged}");
    merge(&[1, 2, 3], &[]).expect(0, &[]).prints(&["200 images in 3 shards", "exact, over all images", "combined"]);

    merge(&[1, 3], &[]).expect(2, &["1 of 3 shards are missing: 2/3", "make the missing parts"]);
    merge(&[1, 2, 2, 3], &[]).expect(2, &["shard 2/3 is in"]);
    fs::write(part(2), b"flipcast part").expect("writable");
    merge(&[1, 2, 3], &[]).expect(2, &["is not a part that this version can read"]);
    let args = |more: &[&str]| [estimate_args(&data), more.iter().map(|word| (*word).to_owned()).collect()].concat();
    run(&args(&["--shard", "4/3", "--part", &part(4)])).expect(2, &["expected `I/N`"]);
    run(&args(&["--shard", "1/3"])).expect(2, &["--part"]);
    run(&args(&["--shard", "1/3", "--part", &part(4), "--by-class"])).expect(2, &["--by-class"]);
}
