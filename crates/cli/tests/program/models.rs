use crate::run::flipcast;

fn golden(file: &str) -> String {
    let root = std::env::var("FLIPCAST_GOLDEN")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden").to_owned());
    format!("{root}/weights/{file}")
}

#[test]
fn models_lists_architectures_and_weights() {
    flipcast(&["models"]).expect(0, &[]).prints(&["architecture", "resnet50", "25,557,032", "tv_in1k"]);
}

#[test]
fn models_show_tells_what_a_file_holds() {
    flipcast(&["models", "show", &golden("f32.safetensors")]).expect(0, &[]).prints(&[
        "format: safetensors",
        "sha256: ",
        "tensors: ",
    ]);
    flipcast(&["models", "show", &golden("f32.zip.pth")]).expect(0, &[]);
}

#[test]
fn models_show_refuses_other_files() {
    flipcast(&["models", "show", &golden("README.md")]).expect(2, &["error: cannot read", "caused by"]);
    flipcast(&["models", "show", "no-such-file.pth"]).expect(2, &["no-such-file.pth"]);
}
