use crate::run::flipcast;
use crate::scratch::{Scratch, picture};
use flipcast_corrupt::blocks::jpeg::encode;
use flipcast_images::Image;
use std::process::{Command, Stdio};

#[test]
fn data_list_shows_the_known_datasets() {
    flipcast(&["data", "list"]).expect(0, &[]).prints(&[
        "imagenet-c-bar",
        "first 25,000",
        "objectnet",
        "may never be used to tune",
    ]);
    flipcast(&["data", "list", "imagenet-v2"]).expect(0, &[]).prints(&[
        "matched-frequency",
        "top-images",
        "10,000 a split",
    ]);
    let lines = flipcast(&["data", "list", "--json"]).expect(0, &[]).stdout;
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("an object");
    assert_eq!(first["name"], "imagenet-c");
    assert_eq!(first["splits"].as_array().map(Vec::len), Some(75));
    flipcast(&["data", "list", "imagnet-r"]).expect(2, &["nearest are `imagenet-r`", "hint: "]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flipcast"))
        .args(["data", "list", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_good_folder_is_described() {
    let scratch = Scratch::with_pictures("good", 16);
    let data = scratch.path("data");
    flipcast(&["data", "check", &data, "--threads", "2"]).expect(0, &[]).prints(&[
        "layout       class folders",
        "images       4, 4 with a label",
        "classes      2: cat, dog",
        "pixels       16 x 16",
        "unreadable   0",
    ]);
    scratch.write("data/dog/wide.jpg", &picture(40, 9));
    let json = flipcast(&["data", "check", &data, "--json"]).expect(0, &[]).stdout;
    let report: serde_json::Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(report["images"], 5);
    assert_eq!(report["splits"][0]["sizes"]["width"], serde_json::json!([16, 40]));
}

#[test]
fn splits_are_checked_one_by_one() {
    let scratch = Scratch::with_pictures("splits", 16);
    for below in ["fog/1/cat/a.jpg", "fog/1/dog/b.jpg", "fog/2/cat/a.jpg", "fog/2/dog/b.jpg"] {
        scratch.write(&format!("c/{below}"), &picture(16, 1));
    }
    let path = scratch.path("c/fog");
    flipcast(&["data", "check", &path]).expect(0, &[]).prints(&["splits       2, 4 images"]);
    flipcast(&["data", "check", &path, "--split", "2"]).expect(0, &[]).prints(&["images       2, 2 with a label"]);
    flipcast(&["data", "check", &path, "--split", "3"]).expect(2, &["has no split `3`", "hint: "]);
}

#[test]
fn files_that_are_not_read_are_counted() {
    let scratch = Scratch::with_pictures("ignored", 16);
    scratch.write("data/dog/a.heic", b"no reader");
    scratch.write("data/dog/b.avif", b"no reader");
    let data = scratch.path("data");
    flipcast(&["data", "check", &data]).expect(0, &[]).prints(&[
        "images       4, 4 with a label",
        "ignored      2 files ignored: 1 .avif, 1 .heic, such as `dog/a.heic`",
        "unreadable   0",
    ]);
    scratch.write("heic/a.heic", b"no reader");
    flipcast(&["data", "check", &scratch.path("heic")])
        .expect(2, &["holds no image that is read", "hint: .heic files"]);
}

#[test]
fn severities_without_class_folders_are_splits() {
    let scratch = Scratch::new("severities");
    for below in ["fog/1/a.jpg", "fog/3/a.jpg", "snow/1/a.jpg"] {
        scratch.write(&format!("c/{below}"), &picture(16, 1));
    }
    flipcast(&["data", "check", &scratch.path("c")]).expect(0, &[]).prints(&[
        "fog/1",
        "fog/3",
        "snow/1",
        "splits       3",
    ]);
}

#[test]
fn a_list_may_come_from_standard_input_or_a_pipe() {
    let scratch = Scratch::with_pictures("pipe", 16);
    let folder = scratch.path("data");
    for script in ["find \"$1\" -name '*.jpg' | \"$0\" data check -", "\"$0\" data check <(find \"$1\" -name '*.jpg')"]
    {
        let output = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_flipcast"), &folder]).output();
        let output = output.expect("bash starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("layout       list file") && text.contains("images       4"), "{output:?}");
    }
}

#[test]
fn corruptions_are_applied_in_memory() {
    let scratch = Scratch::with_pictures("memory", 16);
    let data = scratch.path("data");
    flipcast(&["data", "check", &format!("{data}@cifar-c/fog:2")])
        .expect(0, &[])
        .prints(&["corruption   cifar-c/fog:2, applied to every image in memory"]);
    flipcast(&["data", "check", &format!("{data}@fogg:2")])
        .expect(2, &["unknown corruption `fogg`", "nearest known: fog"]);
    flipcast(&["data", "check", &format!("{data}@fog:7")])
        .expect(2, &["severity `7` found, but 1, 2, 3, 4 or 5 expected"]);
}

#[test]
fn an_image_that_cannot_be_corrupted_keeps_its_reason() {
    let scratch = Scratch::with_pictures("too-long", 16);
    let long = Image::new(8200, 1, vec![9; 3 * 8200]).expect("one row");
    scratch.write("data/dog/long.jpg", &encode(&long, 90).expect("small"));
    flipcast(&["data", "check", &format!("{}@fog:2", scratch.path("data"))])
        .expect(1, &[])
        .prints(&["dog/long.jpg: the image cannot be corrupted: image of 8200 x 1 pixels found"]);
}

#[test]
fn unrelated_tars_are_answered_with_advice() {
    let scratch = Scratch::new("tars");
    for name in ["a.tar", "b.tar"] {
        scratch.write(name, &text_tar("classes.txt", b"cat"));
    }
    flipcast(&["data", "check", &scratch.path("")])
        .expect(2, &["sample `classes` has no image field", "name one tar, or a shard pattern"]);
}

/// A tar with one file.
fn text_tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    let size = format!("{:011o}\0", content.len());
    let fields: [(usize, &[u8]); 5] =
        [(0, name.as_bytes()), (100, b"0000644\0"), (124, size.as_bytes()), (156, b"0"), (257, b"ustar\x0000")];
    for (at, bytes) in fields {
        header[at..at + bytes.len()].copy_from_slice(bytes);
    }
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend(content);
    bytes.resize(512 * 4, 0);
    bytes
}

#[test]
fn nothing_to_read_is_bad_input() {
    let scratch = Scratch::new("nothing");
    flipcast(&["data", "check", &scratch.path("")]).expect(2, &["holds no images", "hint: "]);
    flipcast(&["data", "check", &scratch.path("absent")])
        .expect(2, &["error: cannot open", "absent", "hint: check the path"]);
    scratch.write("notes.pdf", b"%PDF-1.4 nothing to see");
    flipcast(&["data", "check", &scratch.path("notes.pdf")]).expect(2, &["is no dataset"]);
    scratch.write("list.csv", b"gone.jpg,1\n");
    flipcast(&["data", "check", &scratch.path("list.csv")])
        .expect(1, &[])
        .prints(&["gone.jpg: cannot read", "No such file"]);
    flipcast(&["data", "check"]).expect(2, &["PATH"]);
    flipcast(&["data", "check", &scratch.path(""), "--on-bad-image", "maybe"]).expect(2, &["skip", "fail"]);
}

#[test]
fn a_truncated_file_fires_the_check_and_is_named() {
    let scratch = Scratch::with_pictures("truncated", 32);
    let whole = picture(32, 5);
    scratch.write("data/dog/b.jpg", &whole[..whole.len() / 2]);
    scratch.write("data/dog/empty.png", b"");
    let data = scratch.path("data");
    flipcast(&["data", "check", &data]).expect(1, &["error: 2 of 6 images cannot be read"]).prints(&[
        "unreadable   2",
        "dog/b.jpg: the JPEG data ends after",
        "dog/empty.png: the file is empty",
    ]);
    let outcome = flipcast(&["data", "check", &data, "--on-bad-image", "fail", "--threads", "1"]);
    outcome.expect(1, &["is damaged", "unusable: `dog/b.jpg`", "hint: "]);
    let json = flipcast(&["data", "check", &data, "--json"]).expect(1, &[]).stdout;
    let report: serde_json::Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(report["splits"][0]["unreadable_named"][0]["id"], "dog/b.jpg");
}

#[test]
fn a_published_dataset_is_compared_with_its_description() {
    let scratch = Scratch::with_pictures("published", 16);
    for class in ["n01440764", "n01443537"] {
        scratch.write(&format!("c/fog/3/{class}/x.JPEG"), &picture(16, 2));
    }
    let root = scratch.path("c");
    flipcast(&["data", "check", &root, "--name", "imagenet-c"])
        .expect(1, &["2 images found in split `fog/3`, but 50,000 were published"])
        .prints(&["class space  imagenet-1k", "missing      74 splits: gaussian_noise/1"]);
    flipcast(&["data", "check", &root, "--name", "imagenet-c", "--split", "fogg/3"])
        .expect(2, &["has no split `fogg/3`", "`fog/3`"]);
    flipcast(&["data", "check", &root, "--name", "imagenet-q"]).expect(2, &["no dataset is called `imagenet-q`"]);
    flipcast(&["data", "check", &scratch.path("data"), "--name", "imagenet-val"])
        .expect(2, &["folder `cat` is no class of `imagenet-1k`"]);
}

#[test]
fn images_of_mixed_sizes_are_told_with_the_size_of_the_network() {
    let scratch = Scratch::new("mixed-sizes");
    for (number, side) in [56, 28, 28, 56, 28, 28].into_iter().enumerate() {
        scratch.write(&format!("data/{number}.jpg"), &picture(side, number));
    }
    let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");
    let (model, calibration) =
        (format!("{assets}/resnet20.fashion_mnist.safetensors"), format!("{assets}/calibration.json"));
    let data = scratch.path("data");
    let estimate = ["estimate", "--model", &model, "--calibration", &calibration, "--data", &data];
    let told = flipcast(&estimate).expect(
        2,
        &[
            "more than one size",
            "56 x 56 pixels",
            "28 x 28",
            "the network usually takes 28 x 28",
            "hint:",
            "`--resize 28x28`",
        ],
    );
    assert!(!told.stderr.contains("--on-bad-image"), "{}", told.stderr);
    flipcast(&[&estimate[..], &["--resize", "28x28"]].concat()).expect(0, &[]).prints(&["6 images"]);
}
