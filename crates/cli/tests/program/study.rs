//! `flipcast study`, with the images of the demo and a network so small that starting, writing and ending take most of the time.

use crate::run::{Outcome, flipcast};
use crate::scratch::Scratch;
use crate::tiny_model::write_weights;
use flipcast_models::Model;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

/// A plan of 40 cells of a few images, and the 21 of its calibration.
const PLAN: &str = r#"
[study]
name = "small"
question = "does it resume?"

[[models]]
name = "tiny"
weights = "${MODELS}/small.safetensors"

[[protocols]]
name = "short"
stops = [2]
batch_size = 8
probe_images = 16

[[calibrations]]
name = "first"
data = "${DATA}#first-half:0"
limit = 24

[[datasets]]
name = "shifts"
data = "${DATA}#second-half:0"
corruptions = ["fog", "snow", "frost", "contrast", "pixelate", "brightness", "gaussian_noise", "cifar-c/shot_noise"]
limit = 16

[[refits]]
kind = "curves"
estimators = ["ac"]
curves = ["linear"]
"#;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The setting that says where the network is; it is made when it is first asked for.
fn models(scratch: &Scratch) -> String {
    if !Path::new(&scratch.path("small.safetensors")).exists() {
        let model = Model::random("cifar_resnet8_w4", 10, 1).expect("a known architecture");
        let card = json!({
            "flipcast_model": 1,
            "architecture": "cifar_resnet8_w4",
            "classes": 10,
            "mean": [0.286, 0.286, 0.286],
            "std": [0.353, 0.353, 0.353],
            "resize": "none",
            "input_size": 28,
        });
        write_weights(scratch, "small", &model, &card);
    }
    format!("MODELS={}", scratch.path(""))
}

fn args(scratch: &Scratch, plan: &str, out: &str, more: &[&str]) -> Vec<String> {
    let fixed = [
        "study",
        "run",
        &scratch.path(plan),
        "--out",
        &scratch.path(out),
        "--set",
        &format!("DATA={ASSETS}"),
        "--set",
        &models(scratch),
        "--threads",
        "1",
    ]
    .map(str::to_owned);
    let more = more.iter().map(|arg| (*arg).to_owned());
    fixed.into_iter().chain(more).collect()
}

fn study(scratch: &Scratch, plan: &str, out: &str, more: &[&str]) -> Outcome {
    let args = args(scratch, plan, out, more);
    flipcast(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn start(scratch: &Scratch, plan: &str, out: &str, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(args(scratch, plan, out, more))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

fn status(scratch: &Scratch, plan: &str, out: &str) -> Value {
    let (plan, out, data) = (scratch.path(plan), scratch.path(out), format!("DATA={ASSETS}"));
    let models = models(scratch);
    let args = ["study", "status", &plan, "--out", &out, "--set", &data, "--set", &models, "--json"];
    let text = flipcast(&args).expect(0, &[]).stdout;
    serde_json::from_str(&text).expect("one object")
}

/// Everything in a record file but times, by key; a key that comes twice fails.
fn results(scratch: &Scratch, file: &str) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(scratch.path(file)).expect("records");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let mut record: Value = serde_json::from_str(line).expect("a whole record");
        let key = record["key"].as_str().expect("a key").to_owned();
        for time in ["created", "seconds", "check"] {
            record.as_object_mut().expect("an object").remove(time);
        }
        forget_times(&mut record["result"]);
        assert!(found.insert(key, record).is_none(), "a record came twice");
    }
    found
}

fn forget_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("seconds");
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        _ => {}
    }
}

fn kinds(records: &BTreeMap<String, Value>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in records.values() {
        *counts.entry(record["kind"].as_str().expect("a kind").to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_sweep_killed_at_twenty_moments_ends_as_one_that_was_left_alone() {
    let scratch = Scratch::new("study-killed");
    scratch.write("plan.toml", PLAN.as_bytes());
    study(&scratch, "plan.toml", "whole", &[])
        .expect(0, &[])
        .prints(&["40 cells made, 0 were there, 0 wait for data, 0 failed", "1 refits made"]);
    let whole = results(&scratch, "whole/records-1-of-1.jsonl");
    let counts = kinds(&whole);
    assert_eq!((counts["estimate"], counts["estimates"], counts["calibration"], counts["refit"]), (40, 40, 1, 1));
    assert!(counts["calibrate"] >= 21, "{counts:?}");

    // Each try is killed a random moment after a random number of new records, so that load does not move all kills to the start.
    let file = scratch.path("killed/records-1-of-1.jsonl");
    let kept = || fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    let mut numbers = Numbers(7);
    for _ in 0..20 {
        let (wanted, jobs) = (kept() + numbers.below(4) as usize, 1 + numbers.below(3));
        let mut child = start(&scratch, "plan.toml", "killed", &["--jobs", &jobs.to_string()]);
        let patience = Instant::now() + Duration::from_secs(60);
        while kept() < wanted && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(numbers.below(20)));
        child.kill().expect("SIGKILL");
        child.wait().expect("it ended");
    }
    let left = kept();
    assert!((10..whole.len()).contains(&left), "{left} records");
    study(&scratch, "plan.toml", "killed", &[]).expect(0, &[]);
    assert_eq!(results(&scratch, "killed/records-1-of-1.jsonl"), whole);
    // Once more: everything is there, nothing is added.
    let before = fs::read(&file).expect("records");
    study(&scratch, "plan.toml", "killed", &[]).expect(0, &[]).prints(&["0 cells made, 40 were there"]);
    assert_eq!(fs::read(&file).expect("records"), before);
    let rows = status(&scratch, "plan.toml", "killed");
    assert_eq!((&rows["rows"][0]["done"], &rows["rows"][0]["left"]), (&json!(40), &json!(0)));
}

#[test]
fn two_shards_at_once_make_what_one_run_makes() {
    let scratch = Scratch::new("study-shards");
    let plan = PLAN.replace("\"frost\", \"contrast\", \"pixelate\", \"brightness\", ", "");
    scratch.write("plan.toml", plan.as_bytes());
    study(&scratch, "plan.toml", "whole", &["--jobs", "2"]).expect(0, &[]);
    let mut shards = ["1/2", "2/2"].map(|shard| start(&scratch, "plan.toml", "parts", &["--shard", shard]));
    for shard in &mut shards {
        assert!(shard.wait().expect("it ends").success());
    }
    // Refits need all cells: whoever ends last has made them, or the next run does.
    study(&scratch, "plan.toml", "parts", &["--shard", "1/2"]).expect(0, &[]);
    let (parts, merged) = (scratch.path("parts"), scratch.path("merged.jsonl"));
    flipcast(&["study", "merge", &parts, "--out", &merged]).expect(0, &[]).prints(&["of 2 files"]);
    let whole = results(&scratch, "whole/records-1-of-1.jsonl");
    let joined = results(&scratch, "merged.jsonl");
    assert_eq!(joined, whole);
    // The same curves from the cells alone, without network and images.
    let (file, refits) = (scratch.path("plan.toml"), scratch.path("refits.jsonl"));
    let refit = ["study", "refit", &file, "--records", &merged, "--out", &refits];
    flipcast(&refit).expect(0, &[]).prints(&["20 of the plan's 20 cells found", "1 refits made, 0 were there"]);
    let again = results(&scratch, "refits.jsonl");
    assert!(again.iter().all(|(key, record)| whole.get(key) == Some(record)), "{again:?}");
    flipcast(&refit).expect(0, &[]).prints(&["0 refits made, 1 were there"]);
    let made = ["1", "2"].map(|shard| results(&scratch, &format!("parts/records-{shard}-of-2.jsonl")));
    for records in &made {
        let units = kinds(records)["estimates"];
        assert!(units > 0 && units < 20, "{units}");
    }
    // Whoever comes first makes a cell of the calibration, the other waits for it.
    let cells = |records: &BTreeMap<String, Value>| kinds(records).get("calibrate").copied().unwrap_or(0);
    assert_eq!(cells(&made[0]) + cells(&made[1]), cells(&whole));
    let set = [format!("DATA={ASSETS}"), models(&scratch)];
    let (file, out) = (scratch.path("plan.toml"), scratch.path("submitted"));
    let engine = ["study", "submit", &file, "--engine", "local", "--shards", "3", "--out", &out];
    flipcast(&[&engine[..], &["--set", &set[0], "--set", &set[1], "--", "--progress", "never"]].concat())
        .expect(0, &[])
        .prints(&["of 3 files"]);
    assert_eq!(results(&scratch, "submitted/merged.jsonl"), whole);
    // The order of the inputs changes nothing.
    let [one, two] = ["1", "2"].map(|s| scratch.path(&format!("parts/records-{s}-of-2.jsonl")));
    let again = scratch.path("again.jsonl");
    flipcast(&["study", "merge", &two, &one, "--out", &again]).expect(0, &[]);
    assert_eq!(fs::read(&again).expect("written"), fs::read(&merged).expect("written"));

    // A result that differs is refused, with both values.
    let mut record: Value =
        serde_json::from_str(fs::read_to_string(&merged).expect("records").lines().next().expect("one"))
            .expect("a record");
    let accuracy = record["result"]["cell"].get_mut("accuracy").map(|value| std::mem::replace(value, json!(2.0)));
    if accuracy.is_none() {
        record["result"] = json!({"accuracy": 2.0});
    }
    // Records of format 1 have no checksum to contradict them.
    record["format"] = json!(1);
    record.as_object_mut().expect("an object").remove("check");
    scratch.write("other.jsonl", format!("{record}\n").as_bytes());
    flipcast(&["study", "merge", &merged, &scratch.path("other.jsonl"), "--out", &again])
        .expect(2, &["different results", "merged.jsonl", "other.jsonl", record["key"].as_str().expect("a key")]);
}

#[test]
fn cells_of_other_record_files_are_not_made_again() {
    let scratch = Scratch::new("study-known");
    let plan = PLAN.replace("\"fog\", \"snow\", \"frost\", \"contrast\", \"pixelate\", \"brightness\", ", "");
    scratch.write("plan.toml", plan.as_bytes());
    study(&scratch, "plan.toml", "first", &[]).expect(0, &[]).prints(&["10 cells made"]);
    let known = scratch.path("known.jsonl");
    fs::rename(scratch.path("first/records-1-of-1.jsonl"), &known).expect("one file system");
    let args = ["--records", known.as_str()];
    study(&scratch, "plan.toml", "second", &args)
        .expect(0, &[])
        .prints(&["0 cells made, 10 were there", "0 refits made, 1 were there"]);
    assert_eq!(fs::read(scratch.path("second/records-1-of-1.jsonl")).expect("a file"), b"");
    let (file, out, models) = (scratch.path("plan.toml"), scratch.path("second"), models(&scratch));
    let data = format!("DATA={ASSETS}");
    let status = ["study", "status", &file, "--out", &out, "--set", &data, "--set", &models, "--json"];
    flipcast(&status).expect(0, &[]).prints(&["\"done\":0"]);
    flipcast(&[&status[..], &args].concat()).expect(0, &[]).prints(&["\"done\":10"]);
    let gone = scratch.path("gone.jsonl");
    study(&scratch, "plan.toml", "second", &["--records", &gone]).expect(2, &["gone.jsonl", "known.jsonl"]);
}

#[test]
fn two_runs_on_one_shard_notice_each_other() {
    let scratch = Scratch::new("study-twice");
    scratch.write("plan.toml", PLAN.as_bytes());
    let mut first = start(&scratch, "plan.toml", "out", &[]);
    let file = scratch.path("out/records-1-of-1.jsonl");
    let patience = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&file).map_or(0, |found| found.len()) == 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = study(&scratch, "plan.toml", "out", &[]);
    let was_running = first.try_wait().expect("a child").is_none();
    first.kill().expect("SIGKILL");
    first.wait().expect("it ended");
    if was_running {
        second.expect(3, &["another run is at work on shard 1/1"]);
    }
}

#[test]
fn what_is_missing_is_named_and_the_rest_is_run() {
    let scratch = Scratch::new("study-missing");
    let plan = PLAN.replace("corruptions = [\"fog\", \"snow\", \"frost\", \"contrast\", \"pixelate\", \"brightness\", \"gaussian_noise\", \"cifar-c/shot_noise\"]", "corruptions = [\"fog\"]\nseverities = [3]")
        + "
[[datasets]]
name = \"absent\"
data = \"${NOWHERE}\"
dataset = \"imagenet-v2\"
get = \"the moon\"
[[datasets]]
name = \"gone\"
data = \"${DATA}/no/such/folder\"
[[datasets]]
name = \"broken\"
data = \"${BROKEN}\"
";
    scratch.write("plan.toml", plan.as_bytes());
    scratch.write("bad/0/a.jpg", b"not a picture");
    let set = format!("BROKEN={}", scratch.path("bad"));
    let outcome = study(&scratch, "plan.toml", "out", &["--set", &set]);
    outcome.expect(1, &["1 cells failed", "a.jpg"]).prints(&[
        "1 cells made",
        "4 wait for data, 1 failed",
        "`absent`",
        "NOWHERE has no value",
        "the moon",
        "no/such/folder",
    ]);
    let rows = status(&scratch, "plan.toml", "out");
    let row = |name: &str| {
        let rows = rows["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["dataset"] == name).expect("a row").clone()
    };
    assert_eq!(row("shifts")["done"], json!(1));
    assert_eq!(row("absent")["waiting"], json!(3));
    let nothing = PLAN.replace("${DATA}", "${DATA}/no/such/folder");
    scratch.write("nothing.toml", nothing.as_bytes());
    study(&scratch, "nothing.toml", "none", &[]).expect(3, &["wait for data"]);
}

#[test]
fn a_misspelt_variable_or_choice_of_cells_is_refused() {
    let scratch = Scratch::new("study-typos");
    scratch.write("plan.toml", PLAN.as_bytes());
    let run = |more: &[&str]| study(&scratch, "plan.toml", "out", &[more, &["--dry-run"]].concat());
    run(&["--set", "MODEL=x"]).expect(2, &["--set names `MODEL`", "has no such variable", "`MODELS`"]);
    run(&["--only", "gaussian-noise"])
        .expect(2, &["--only is `gaussian-noise`", "none of the plan's", "called such as"]);
    assert!(!Path::new(&scratch.path("out")).exists());
    // A shard need not have a cell of those asked for.
    let shards = ["1/64", "2/64", "3/64"].map(|shard| run(&["--only", "fog:1", "--shard", shard]).expect(0, &[]));
    assert!(shards.iter().any(|shard| shard.stdout.starts_with("0 cells")));
}

#[test]
fn plans_are_listed_printed_and_refused_with_their_place() {
    let scratch = Scratch::new("study-plans");
    flipcast(&["study", "plans"]).expect(0, &[]).prints(&["table1", "326", "tiny_imagenet", "378"]);
    flipcast(&["study", "plan", "table1"]).expect(0, &[]).prints(&["[study]", "imagenet-c-bar"]);
    flipcast(&["study", "plan", "table9"]).expect(2, &["`table9`", "table1"]);
    let out = scratch.path("out");
    flipcast(&["study", "run", "table1", "--out", &out, "--dry-run", "--shard", "1/4"]).expect(0, &[]).prints(&[
        "resnet50 code imagenet-",
        "without data",
        "get it:",
    ]);
    assert!(!fs::exists(&out).expect("readable"));
    flipcast(&["study", "run", "table1", "--out", &out, "--shard", "5/4"]).expect(2, &["`5/4`"]);
    flipcast(&["study", "run", "no-such", "--out", &out]).expect(2, &["`no-such`", "hint:"]);
    scratch.write("plan.toml", PLAN.replace("limit = 16", "limt = 16").as_bytes());
    study(&scratch, "plan.toml", "out", &[]).expect(2, &["line ", "column 1", "limt"]);
}

#[test]
fn a_submission_is_shown_before_it_is_made() {
    let scratch = Scratch::new("study-submit");
    let out = scratch.path("out");
    let submit =
        |more: &[&str]| flipcast(&[&["study", "submit", "table1", "--shards", "8", "--out", &out], more].concat());
    let array = [
        "--engine",
        "slurm",
        "--partition",
        "gpu",
        "--gpus",
        "1",
        "--cpus",
        "8",
        "--dry-run",
        "--",
        "--device",
        "cuda",
        "--jobs",
        "4",
    ];
    submit(&array).expect(0, &[]).prints(&[
        "#SBATCH --array=1-8",
        "#SBATCH --partition=gpu",
        "study run table1",
        "--device cuda --jobs 4 --threads 2 --shard",
        "study merge",
    ]);
    submit(&["--engine", "ray", "--dry-run"])
        .expect(0, &[])
        .prints(&["@ray.remote(num_cpus=1, num_gpus=0", "\"table1\""]);
    let cluster = ["--engine", "kubernetes", "--image", "registry.example/flipcast", "--claim", "study", "--dry-run"];
    submit(&cluster).expect(0, &[]).prints(&["completionMode: Indexed", "completions: 8"]);
    assert!(!fs::exists(&out).expect("readable"));
    submit(&["--engine", "kubernetes", "--dry-run"]).expect(2, &["needs `--image`", "--claim NAME"]);
    submit(&["--engine", "slurm", "--", "--jbs", "4"]).expect(2, &["--jbs", "`flipcast study run --help`"]);
    flipcast(&["study", "submit", "table1", "--engine", "slurm", "--shards", "0", "--out", &out])
        .expect(2, &["0 is not in"]);
}

/// Programs of Slurm that write down how they are called; `sbatch` refuses what `REFUSE` names.
#[cfg(unix)]
fn pretend_slurm(scratch: &Scratch) -> String {
    use std::os::unix::fs::PermissionsExt;
    for (name, answer) in [("sbatch", "echo 17"), ("scontrol", "true"), ("scancel", "true")] {
        let script = format!(
            "#!/bin/sh\necho {name} \"$@\" >> {}\ncase \"$*\" in *$REFUSE*) echo refused >&2; exit 1;; esac\n{answer}\n",
            scratch.path("calls")
        );
        scratch.write(&format!("bin/{name}"), script.as_bytes());
        let path = scratch.path(&format!("bin/{name}"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("owned");
    }
    format!("{}:/usr/bin:/bin", scratch.path("bin"))
}

#[cfg(unix)]
#[test]
fn an_array_of_slurm_is_held_until_what_joins_it_is_in_the_queue() {
    let scratch = Scratch::new("study-slurm");
    let path = pretend_slurm(&scratch);
    let calls = || fs::read_to_string(scratch.path("calls")).expect("called");
    let submit = |refuse: &str| {
        let _ = fs::remove_file(scratch.path("calls"));
        let out = scratch.path("out");
        let args = ["study", "submit", "table1", "--engine", "slurm", "--shards", "2", "--out", &out];
        crate::run::flipcast_with(&args, &[("PATH", &path), ("REFUSE", refuse)])
    };
    submit("nothing").expect(0, &[]).prints(&["2 shards submitted as Slurm job 17"]);
    let words: Vec<String> =
        calls().lines().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(words, ["sbatch --parsable --hold", "sbatch --parsable --dependency=afterok:17", "scontrol release 17"]);
    submit("finish.sbatch").expect(3, &["`sbatch` refused the study: refused"]);
    assert!(calls().ends_with("scancel 17\n"), "{}", calls());
}
