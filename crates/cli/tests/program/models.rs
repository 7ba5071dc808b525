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
    flipcast(&args).expect(2, &["note: ", "is no model card", "preprocessing", "--model resnet50.tv_in1k"]);
}

#[test]
fn a_published_name_that_contradicts_the_card_is_refused() {
    let scratch = Scratch::new("models-conflict");
    let model = write_model(&scratch, "tiny", 1, &json!(10));
    let args = ["calibrate", "--model", "resnet20.cifar10", "--weights", &model, "--data", "."];
    flipcast(&args)
        .expect(2, &["tiny.json` and the name `resnet20.cifar10` disagree", "`normalise` is", "`--model FILE` alone"]);
}
