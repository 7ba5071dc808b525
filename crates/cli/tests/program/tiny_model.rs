use crate::scratch::Scratch;
use flipcast_models::Model;
use serde_json::{Map, Value, json};

/// Classes of the folders that [`Scratch::with_pictures`] makes, in another order.
pub const NAMES: [&str; 2] = ["dog", "cat"];

/// Writes a small random network for 32 x 32 pixels as `<name>.safetensors` with its card; gives the file.
pub fn write_model(scratch: &Scratch, name: &str, seed: u64, classes: &Value) -> String {
    let count = classes.as_array().map_or_else(|| classes.as_u64().expect("a number or names") as usize, Vec::len);
    let card = json!({
        "flipcast_model": 1,
        "architecture": "cifar_resnet20",
        "classes": classes,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.25, 0.25, 0.25],
        "resize": "none",
        "crop": 32,
        "interpolation": "bilinear",
    });
    let model = Model::random("cifar_resnet20", count, seed).expect("a known architecture");
    write_weights(scratch, name, &model, &card)
}

/// Writes a network as `<name>.safetensors` with its card; gives the file.
pub fn write_weights(scratch: &Scratch, name: &str, model: &Model, card: &Value) -> String {
    let mut header = Map::new();
    let mut data = Vec::new();
    let mut names: Vec<&String> = model.params().keys().collect();
    names.sort();
    for name in names {
        let tensor = &model.params()[name];
        let start = data.len();
        data.extend(tensor.values().iter().flat_map(|value| value.to_le_bytes()));
        let shape: Vec<usize> = tensor.shape().extents().to_vec();
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    let file = format!("{name}.safetensors");
    scratch.write(&file, &[&length[..], &header, &data].concat());
    scratch.write(&format!("{name}.json"), card.to_string().as_bytes());
    scratch.path(&file)
}
