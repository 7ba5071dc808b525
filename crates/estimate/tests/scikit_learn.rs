//! Clusters and maps against those of scikit-learn.

use flipcast_estimate::embed::{KmeansConfig, Points, TsneConfig, kmeans, silhouette, trustworthiness, tsne};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::PathBuf;

fn folder() -> PathBuf {
    let root = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    root.join("embed")
}

fn expected() -> Value {
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn arrays() -> (Points, Vec<[f64; 2]>) {
    let bytes = std::fs::read(folder().join("arrays.safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let points = arrays.tensor("points").unwrap();
    let values = points.data().as_chunks::<4>().0.iter();
    let values = values.map(|&value| f32::from_le_bytes(value)).collect();
    let layout = arrays.tensor("layout").unwrap();
    let layout: Vec<f64> = (layout.data().as_chunks::<8>().0.iter()).map(|&value| f64::from_le_bytes(value)).collect();
    (Points::new(values, points.shape()[1]).unwrap(), layout.as_chunks::<2>().0.to_vec())
}

#[test]
fn inertia_and_silhouette_of_clusters_equal_the_reference() {
    let (points, _) = arrays();
    let expected = expected();
    for (clusters, expected) in expected["kmeans"].as_object().unwrap() {
        let config = KmeansConfig::new(clusters.parse().unwrap(), 3);
        let found = kmeans(&points, &config).unwrap();
        let inertia = expected["inertia"].as_f64().unwrap();
        let ratio = found.inertia / inertia;
        assert!(
            (1.0 - 1e-9..1.01).contains(&ratio),
            "{clusters} clusters: inertia {}, expected {inertia}",
            found.inertia
        );
        if ratio < 1.0 + 1e-9 {
            let found = silhouette(&points, &found.labels).unwrap().mean;
            let expected = expected["silhouette"].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{clusters}: {found}");
        }
    }
}

#[test]
fn the_trustworthiness_of_a_layout_equals_the_reference() {
    let (points, layout) = arrays();
    let expected = expected();
    for (neighbours, expected) in expected["trustworthiness"].as_object().unwrap() {
        let found = trustworthiness(&points, &layout, neighbours.parse().unwrap()).unwrap();
        let expected = expected.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-12, "{neighbours}: {found}, expected {expected}");
    }
}

#[test]
fn maps_are_as_trustworthy_as_the_reference() {
    let (points, _) = arrays();
    let expected = expected();
    for (perplexity, expected) in expected["tsne"].as_object().unwrap() {
        let config = TsneConfig { perplexity: perplexity.parse().unwrap(), ..TsneConfig::default() };
        let found = tsne(&points, &config, None).unwrap();
        let trust = trustworthiness(&points, &found.layout, 5).unwrap();
        let reference = expected["trustworthiness"].as_f64().unwrap();
        let kl = expected["kl"].as_f64().unwrap();
        eprintln!("perplexity {perplexity}: {trust} ({reference}), {} ({kl})", found.kl);
        assert!((trust - reference).abs() < 0.02, "perplexity {perplexity}: {trust}, expected {reference}");
        // The same function of the map: a descent that works ends near the reference's value.
        assert!((found.kl - kl).abs() < 0.05 * kl, "{}, expected {kl}", found.kl);
    }
}
