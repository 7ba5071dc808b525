use crate::run::{Outcome, flipcast};
use crate::scratch::{Scratch, picture};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Corrupts `data` of `scratch` into `out`, with more arguments behind.
fn corrupt(scratch: &Scratch, set: &str, more: &[&str]) -> Outcome {
    let (data, out) = (scratch.path("data"), scratch.path("out"));
    let fixed = ["corrupt", "--data", &data, "--out", &out, "--set", set];
    flipcast(&[&fixed, more].concat())
}

#[test]
fn folders_are_resumed_to_the_same_bytes() {
    let scratch = Scratch::with_pictures("folder", 80);
    let some = ["--corruption", "fog", "gaussian_noise", "--severity", "1", "3", "--resize-crop", "72,64"];
    let one = [&some[..], &["--threads", "1"]].concat();
    corrupt(&scratch, "tiny-imagenet-c", &one)
        .expect(0, &["clean images: 4, resize and crop: 72,64, corruptions of tiny-imagenet-c: 2"])
        .prints(&["wrote 16 of 16 images, in"]);
    let written = scratch.files("out");
    let first = scratch.path("out/gaussian_noise/3/dog/c.JPEG");
    assert!(written.contains_key(Path::new(&first)));
    corrupt(&scratch, "tiny-imagenet-c", &one).expect(0, &[]).prints(&["wrote 0 of 16 images, 16 were there"]);
    assert_eq!(scratch.files("out"), written);
    std::fs::remove_file(&first).expect("it was written");
    corrupt(&scratch, "tiny-imagenet-c", &[&some[..], &["--threads", "3"]].concat())
        .expect(0, &[])
        .prints(&["wrote 1 of 16 images"]);
    assert_eq!(scratch.files("out"), written);
    flipcast(&["data", "check", &scratch.path("out/fog/3")])
        .expect(0, &[])
        .prints(&["pixels       64 x 64", "classes      2: cat, dog"]);
}

#[test]
fn arrays_are_resumed_to_the_same_bytes() {
    let scratch = Scratch::with_pictures("npy", 32);
    corrupt(&scratch, "cifar-c", &["--corruption", "contrast,snow"]).expect(0, &[]).prints(&["wrote 40 of 40 images"]);
    let written = scratch.files("out");
    for name in ["contrast.npy", "snow.npy", "labels.npy"] {
        let path = scratch.path(&format!("out/{name}"));
        assert!(written.contains_key(Path::new(&path)), "{name}");
    }
    std::fs::remove_file(scratch.path("out/snow.npy")).expect("it was written");
    corrupt(&scratch, "cifar-c", &["--corruption", "contrast", "--corruption", "snow"])
        .expect(0, &[])
        .prints(&["wrote 20 of 40 images"]);
    assert_eq!(scratch.files("out"), written);
    flipcast(&["data", "check", &scratch.path("out")])
        .expect(0, &[])
        .prints(&["contrast.npy", "splits       2, 40 images"]);
    flipcast(&["data", "check", &scratch.path("out"), "--split", "snow"])
        .expect(0, &[])
        .prints(&["images       20, 20 with a label"]);
}

#[test]
fn a_folder_written_with_other_settings_is_refused() {
    let scratch = Scratch::with_pictures("settings", 32);
    let fog = ["--corruption", "fog"];
    corrupt(&scratch, "cifar-c", &fog).expect(0, &[]);
    let written = scratch.files("out");
    let with = |more: &[&'static str]| corrupt(&scratch, "cifar-c", &[&fog, more].concat());
    with(&["--seed", "1"]).expect(2, &["seed 0 there, 1 asked for", "hint: choose an empty folder"]);
    with(&["--layout", "folder"]).expect(2, &["layout npy there, folder asked for"]);
    with(&["--resize-crop", "32,24"])
        .expect(2, &["note: the first image is 24 x 24 pixels", "resize-crop none there, 32,24 asked for"]);
    with(&["--limit", "3"]).expect(2, &["images 4 there, 3 asked for"]);
    corrupt(&scratch, "cifar-c-bar", &[]).expect(2, &["set cifar-c there, cifar-c-bar asked for"]);
    scratch.write("data/dog/d.jpg", &picture(32, 8));
    std::fs::remove_file(scratch.path("data/dog/a.jpg")).expect("it was written");
    with(&[]).expect(2, &["names of the images"]);
    assert_eq!(scratch.files("out"), written);
}

#[test]
fn a_limit_is_an_even_sample_with_the_bytes_of_the_whole_set() {
    let scratch = Scratch::with_pictures("limit", 32);
    let (data, part) = (scratch.path("data"), scratch.path("part"));
    let noise = ["--corruption", "gaussian_noise", "--severity", "3", "--layout", "folder"];
    corrupt(&scratch, "cifar-c", &noise).expect(0, &[]).prints(&["wrote 4 of 4 images"]);
    let fixed = ["corrupt", "--data", &data, "--out", &part, "--set", "cifar-c", "--limit", "2"];
    flipcast(&[&fixed[..], &noise].concat()).expect(0, &["clean images: 2"]).prints(&["wrote 2 of 2 images"]);
    let images = |folder: &str| {
        let root = scratch.path(&format!("{folder}/gaussian_noise/3"));
        let files = scratch.files(folder).into_iter();
        let below = files.filter_map(|(path, bytes)| Some((path.strip_prefix(&root).ok()?.to_owned(), bytes)));
        below.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (whole, part) = (images("out"), images("part"));
    let classes: Vec<_> = part.keys().filter_map(|path| path.parent()).collect();
    assert_eq!(classes, [Path::new("cat"), Path::new("dog")]);
    assert!(part.iter().all(|(path, bytes)| whole[path] == *bytes));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_what_is_kept() {
    let scratch = Scratch::new("corrupt-stopped");
    for number in 0..40 {
        scratch.write(&format!("data/cat/{number:02}.jpg"), &picture(64, number));
    }
    let (data, out) = (scratch.path("data"), scratch.path("out"));
    let child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(["corrupt", "--data", &data, "--out", &out, "--set", "imagenet-c", "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let first = scratch.path("out/gaussian_noise/1/cat/00.JPEG");
    let patience = Instant::now() + Duration::from_secs(60);
    while !Path::new(&first).exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill is there");
    let ended = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8(ended.stderr).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(143), "{stderr}");
    let kept = format!("error: interrupted\n  hint: finished files are kept in `{out}`; the same command goes on");
    assert!(stderr.contains(&kept), "{stderr}");
    assert!(Path::new(&first).exists());
}

#[test]
fn folders_of_others_are_left_alone() {
    let scratch = Scratch::with_pictures("foreign", 32);
    scratch.write("out/fog/1/cat/a.JPEG", b"published");
    corrupt(&scratch, "cifar-c", &[]).expect(2, &["holds `fog`", "an empty folder"]);
    let (data, inside) = (scratch.path("data"), scratch.path("data/new/out"));
    flipcast(&["corrupt", "--data", &data, "--out", &inside, "--set", "cifar-c"]).expect(2, &["inside of --data"]);
    assert_eq!(scratch.files("").len(), 5);
}

#[test]
fn requests_that_cannot_be_met_are_refused_before_anything_is_written() {
    let scratch = Scratch::with_pictures("refused", 32);
    let refused = |set: &str, more: &[&str], parts: &[&str]| {
        corrupt(&scratch, set, more).expect(2, parts);
    };
    refused("cifar-c", &["--corruption", "gausian_noise"], &["unknown corruption `gausian_noise`", "gaussian_noise"]);
    refused("cifar-c", &["--corruption", "sparkles"], &["in set `cifar-c`"]);
    refused("imagenet-c", &["--severity", "6"], &["severity `6` found"]);
    refused("imagenet-c", &["--severity", "2.5"], &["severity `2.5` found"]);
    refused("cifar-c", &["--severity", "3"], &["all five severities", "--layout folder"]);
    refused("cifar-c", &["--resize-crop", "224,256"], &["`224,256` found", "256,224"]);
    refused("cifar-c", &["--threads", "5000"], &["--threads is 5000", "0 to 1024"]);
    refused("cifar-c", &["--limit", "0"], &["at least 1"]);
    refused("cifar-c", &["--frost", "no-such-folder"], &["frost1.png", "hint: "]);
    refused("cifar-d", &[], &["cifar-c"]);
    refused("ccc", &[], &["without `--accuracy-tables FILE`", "hint: measure your own"]);
    refused("cifar-c", &["--speed", "2000"], &["--speed belongs to `--set ccc`"]);
    let (data, out) = (scratch.path("data"), scratch.path("out"));
    let corrupted = format!("{data}@fog:1");
    flipcast(&["corrupt", "--data", &corrupted, "--out", &out, "--set", "cifar-c"])
        .expect(2, &["clean images were expected"]);
    flipcast(&["corrupt", "--data", "absent", "--out", &out, "--set", "cifar-c"]).expect(2, &["cannot open `absent`"]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn an_unreadable_image_stops_the_run_and_is_named() {
    let scratch = Scratch::with_pictures("unreadable", 32);
    scratch.write("data/dog/d.jpg", &picture(32, 5)[..200]);
    corrupt(&scratch, "cifar-c", &["--corruption", "fog", "--layout", "folder"]).expect(
        2,
        &["cannot read image 4 (`dog/d.jpg`)", "caused by: the JPEG data ends", "hint: finished files are kept"],
    );
    for (path, bytes) in scratch.files("out") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let whole = bytes.starts_with(&[0xff, 0xd8]) && bytes.ends_with(&[0xff, 0xd9]);
        assert!(whole || name.starts_with("flipcast-"), "{name}");
    }
}

#[test]
fn images_without_labels_make_arrays_without_labels() {
    let scratch = Scratch::new("unlabelled");
    for number in 0..3 {
        scratch.write(&format!("data/{number}.jpg"), &picture(32, number));
    }
    corrupt(&scratch, "cifar-c-bar", &["--corruption", "sparkles"])
        .expect(0, &["`labels.npy` is not written"])
        .prints(&["wrote 15 of 15 images"]);
    assert!(!Path::new(&scratch.path("out/labels.npy")).exists());
    assert!(Path::new(&scratch.path("out/sparkles.npy")).exists());
}

#[test]
fn the_calibration_kinds_are_written_for_images_of_any_size() {
    let scratch = Scratch::with_pictures("calibration", 50);
    let outcome = corrupt(&scratch, "calibration", &["--corruption", "rotate,occlude"]);
    outcome.expect(0, &["corruptions of calibration: 2"]).prints(&["wrote 40 of 40 images"]);
    for name in ["rotate.npy", "occlude.npy", "labels.npy"] {
        assert!(Path::new(&scratch.path(&format!("out/{name}"))).exists(), "{name}");
    }
    let folder = ["--layout", "folder", "--severity", "3", "--corruption", "banding"];
    std::fs::remove_dir_all(scratch.path("out")).expect("it was written");
    corrupt(&scratch, "calibration", &folder).expect(0, &[]).prints(&["wrote 4 of 4 images"]);
    assert!(Path::new(&scratch.path("out/banding/3/dog/c.JPEG")).exists());
}

#[test]
fn frost_textures_from_files_are_told_apart() {
    let scratch = Scratch::with_pictures("frost", 32);
    let names = ["frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"];
    for (number, name) in names.into_iter().enumerate() {
        scratch.write(&format!("frost/{name}"), &picture(300, number));
    }
    let folder = scratch.path("frost");
    let with = ["--corruption", "frost", "--frost", &folder];
    corrupt(&scratch, "cifar-c", &with).expect(0, &[]);
    corrupt(&scratch, "cifar-c", &["--corruption", "frost"]).expect(2, &["frost files ", "procedural asked for"]);
    scratch.write("frost/frost2.png", &picture(300, 9));
    corrupt(&scratch, "cifar-c", &with).expect(2, &["frost files "]);
}
