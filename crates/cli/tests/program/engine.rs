use crate::run::{flipcast, flipcast_with};

const TINY: [&str; 11] =
    ["bench", "--model", "cifar_resnet20", "--batch", "2", "--size", "16", "--repeat", "1", "--threads", "1"];

#[test]
fn bench_times_a_tiny_network() {
    flipcast(&TINY).expect(0, &[]).prints(&["cifar_resnet20, 2 x 3 x 16 x 16, 1 threads", "forward", "step", "memory"]);
}

#[test]
fn bench_writes_json() {
    let outcome = flipcast(&[&TINY[..], &["--json"]].concat()).expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert_eq!(report["batch"], 2);
    assert_eq!(report["step_ms"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_profile_is_a_result() {
    let text = flipcast(&[&TINY[..], &["--profile"]].concat()).expect(0, &[]);
    assert_eq!(text.stderr, "");
    text.prints(&["memory ", "GFLOP/s  work", "backward "]);
    let outcome = flipcast(&[&TINY[..], &["--profile", "--json"]].concat()).expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one object");
    let shares = report["profile"].as_array().expect("shares");
    assert!(shares.iter().any(|share| share["gflop"].as_f64() > Some(0.0)), "{report}");
}

#[test]
fn bench_refuses_what_cannot_be_run() {
    flipcast(&["bench", "--model", "resnet5"]).expect(2, &["`resnet5`", "resnet50"]);
    flipcast(&["bench", "--model", "cifar_resnet20", "--batch", "0", "--size", "16"])
        .expect(2, &["error: cannot run `cifar_resnet20`", "0"]);
    flipcast(&["bench", "--model", "cifar_resnet20", "--mean", "0.5", "--std", "0.2"])
        .expect(2, &["preprocessing was given for `cifar_resnet20`, which is made of random weights"]);
    flipcast(&["bench", "--model", "cifar_resnet20", "--repeat", "0"])
        .expect(2, &["--repeat is 0, expected at least 1"]);
    flipcast(&["bench", "--model", "resnet50", "--batch", "100000000"])
        .expect(2, &["cannot be had", "hint: make the batches smaller"]);
    flipcast(&["bench", "--bathc", "2"]).expect(2, &["--batch"]);
}

#[test]
fn env_names_the_instruction_sets() {
    flipcast(&["env"]).expect(0, &[]).prints(&["instruction sets: ", "scalar", "FLIPCAST_ISA", "(unset)"]);
    flipcast_with(&["env"], &[("FLIPCAST_ISA", "scalar")]).expect(0, &[]).prints(&["in use: scalar"]);
}

#[test]
fn an_unknown_instruction_set_is_the_environment_s_fault() {
    let nonsense = [("FLIPCAST_ISA", "nonsense")];
    flipcast_with(&["env"], &nonsense).expect(3, &["FLIPCAST_ISA is `nonsense`", "scalar"]);
    flipcast_with(&TINY, &nonsense).expect(3, &["FLIPCAST_ISA is `nonsense`"]);
}

#[test]
fn an_unknown_device_or_precision_is_refused() {
    let bench = |more: &[&str]| flipcast(&[&TINY[..], more].concat());
    bench(&["--device", "gpu"]).expect(2, &["gpu", "cuda"]);
    bench(&["--device", "cuda", "--precision", "f16"]).expect(2, &["f16", "bf16"]);
}

#[test]
fn a_missing_gpu_is_the_environment_s_fault() {
    let without = flipcast(&["env"]);
    if !without.stdout.contains("`CUDA driver` cannot be loaded") {
        println!("skipped: this machine has an NVIDIA driver");
        return;
    }
    flipcast(&[&TINY[..], &["--device", "cuda"]].concat()).expect(3, &["CUDA driver", "hint:"]);
}

#[test]
fn whole_cells_are_timed_by_their_parts() {
    let cells = ["bench", "--cell", "--model", "cifar_resnet8_w4", "--classes", "4", "--images", "40", "--cells", "2"];
    let cells = [&cells[..], &["--protocol", "statistics", "--threads", "1"]].concat();
    let parts = ["2 cells of 40 images", "decoding", "corrupting", "network", "estimators", "one by one", "in flight"];
    flipcast(&cells).expect(0, &[]).prints(&parts);
    let outcome = flipcast(&[&cells[..], &["--json"]].concat()).expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert_eq!(report["cells"].as_array().map(Vec::len), Some(2));
    assert!(report["in_flight_seconds"].as_f64() > Some(0.0));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/resnet20.fashion_mnist.safetensors");
    let with_file = ["bench", "--cell", "--model", file, "--images", "40", "--cells", "1", "--protocol", "statistics"];
    let told = flipcast(&[&with_file[..], &["--threads", "1", "--mean", "0.3"]].concat()).expect(0, &[]);
    told.prints(&["1 cells of 40 images", "with 10 classes"]);
    flipcast(&["bench", "--images", "40"]).expect(2, &["--cell"]);
    flipcast(&["bench", "--cell", "--cells", "0"]).expect(2, &["at least 1"]);
}
