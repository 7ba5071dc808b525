//! Silhouettes and matched distances against values from independent libraries.

use flipcast_estimate::embed::{Centres, Points, shift_distance, silhouette};
use safetensors::SafeTensors;
use std::path::PathBuf;

/// The goldens' README: double precision throughout.
const BOUND: f64 = 1e-9;

fn folder() -> PathBuf {
    let root = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    root.join("estimators")
}

fn expected(name: &str) -> f64 {
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let values: serde_json::Value = serde_json::from_str(&text).unwrap();
    values[name].as_f64().unwrap()
}

fn eights(bytes: &[u8]) -> Vec<[u8; 8]> {
    bytes.as_chunks::<8>().0.to_vec()
}

#[test]
fn silhouettes_equal_the_reference() {
    let bytes = std::fs::read(folder().join("arrays.safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let values = arrays.tensor("embed.points").unwrap();
    let points: Vec<f32> = (values.data().as_chunks::<4>().0.iter()).map(|&value| f32::from_le_bytes(value)).collect();
    let points = Points::new(points, values.shape()[1]).unwrap();
    let labels: Vec<usize> = eights(arrays.tensor("embed.labels").unwrap().data())
        .into_iter()
        .map(|label| usize::try_from(i64::from_le_bytes(label)).unwrap())
        .collect();
    let reference = eights(arrays.tensor("embed.silhouettes").unwrap().data());

    let found = silhouette(&points, &labels).unwrap();
    assert!((found.mean - expected("silhouette")).abs() < BOUND);
    assert_eq!(found.values.len(), reference.len());
    for (index, (found, reference)) in found.values.iter().zip(reference).enumerate() {
        let reference = f64::from_le_bytes(reference);
        assert!((found - reference).abs() < BOUND, "point {index}: {found}, expected {reference}");
    }
}

#[test]
fn the_shift_distance_and_its_match_equal_the_reference() {
    let bytes = std::fs::read(folder().join("arrays.safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let centres = |name: &str| {
        let values = arrays.tensor(name).unwrap();
        let rows = eights(values.data()).into_iter().map(f64::from_le_bytes).collect();
        Centres::new(rows, values.shape()[1]).unwrap()
    };
    let found = shift_distance(&centres("match.a"), &centres("match.b")).unwrap();
    assert!((found.mean - expected("shift_distance")).abs() < BOUND);
    let pairs = eights(arrays.tensor("match.pairs").unwrap().data());
    for ((class, cluster), reference) in found.pairs.into_iter().zip(pairs) {
        let reference = usize::try_from(i64::from_le_bytes(reference)).unwrap();
        assert_eq!(cluster, reference, "class {class}");
    }
}
