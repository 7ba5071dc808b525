use crate::run::flipcast;
use crate::scratch::Scratch;
use crate::tiny_model::write_model;
use serde_json::json;

fn golden(file: &str) -> String {
    let root = std::env::var("FLIPCAST_GOLDEN")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden").to_owned());
    format!("{root}/weights/{file}")
}

#[test]
fn models_lists_architectures_and_weights() {
    let listed = flipcast(&["models", "list"]).expect(0, &[]).prints(&["Architectures", "25,557,032", "tv_in1k"]);
    assert_eq!(flipcast(&["models"]).expect(0, &[]).stdout, listed.stdout);
}

#[test]
fn models_show_tells_what_a_file_holds() {
    flipcast(&["models", "show", &golden("f32.safetensors")]).expect(0, &[]).prints(&[
        "format: safetensors",
        "sha256: ",
        "tensors: ",
        "model card: none; `",
    ]);
    flipcast(&["models", "show", &golden("f32.zip.pth")]).expect(0, &[]);
}

#[test]
fn models_show_says_once_why_a_network_cannot_be_used_and_what_to_do() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/damaged/endless_axes.onnx");
    let shown =
        flipcast(&["models", "show", file]).expect(0, &[]).prints(&["usable: no: ", "expected at most 1024", "hint: "]);
    assert_eq!(shown.stdout.matches("expected at most 1024").count(), 1, "{}", shown.stdout);
}

#[test]
fn models_show_refuses_other_files() {
    flipcast(&["models", "show", &golden("README.md")]).expect(2, &["error: cannot read", "caused by"]);
    flipcast(&["models", "show", "no-such-file.pth"]).expect(2, &["no-such-file.pth"]);
}

#[test]
fn models_show_tells_about_the_card_beside_the_file() {
    let scratch = Scratch::new("models-show");
    let model = write_model(&scratch, "tiny", 1, &json!(10));
    let show = || flipcast(&["models", "show", &model]).expect(0, &[]);
    show().prints(&[
        "cifar_resnet20 with 10 classes",
        "resnet20.cifar10",
        "tiny.json: cifar_resnet20, 10 classes, as it is",
    ]);
    scratch.write("tiny.json", b"{\"flipcast_model\": 1}");
    show().prints(&["tiny.json cannot be used: ", "missing field"]);
    scratch.write("tiny.json", b"{\"epochs\": 3}");
    show().prints(&["tiny.json` is something else"]);
}

#[test]
fn a_file_beside_the_weights_that_is_no_card_is_named() {
    let scratch = Scratch::new("models-note");
    let model = write_model(&scratch, "tiny", 1, &json!(10));
    scratch.write("tiny.json", b"{\"epochs\": 3}");
    let args = ["calibrate", "--model", &model, "--data", "."];
    flipcast(&args).expect(
        2,
        &["note: ", "is no model card", "preprocessing", "`resnet20.cifar10`", "--model resnet20.cifar10", "--mean"],
    );
}

#[test]
fn a_published_name_that_contradicts_the_card_is_refused() {
    let scratch = Scratch::new("models-conflict");
    let model = write_model(&scratch, "tiny", 1, &json!(10));
    let args = ["calibrate", "--model", "resnet20.cifar10", "--weights", &model, "--data", "."];
    flipcast(&args)
        .expect(2, &["tiny.json` and the name `resnet20.cifar10` disagree", "`normalise` is", "`--model FILE` alone"]);
}

/// A network that `torch.export` saved, with a card for 32 x 32 pixels beside it.
fn exported(scratch: &Scratch) -> String {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/resnet.pt2");
    scratch.write("net.pt2", &std::fs::read(program).expect("a golden"));
    let card = json!({
        "flipcast_model": 1, "classes": ["dog", "cat", "c", "d", "e", "f", "g"], "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25],
        "resize": "none", "crop": 32,
    });
    scratch.write("net.json", card.to_string().as_bytes());
    scratch.path("net.pt2")
}

#[test]
fn an_exported_program_is_shown_and_calibrated() {
    let scratch = Scratch::with_pictures("models-exported", 32);
    let model = exported(&scratch);
    flipcast(&["models", "show", &model]).expect(0, &[]).prints(&[
        "format: exported program",
        "network: 9 norm layers with 168 values that adapt, images of 17 x 14, 7 classes",
        "net.json: 7 classes, as it is",
        "operators: 9 aten.batch_norm, 9 aten.conv2d, ",
        "norms: 9 layers with 168 values that adapt",
        "input: 32 x 32, from the preprocessing",
        "classes: 7, from the network in the file, names from the model card `",
        "preprocessing: as it is, crop 32 x 32, mean 0.5,0.5,0.5, std 0.25,0.25,0.25, from the model card `",
        "missing: nothing",
    ]);
    let (data, out) = (scratch.path("data"), scratch.path("c.json"));
    flipcast(&["calibrate", "--model", &model, "--data", &data, "--protocol", "statistics", "--out", &out])
        .expect(0, &[])
        .prints(&["of 4 clean images right", "written to"]);
    flipcast(&["estimate", "--model", &model, "--calibration", &out, "--data", &data]).expect(0, &[]);
    flipcast(&[
        "adapt",
        "--model",
        &model,
        "--method",
        "tent",
        "--batch-size",
        "4",
        "--data",
        &data,
        "--out",
        &scratch.path("p.csv"),
    ])
    .expect(0, &[]);
}

#[test]
fn an_exported_program_is_asked_for_without_a_name() {
    let scratch = Scratch::with_pictures("models-exported-named", 32);
    let model = exported(&scratch);
    let data = scratch.path("data");
    flipcast(&["calibrate", "--model", "resnet18", "--weights", &model, "--data", &data])
        .expect(2, &["is an exported program, a network of its own, but was asked for as `resnet18`", "hint: "]);
    flipcast(&["calibrate", "--model", &model, "--classes", "9", "--data", &data])
        .expect(2, &["the network in the file has 7 classes, expected 9"]);
}

/// A network whose batch norms were folded away, with a card for 32 x 32 pixels beside it.
fn folded(scratch: &Scratch) -> String {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/onnx/resnet.folded.onnx");
    scratch.write("net.onnx", &std::fs::read(model).expect("a golden"));
    exported(scratch);
    scratch.path("net.onnx")
}

#[test]
fn folded_batch_norms_are_given_back_from_clean_images() {
    let scratch = Scratch::with_pictures("models-folded", 32);
    let (model, data) = (folded(&scratch), scratch.path("data"));
    flipcast(&["models", "show", &model]).expect(0, &[]).prints(&[
        "format: ONNX",
        "network: 0 norm layers",
        "perhaps behind 9 convolutions; `flipcast models restore` gives them back",
    ]);
    flipcast(&["models", "restore", &model, "--clean", &data]).expect(0, &[]).prints(&[
        "restored behind 9 convolutions (`conv1` to `layer3.0.downsample.0`), 168 values that adapt, from 4 clean images",
    ]);
    flipcast(&["models", "show", &model]).expect(0, &[]).prints(&["restored batch norms: ", "9, 4 clean images"]);
    let args = ["adapt", "--model", &model, "--method", "tent", "--batch-size", "4", "--data", &data];
    flipcast(&[&args[..], &["--out", &scratch.path("p.csv")]].concat())
        .expect(0, &["note: 9 batch norms are restored from"]);
    // Norms of one network are refused beside another.
    scratch.write(
        "net.onnx",
        &std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/onnx/ceil.script.onnx")).expect("a golden"),
    );
    flipcast(&["adapt", "--model", &model, "--method", "tent", "--data", &data])
        .expect(2, &["cannot use the restored batch norms", "was made for a network with SHA-256", "hint: "]);
}

#[test]
fn images_of_restored_norms_are_cut_and_prepared_as_asked_for() {
    let scratch = Scratch::with_pictures("models-folded-crop", 32);
    let (model, data) = (folded(&scratch), scratch.path("data"));
    let norms = || std::fs::read(scratch.path("net.norms.safetensors")).expect("norms were written");
    let restore = |more: &[&str]| flipcast(&[&["models", "restore", &model, "--clean", &data], more].concat());
    restore(&[]).expect(0, &[]);
    let plain = norms();
    restore(&["--mean", "0.4", "--std", "0.2"]).expect(0, &[]);
    assert_ne!(norms(), plain);
    for crop in ["padded:4", "resized:0.35"] {
        restore(&["--training-crop", crop]).expect(0, &[]).prints(&["from 4 clean images cut as in training"]);
        assert_ne!(norms(), plain);
        flipcast(&["models", "show", &model]).expect(0, &[]).prints(&["9, 4 clean images cut as in training", crop]);
    }
    restore(&["--training-crop", "none"]).expect(2, &["`none`, expected `padded:4`"]);
}

#[test]
fn calibration_restores_folded_batch_norms_unless_told_not_to() {
    let scratch = Scratch::with_pictures("models-folded-calibrate", 32);
    let (model, data, out) = (folded(&scratch), scratch.path("data"), scratch.path("c.json"));
    let args = ["calibrate", "--model", &model, "--data", &data, "--out", &out];
    flipcast(&[&args[..], &["--quick", "--no-restore"]].concat()).expect(2, &["has no batch norms"]);
    flipcast(&[&args[..], &["--no-restore"]].concat()).expect(0, &[]).prints(&["of 4 clean images right"]);
    flipcast(&["estimate", "--model", &model, "--calibration", &out, "--data", &data]).expect(0, &[]);
    flipcast(&[&args[..], &["--quick"]].concat())
        .expect(0, &["batch norms restored behind 9 convolutions"])
        .prints(&["of 4 clean images right"]);
    flipcast(&["estimate", "--model", &model, "--calibration", &out, "--data", &data]).expect(0, &[]);
    let cut = [&args[..], &["--quick", "--training-crop", "padded:4"]].concat();
    flipcast(&cut).expect(2, &["no folded batch norms left to restore", "hint: leave `--training-crop` out"]);
    std::fs::remove_file(scratch.path("net.norms.safetensors")).expect("norms were written");
    flipcast(&cut).expect(0, &["from 4 clean images cut as in training (padded:4)"]);
    // They are there now, from images cut so.
    flipcast(&cut).expect(0, &[]);
}

#[test]
fn a_card_is_written_once_and_then_found() {
    let scratch = Scratch::with_pictures("models-card", 32);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/resnet.pt2");
    scratch.write("net.pt2", &std::fs::read(program).expect("a golden"));
    let (model, data) = (scratch.path("net.pt2"), scratch.path("data"));
    let adapt = ["adapt", "--model", &model, "--method", "source", "--labels", "none", "--data", &data];
    flipcast(&adapt).expect(2, &["the preprocessing of `net` is not known"]);
    let own = ["models", "card", &model, "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25"];
    flipcast(&[&own[..], &["--resize", "wide"]].concat())
        .expect(2, &["'wide' for '--resize", "expected the short side"]);
    flipcast(&[&own[..], &["--resize", "40", "--crop", "32"]].concat())
        .expect(0, &[])
        .prints(&["net.json: 7 classes, short side to 40"]);
    flipcast(&own).expect(2, &["is there already"]);
    flipcast(&adapt).expect(0, &[]);
    let other = scratch.path("like.json");
    flipcast(&["models", "card", &model, "--like", "resnet50.tv_in1k", "--out", &other])
        .expect(0, &[])
        .prints(&["like.json: 7 classes"]);
}

#[test]
fn preprocessing_may_be_given_on_the_command_line() {
    let scratch = Scratch::with_pictures("models-preprocess", 32);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/resnet.pt2");
    scratch.write("net.pt2", &std::fs::read(program).expect("a golden"));
    let (model, data, out) = (scratch.path("net.pt2"), scratch.path("data"), scratch.path("p.csv"));
    let adapt = ["adapt", "--model", &model, "--method", "source", "--labels", "none", "--data", &data, "--out", &out];
    flipcast(&[&adapt[..], &["--mean", "0.5"]].concat())
        .expect(2, &["`std` is neither given nor known", "--std R,G,B"]);
    let bytes = |settings: &[&str]| {
        flipcast(&[&adapt[..], settings].concat()).expect(0, &[]);
        std::fs::read(&out).expect("predictions")
    };
    let given = bytes(&["--mean", "0.5", "--std", "0.25,0.25,0.25", "--crop", "32"]);
    exported(&scratch);
    let by_card = bytes(&[]);
    assert_ne!(bytes(&["--mean", "0.1"]), by_card, "settings go before the card");
    assert_eq!(bytes(&["--mean", "0.5"]), by_card, "the card says the same");
    let names = [",cat,", ",dog,", ",c,", ",d,", ",e,", ",f,", ",g,"];
    let unnamed = names.iter().fold(String::from_utf8(by_card).expect("text"), |text, name| text.replace(name, ",,"));
    assert_eq!(unnamed.as_bytes(), given, "the card says the same, with names");
    flipcast(&[&adapt[..], &["--crop", "wide"]].concat()).expect(2, &["expected a side"]);
}

#[test]
fn a_class_map_tells_what_folders_are_of_the_models_classes() {
    let scratch = Scratch::with_pictures("models-class-map", 32);
    let model = exported(&scratch);
    let (data, out) = (scratch.path("data"), scratch.path("p.csv"));
    let adapt = ["adapt", "--model", &model, "--method", "source", "--data", &data, "--out", &out, "--class-map"];
    let map = scratch.path("map.csv");
    let with = |table: &str| {
        scratch.write("map.csv", table.as_bytes());
        flipcast(&[&adapt[..], &[&map]].concat())
    };
    with("data class,model class\ncat,g\n")
        .expect(2, &["says nothing about 1 of the dataset's classes", "`dog`", "hint: "]);
    with("cat,c\ndog,\n").expect(0, &[]);
    with("cat,c\ndog,d\ndog,e\ndog,3\n").expect(0, &[]);
    with("cat,cow\ndog,dog\n").expect(2, &["names `cow` as a class of the model, which has 7 classes"]);
    flipcast(&[&adapt[..], &["16-class-imagenet"]].concat()).expect(2, &["about a network with 1000 outputs"]);
    flipcast(&[&adapt[..], &["16-clas"]].concat())
        .expect(2, &["neither a file nor a published class space", "16-class-imagenet"]);
}
