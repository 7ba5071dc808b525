//! Intermediate results, which say where an implementation departs.

use flipcast_corrupt::CorruptionSet::{CifarC, ImageNetC};
use flipcast_corrupt::blocks::directional_blur::taps;
use flipcast_corrupt::blocks::disk_kernel::DiskKernel;
use flipcast_corrupt::blocks::plasma::plasma_map;
use flipcast_corrupt::blocks::zoom::arange;
use flipcast_corrupt::imagenet_c::elastic_transform::affine_of;
use flipcast_corrupt::imagenet_c::spatter::WaterStages;
use flipcast_corrupt::registry::find;

use crate::bank::{load_json, load_npy, load_png, number, numbers, uniform_field};

const LABELS: [(&str, flipcast_corrupt::CorruptionSet, usize); 2] =
    [("imagenet", ImageNetC, 224), ("cifar", CifarC, 32)];

fn rows(set: flipcast_corrupt::CorruptionSet, name: &str) -> [&'static [f64]; 5] {
    find(set, name).expect("published names").rows
}

#[test]
fn defocus_kernels_are_equal_to_the_last_bits() {
    for (label, set, _) in LABELS {
        for (k, row) in rows(set, "defocus_blur").into_iter().enumerate() {
            let expected = load_npy(&format!("stages/defocus_kernel_{label}_s{}.npy", k + 1));
            let kernel = DiskKernel::new(row[0], row[1]);
            assert_eq!(kernel.weights().len(), expected.len());
            for (found, expected) in kernel.weights().iter().zip(expected) {
                // Two units in the last place of the largest weight, 1: products of three floats in another order.
                assert!((f64::from(*found) - expected).abs() <= 2.0 * f64::from(f32::EPSILON) * expected.max(1e-9));
            }
        }
    }
}

#[test]
fn motion_taps_and_zoom_factors_are_those_of_the_reference() {
    let stages = load_json("stages/stages.json");
    for (label, set, _) in LABELS {
        for k in 0..5 {
            let key = format!("{label}_s{}", k + 1);
            let motion = &stages["motion_taps"][&key];
            let row = rows(set, "motion_blur")[k];
            let found = taps(row[0], row[1], number(&motion["angle"]));
            let steps: Vec<Vec<f64>> =
                motion["row_col_steps"].as_array().expect("a list").iter().map(numbers).collect();
            let weights = numbers(&motion["weights"]);
            assert_eq!(found.len(), steps.len());
            for ((tap, step), weight) in found.iter().zip(&steps).zip(weights) {
                assert_eq!([tap.row as f64, tap.column as f64], step[..], "{key}");
                // The list gives nine decimals.
                assert!((tap.weight - weight).abs() < 6e-10);
            }
            let row = rows(set, "zoom_blur")[k];
            assert_eq!(arange(row[0], row[1], row[2]), numbers(&stages["zoom_factors"][&key]), "{key}");
        }
    }
}

#[test]
fn elastic_affine_maps_are_those_of_the_reference() {
    let stages = load_json("stages/stages.json");
    for (label, set, side) in LABELS {
        let uniform = uniform_field(side);
        for k in 0..5 {
            let jitter = rows(set, "elastic_transform")[k][2];
            let corner = |i: usize| [0, 1].map(|axis| (2.0 * uniform[2 * i + axis] - 1.0) * jitter);
            let found = affine_of(side, side, &[corner(0), corner(1), corner(2)]);
            let expected = &stages["elastic_affine"][format!("{label}_s{}", k + 1)];
            for (axis, row) in found.0.iter().enumerate() {
                for (found, expected) in row.iter().zip(numbers(&expected[axis])) {
                    // A linear solver against a formula: rounding only.
                    assert!((found - expected).abs() < 1e-11 * expected.abs().max(1.0), "{found} for {expected}");
                }
            }
        }
    }
}

#[test]
fn the_plasma_map_is_that_of_the_reference() {
    let mut draws = uniform_field(32).into_iter();
    let map = plasma_map(32, rows(CifarC, "fog")[2][1], || draws.next().expect("enough draws"));
    for (found, expected) in map.into_iter().zip(load_npy("stages/plasma_cifar_s3.npy")) {
        assert_eq!(f64::from(found as f32), expected);
    }
}

#[test]
fn the_spatter_chain_is_equal_stage_by_stage() {
    let first_channel = |name: &str| -> Vec<u8> {
        load_png(&format!("stages/spatter_cifar_s3_{name}.png")).rgb().iter().step_by(3).copied().collect()
    };
    let stages = WaterStages::new(&first_channel("liquid"), 32, 32);
    let edges: Vec<u8> = stages.edges.iter().map(|&edge| if edge { 255 } else { 0 }).collect();
    assert_eq!(edges, first_channel("edges"));
    let distance: Vec<f64> = stages.distance.iter().map(|&d| f64::from(d) / 65536.0).collect();
    assert_eq!(distance, load_npy("stages/spatter_cifar_s3_distance.npy"));
    assert_eq!(stages.soft, first_channel("soft"));
}
