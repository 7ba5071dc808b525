//! Own draws have the statistics of the published generators (`stats.json`).

use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Severity, corrupt};
use flipcast_images::Image;
use serde_json::Value;

use crate::bank::{load_json, load_png, number};

/// Own seeds per corruption and severity, at 224 and at 32 pixels.
const SEEDS: [(&str, CorruptionSet, usize, u64); 4] = [
    ("imagenet_c_224", CorruptionSet::ImageNetC, 224, 3),
    ("cifar_c_32", CorruptionSet::CifarC, 32, 24),
    ("imagenet_c_bar_224", CorruptionSet::ImageNetCBar, 224, 3),
    ("cifar10_c_bar_32", CorruptionSet::CifarCBar, 32, 24),
];

/// Channel means, channel deviations, mean absolute difference and PSNR.
fn measure(clean: &Image, corrupted: &Image) -> [f64; 8] {
    let pixels = (clean.width() * clean.height()) as f64;
    let mut row = [0.0; 8];
    for channel in 0..3 {
        let samples = || {
            corrupted
                .rgb()
                .iter()
                .skip(channel)
                .step_by(3)
                .map(|&byte| f64::from(byte))
        };
        row[channel] = samples().sum::<f64>() / pixels;
        row[3 + channel] =
            (samples().map(|v| (v - row[channel]).powi(2)).sum::<f64>() / pixels).sqrt();
    }
    let differences = || {
        clean
            .rgb()
            .iter()
            .zip(corrupted.rgb())
            .map(|(a, b)| f64::from(a.abs_diff(*b)))
    };
    row[6] = differences().sum::<f64>() / (3.0 * pixels);
    let squared = differences().map(|d| d * d).sum::<f64>() / (3.0 * pixels);
    row[7] = if squared == 0.0 {
        60.0
    } else {
        (10.0 * (255.0_f64.powi(2) / squared).log10()).min(60.0)
    };
    row
}

/// Mean and deviation over seeds of the eight measures.
fn published(cell: &Value) -> [(f64, f64); 8] {
    let triple = |key: &str, i: usize| (number(&cell[key]["mean"][i]), number(&cell[key]["sd"][i]));
    let single = |key: &str| (number(&cell[key]["mean"]), number(&cell[key]["sd"]));
    std::array::from_fn(|i| match i {
        0..3 => triple("channel_mean", i),
        3..6 => triple("channel_std", i - 3),
        6 => single("mean_abs_diff"),
        _ => single("psnr"),
    })
}

#[test]
fn draws_have_the_published_statistics() {
    let stats = load_json("stats.json");
    let (mut checked, mut failures) = (0, Vec::new());
    for (group, set, side, seeds) in SEEDS {
        let clean = load_png(&format!("clean/astronaut_{side}.png"));
        for (name, cells) in stats[group].as_object().expect("an object") {
            for severity in Severity::ALL {
                let cell = &cells[format!("s{severity}")];
                let spec = CorruptionSpec::new(set, name, severity).expect("published names");
                let mut own = [0.0; 8];
                for seed in 0..seeds {
                    let corrupted = corrupt(&clean, &spec, seed, 17).expect("within the limits");
                    for (sum, value) in own.iter_mut().zip(measure(&clean, &corrupted)) {
                        *sum += value / seeds as f64;
                    }
                }
                for (i, (own, (mean, sd))) in own.into_iter().zip(published(cell)).enumerate() {
                    let bound =
                        4.0 * sd * (1.0 / number(&cell["seeds"]) + 1.0 / seeds as f64).sqrt()
                            + 0.02;
                    checked += 1;
                    if (own - mean).abs() > bound {
                        failures.push(format!(
                            "{spec} measure {i}: {own:.3} found, {mean:.3} +- {bound:.3} expected"
                        ));
                    }
                }
            }
        }
    }
    println!(
        "{} of {checked} measures within their bounds",
        checked - failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
