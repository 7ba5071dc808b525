//! What holds for every kind of the family.

use flipcast_images::Image;
use sha2::{Digest, Sha256};

use super::CALIBRATION_KINDS;
use crate::corrupt;
use crate::registry::names;
use crate::set::CorruptionSet;
use crate::spec::{CorruptionRequest, CorruptionSpec, Severity};
use crate::storage::Storage;

/// Kinds whose result is a function of the image alone.
const NOTHING_RANDOM: [&str; 7] =
    ["downscale", "median_blur", "wavelet", "colour_depth", "desaturate", "solarize", "sharpen"];

fn spec(name: &str, severity: Severity) -> CorruptionSpec {
    CorruptionSpec::new(CorruptionSet::Calibration, name, severity).expect("listed")
}

/// A sky, a hill with texture, a red disc and a dark post, on any grid.
fn picture(width: usize, height: usize) -> Image {
    let mut rgb = Vec::with_capacity(3 * width * height);
    for i in 0..width * height {
        let (x, y) = ((i % width) as f64 / width as f64, (i / width) as f64 / height as f64);
        let texture = 18.0 * (37.0 * x + 5.0 * y).sin() * (29.0 * y - 11.0 * x).cos();
        let mut pixel = [120.0 + 60.0 * y, 160.0 + 40.0 * y, 235.0 - 50.0 * y];
        if y > 0.6 + 0.15 * (6.0 * x).sin() {
            pixel = [70.0 + 3.0 * texture, 120.0 + 2.0 * texture, 45.0 + texture];
        }
        if (x - 0.35).powi(2) + (y - 0.4).powi(2) < 0.04 {
            pixel = [215.0 + texture, 60.0 + 80.0 * y, 40.0 + texture];
        }
        if (0.7..0.78).contains(&x) && y > 0.2 {
            pixel = [35.0 + texture, 30.0, 28.0 + 60.0 * x];
        }
        rgb.extend(pixel.map(|level| level.round() as u8));
    }
    Image::new(width, height, rgb).expect("three samples per pixel")
}

fn mean_distance(a: &Image, b: &Image) -> f64 {
    let sum: u64 = a.rgb().iter().zip(b.rgb()).map(|(&a, &b)| u64::from(a.abs_diff(b))).sum();
    sum as f64 / a.rgb().len() as f64
}

#[test]
fn the_list_names_the_set_in_order() {
    assert_eq!(names(CorruptionSet::Calibration), CALIBRATION_KINDS);
}

#[test]
fn no_name_belongs_to_a_published_set() {
    for set in CorruptionSet::ALL.into_iter().filter(|&set| set != CorruptionSet::Calibration) {
        assert!(names(set).iter().all(|name| !CALIBRATION_KINDS.contains(name)), "{set}");
    }
}

#[test]
fn bare_names_resolve_at_every_size_and_nothing_is_stored() {
    for name in CALIBRATION_KINDS {
        let bare: CorruptionRequest = format!("{name}:3").parse().expect("listed");
        let full: CorruptionRequest = format!("calibration/{name}:3").parse().expect("listed");
        for side in [1, 32, 64, 224, 1000] {
            assert_eq!(bare.resolve(side, side).expect("listed"), spec(name, Severity::ALL[2]));
            assert_eq!(full.resolve(side, side).expect("listed"), spec(name, Severity::ALL[2]));
            assert_eq!(bare.storage_at(side, side).expect("listed"), Storage::None);
        }
        let stored: CorruptionRequest = format!("{name}:3,storage=jpeg85").parse().expect("listed");
        assert_eq!(stored.storage_at(32, 32).expect("listed"), Storage::Jpeg85);
    }
}

#[test]
fn a_higher_severity_changes_more() {
    for (width, height) in [(32, 32), (64, 48), (112, 112)] {
        let image = picture(width, height);
        for name in CALIBRATION_KINDS {
            let mut before = 0.0;
            for severity in Severity::ALL {
                let spec = spec(name, severity);
                let distances =
                    (0..24).map(|index| mean_distance(&corrupt(&image, &spec, 0, index).expect("small"), &image));
                let mean = distances.sum::<f64>() / 24.0;
                assert!(
                    mean > before,
                    "{spec} at {width} x {height} changes by {mean:.2}, but {before:.2} came before"
                );
                before = mean;
            }
        }
    }
}

#[test]
fn sizes_change_an_image_alike() {
    let (small, large) = (picture(32, 32), picture(224, 224));
    // These two remove what is finer than a few pixels, and the large picture has next to nothing of that.
    let pixel_scale = ["downscale", "median_blur"];
    for name in CALIBRATION_KINDS.iter().filter(|name| !pixel_scale.contains(name)) {
        for severity in [Severity::ALL[0], Severity::ALL[4]] {
            let spec = spec(name, severity);
            let mean = |image: &Image| {
                let changed = |index| mean_distance(&corrupt(image, &spec, 0, index).expect("small"), image);
                (0..8).map(changed).sum::<f64>() / 8.0
            };
            // Measured: 0.75 (`sharpen`) to 1.22 (`wavelet`).
            let ratio = mean(&large) / mean(&small);
            assert!((0.7..1.3).contains(&ratio), "{spec} changes the large picture {ratio:.2} times as much");
        }
    }
}

#[test]
fn results_depend_on_the_seed_and_on_nothing_else() {
    let image = picture(40, 33);
    for name in CALIBRATION_KINDS {
        let spec = spec(name, Severity::ALL[3]);
        let run = |seed, index| corrupt(&image, &spec, seed, index).expect("small");
        assert_eq!(run(1, 2), run(1, 2), "{name}");
        let random = !NOTHING_RANDOM.contains(name);
        assert_eq!(run(1, 2) != run(2, 2), random, "{name}");
        assert_eq!(run(1, 2) != run(1, 3), random, "{name}");
    }
}

#[test]
fn every_small_size_works() {
    for (width, height) in (1..=9).flat_map(|width| (1..=5).map(move |height| (width, height))) {
        let image = picture(width, height);
        for (name, severity) in CALIBRATION_KINDS.iter().flat_map(|name| Severity::ALL.map(|s| (name, s))) {
            let after = corrupt(&image, &spec(name, severity), 1, 2).expect("small");
            assert_eq!((after.width(), after.height()), (width, height), "{name}");
        }
    }
    for (width, height) in [(1, 300), (300, 1), (3, 500)] {
        for name in CALIBRATION_KINDS {
            let after = corrupt(&picture(width, height), &spec(name, Severity::ALL[4]), 1, 2).expect("small");
            assert_eq!((after.width(), after.height()), (width, height), "{name}");
        }
    }
}

#[test]
fn a_flat_image_survives_what_only_moves_pixels() {
    let flat = Image::new(31, 17, vec![77; 3 * 31 * 17]).expect("31 x 17");
    let movers =
        ["rotate", "shear", "zoom_out", "downscale", "median_blur", "ghost", "wavelet", "tile_shuffle", "sharpen"];
    for name in movers.into_iter().chain(["hue_shift", "desaturate"]) {
        for severity in Severity::ALL {
            assert_eq!(corrupt(&flat, &spec(name, severity), 1, 2).expect("small"), flat, "{name}");
        }
    }
}

/// The first eight bytes of the SHA-256 of the result of each severity. Calibrations are only comparable as long as these stay.
#[rustfmt::skip]
const SNAPSHOT: &[(&str, [u64; 5])] = &[
    ("rotate", [0xffe955e303eb14f3, 0x03f25047ec63346e, 0xb5423cfd4feec0fe, 0x087a0e2cb0628092, 0xda180561abb9c4cf]),
    ("shear", [0xf66c2e09419521c0, 0x9485956844de48da, 0xa7e51133858882f5, 0x16a7c91b860fa6b3, 0x34ffffebe11fa9c7]),
    ("zoom_out", [0x54adb7a17c309d84, 0x7c4f36b7f9aebea1, 0x63252a2b3b9440f9, 0x38b00d59a5e85ff4, 0xa48ed719e5181b21]),
    ("downscale", [0x423a9a7cf3436d15, 0x313b34541401bb3f, 0x950adee2c44c3dde, 0xaf91565a8e930ba1, 0xc118a5055083f1e3]),
    ("median_blur", [0xe8cdfe74e4029de4, 0x76500129d1b0a588, 0xf10314ff6bbe78a5, 0xb818bfa2820391c1, 0x32bd93dd344dfc49]),
    ("ghost", [0x5d65f12dd5f12e8d, 0x575117ea72f4c3ea, 0x98fb203a93f10807, 0x7acba29c8e975ba9, 0x5cb121bca8f3d329]),
    ("wavelet", [0x00fd7f009bbda4f5, 0x6acd7faa7aae71f2, 0xaf6460e4d8c9bcf0, 0x89badaacf64dc048, 0xd57554c3671f1223]),
    ("colour_depth", [0x9cc773818319a73f, 0x128be8c4b6d11af9, 0x731e77e8ea85b1db, 0x21a791efcefa54f0, 0xf213fabfdbd36ef8]),
    ("hue_shift", [0x4098ab80911d9f91, 0x4317bed3b6df6735, 0x3daa1194c73d7d4d, 0x81512d43640341b8, 0x3b6b97b9939b6bcd]),
    ("colour_cast", [0x652b447b5393904a, 0x143e0ed5afb63599, 0x9ddc66e6e2d0db62, 0x98e2f2ada65ac47c, 0x4dc58edc4c9cabbd]),
    ("desaturate", [0xb6c9f9293fb00454, 0xde58ad46a3ac0063, 0x284e25cca0bccd12, 0x89746606cea1d032, 0xd4772f7f1a6ceb8c]),
    ("solarize", [0x34479bc8b46fa1c1, 0xc8acff40e1671e08, 0x7ec4ed9a2cd493e9, 0xa5da528e3ac0c940, 0xcc0cb1949bd2b18d]),
    ("occlude", [0xb8bdbf4af49f6b1c, 0xfcb6f93d46df1b52, 0x4589a9d599ed792b, 0xedf1ba65ae430fa4, 0x4bc09d6e110e9cb4]),
    ("vignette", [0x43f75f96b800c021, 0xc5b89f1c771b4a51, 0x07a4762b3bfdfe0d, 0x650493e6a91f1af4, 0x124a209ca423aacb]),
    ("tile_shuffle", [0x4eb8b059e8357f22, 0x3d2304cb31089926, 0xe686d508391fb68e, 0xd3851ffc0d975aa5, 0x50bd7760ba168d63]),
    ("sharpen", [0x7f964e6c6544e2ac, 0xb0ac4fa0bae1c9e3, 0x284b97bc8fa9ae8c, 0x44786cc67b29693f, 0x64c5d6bc0d1191d7]),
    ("banding", [0x713a5c9781a666bb, 0xe4fb6e4db64a06d6, 0x35d4958fca44f2aa, 0xf7b0b3b2a7fdc9cc, 0xf31c49f65f3a6173]),
    ("film_grain", [0x42cda2ae8d6ae476, 0xe177f72aa616b38a, 0x0d200c6b77ee3df3, 0x94a8cbbc4ef8edf3, 0xb71d033b0091ebd4]),
];

#[test]
fn bytes_stay_as_they_are() {
    let image = picture(45, 38);
    let mut found = String::new();
    let mut same = SNAPSHOT.len() == CALIBRATION_KINDS.len();
    for (i, name) in CALIBRATION_KINDS.iter().enumerate() {
        let digests = Severity::ALL.map(|severity| {
            let after = corrupt(&image, &spec(name, severity), 11, 5).expect("small");
            let digest = Sha256::digest(after.rgb());
            u64::from_be_bytes(*digest.first_chunk().expect("32 bytes"))
        });
        same &= SNAPSHOT.get(i) == Some(&(*name, digests));
        let digests: Vec<String> = digests.iter().map(|digest| format!("{digest:#018x}")).collect();
        found += &format!("    (\"{name}\", [{}]),\n", digests.join(", "));
    }
    assert!(same, "the results are now\n{found}");
}
