//! Every picture of `manifest.json`.

use flipcast_corrupt::registry::find;
use flipcast_corrupt::{CorruptionSet, STORED_QUALITY, blocks, c_bar, imagenet_c};
use flipcast_images::Image;
use serde_json::Value;

use crate::bank::{
    Difference, load_json, load_npy, load_png, normal_field, number, numbers, plane, sha256, text, uniform_field,
};

/// Random fields of both sizes, loaded once.
pub struct Bank {
    normal: [Vec<f64>; 2],
    uniform: [Vec<f64>; 2],
    textures: [Image; 2],
    params: Value,
}

impl Bank {
    pub fn load() -> Self {
        let texture = load_png("fields/frost_texture.png");
        let small = decimate(&texture);
        Self {
            normal: [224, 32].map(normal_field),
            uniform: [224, 32].map(uniform_field),
            textures: [texture, small],
            params: load_json("manifest.json")["params"].clone(),
        }
    }

    fn slot(image: &Image) -> usize {
        usize::from(image.width() == 32)
    }

    /// The corruption `name` with constants `row` on `image`, with the values that `inject` names.
    pub fn apply(&self, name: &str, image: &Image, row: &[f64], inject: &Value) -> Image {
        let slot = Self::slot(image);
        let (normal, uniform) = (&self.normal[slot], &self.uniform[slot]);
        match name {
            "gaussian_noise" => {
                use imagenet_c::gaussian_noise::*;
                apply(image, &Constants::from_row(row), &Field { normal: normal.clone() })
            }
            "speckle_noise" => {
                use imagenet_c::speckle_noise::*;
                apply(image, &Constants::from_row(row), &Field { normal: normal.clone() })
            }
            "shot_noise" => {
                use imagenet_c::shot_noise::*;
                let counts = load_npy(&format!("fields/{}.npy", text(&inject["counts"])));
                let field = Field { counts: counts.into_iter().map(|v| v as u32).collect() };
                apply(image, &Constants::from_row(row), &field)
            }
            "impulse_noise" => {
                use imagenet_c::impulse_noise::*;
                let field = Field { hit: uniform.clone(), salt: uniform.iter().rev().copied().collect() };
                apply(image, &Constants::from_row(row), &field)
            }
            "glass_blur" => {
                use imagenet_c::glass_blur::*;
                let constants = Constants::from_row(row);
                let reach = constants.reach as f64;
                let mut draws = uniform.iter().cycle().map(|u| ((u * 2.0 * reach).floor() - reach) as i8);
                let mut next = || draws.next().expect("a cycle never ends");
                let inner = image.width() - 2 * constants.reach;
                let moves = (0..constants.passes * inner * inner).map(|_| (next(), next())).collect();
                apply(image, &constants, &Field { moves })
            }
            "motion_blur" => {
                use imagenet_c::motion_blur::*;
                apply(image, &Constants::from_row(row), &Field { angle: number(&inject["angle"]) })
            }
            "snow" => {
                use imagenet_c::snow::*;
                let field = Field { normal: plane(normal, 0), angle: number(&inject["angle"]) };
                apply(image, &Constants::from_row(row), &field)
            }
            "spatter" => {
                use imagenet_c::spatter::*;
                apply(image, &Constants::from_row(row), &Field { normal: plane(normal, 0) })
            }
            "fog" => {
                use imagenet_c::fog::*;
                apply(image, &Constants::from_row(row), &Field { uniform: uniform.clone() })
            }
            "frost" => {
                use imagenet_c::frost::*;
                let place = |key: &str| number(&inject[key]) as usize;
                let field = Field { texture: &self.textures[slot], row: place("row"), column: place("col") };
                apply(image, &Constants::from_row(row), &field)
            }
            "elastic_transform" => {
                use imagenet_c::elastic_transform::*;
                let corner = |i: usize| {
                    let point = numbers(&inject["corner"][i]);
                    [point[0], point[1]]
                };
                let signed = |channel| plane(uniform, channel).into_iter().map(|u| 2.0 * u - 1.0).collect();
                let field = Field { corners: [corner(0), corner(1), corner(2)], dx: signed(0), dy: signed(1) };
                apply(image, &Constants::from_row(row), &field)
            }
            _ => deterministic(name, image, row).unwrap_or_else(|| self.apply_bar(name, image, row, inject)),
        }
    }

    fn apply_bar(&self, name: &str, image: &Image, row: &[f64], inject: &Value) -> Image {
        let p = &self.params[text(&inject["params"])];
        let level = c_bar::Level::from_row(row);
        let uniform = &self.uniform[Self::slot(image)];
        let pair = |value: &Value| {
            let values = numbers(value);
            [values[0], values[1]]
        };
        let phases = |channel: usize| -> Vec<f64> {
            let side = image.width();
            let all = plane(uniform, channel);
            let half = all.chunks_exact(side).flat_map(|row| &row[..side / 2]);
            half.map(|u| std::f64::consts::TAU * u).collect()
        };
        match name {
            "single_frequency_greyscale" => {
                use c_bar::single_frequency_greyscale::*;
                apply(image, level, &Field { frequency: pair(&p["freq"]), phase: number(&p["phase"]) })
            }
            "cocentric_sine_waves" => {
                use c_bar::cocentric_sine_waves::*;
                let field = Field {
                    centre: pair(&p["offset"]),
                    frequency: number(&p["freq"]),
                    amplitude: number(&p["amplitude"]),
                    ring_width: number(&p["ring_width"]),
                };
                apply(image, level, &field)
            }
            "plasma_noise" => {
                use c_bar::plasma_noise::*;
                let field = Field {
                    time: number(&p["time"]),
                    iterations: number(&p["iterations"]) as u32,
                    sharpness: number(&p["sharpness"]),
                    scale: number(&p["scale"]),
                };
                apply(image, level, &field)
            }
            "brownish_noise" => {
                use c_bar::brownish_noise::*;
                apply(image, level, &Field { phases: [phases(0), phases(1), phases(2)] })
            }
            "blue_noise_sample" => {
                use c_bar::blue_noise_sample::*;
                apply(image, level, &Field { phases: phases(0) })
            }
            "perlin_noise" => {
                use c_bar::perlin_noise::*;
                let permutation = numbers(&p["perm"]).into_iter().map(|v| v as u8).collect();
                let gradients = p["grad"].as_array().expect("a list").iter().map(pair).collect();
                apply(image, level, &Field { permutation, gradients })
            }
            "sparkles" => {
                use c_bar::sparkles::*;
                let centres = p["centers"].as_array().expect("a list").iter().map(pair).collect();
                let ray_normals = p["ray_normals"].as_array().expect("a list").iter().map(numbers).collect();
                apply(image, level, &Field { centres, ray_normals })
            }
            "inverse_sparkles" => {
                use c_bar::inverse_sparkles::*;
                apply(image, level, &Field { centre: pair(&p["center"]), ray_normals: numbers(&p["ray_normals"]) })
            }
            "checkerboard_cutout" => {
                use c_bar::checkerboard_cutout::*;
                let rows = p["cell_uniform"].as_array().expect("a list");
                let field = Field {
                    angle: number(&p["angle"]),
                    scale: number(&p["scale"]),
                    cells: rows.len(),
                    uniform: rows.iter().flat_map(numbers).collect(),
                };
                apply(image, level, &field)
            }
            "caustic_refraction" => {
                use c_bar::caustic_refraction::*;
                apply(image, level, &Field { time: number(&p["time"]), size: number(&p["size"]) })
            }
            "ripple" => {
                use c_bar::ripple::*;
                apply(image, level, &Field { wavelengths: pair(&p["wavelengths"]), phases: pair(&p["phases"]) })
            }
            "pinch_and_twirl" => {
                use c_bar::pinch_and_twirl::*;
                let signs = p["signs"].as_array().expect("a list").iter().flat_map(numbers).collect();
                apply(image, level, &Field { signs })
            }
            "circular_motion_blur" => c_bar::circular_motion_blur::apply(image, level),
            "transverse_chromatic_abberation" => {
                use c_bar::transverse_chromatic_abberation::*;
                let order = numbers(&p["order"]);
                apply(image, level, &Field { order: [0, 1, 2].map(|i| order[i] as usize) })
            }
            "lines" => {
                use c_bar::lines::*;
                let triple = |value: &Value| {
                    let values = numbers(value);
                    [values[0], values[1], values[2]]
                };
                let field = Field {
                    angle: number(&p["angle"]),
                    angle_variation: number(&p["angle_variation"]),
                    uniform: p["uniform"].as_array().expect("a list").iter().map(triple).collect(),
                };
                apply(image, level, &field)
            }
            _ => panic!("no such corruption: {name}"),
        }
    }
}

fn deterministic(name: &str, image: &Image, row: &[f64]) -> Option<Image> {
    use imagenet_c::*;
    Some(match name {
        "gaussian_blur" => gaussian_blur::apply(image, &gaussian_blur::Constants::from_row(row)),
        "defocus_blur" => defocus_blur::apply(image, &defocus_blur::Constants::from_row(row)),
        "zoom_blur" => zoom_blur::apply(image, &zoom_blur::Constants::from_row(row)),
        "contrast" => contrast::apply(image, &contrast::Constants::from_row(row)),
        "brightness" => brightness::apply(image, &brightness::Constants::from_row(row)),
        "saturate" => saturate::apply(image, &saturate::Constants::from_row(row)),
        "jpeg_compression" => jpeg_compression::apply(image, &jpeg_compression::Constants::from_row(row)),
        "pixelate" => pixelate::apply(image, &pixelate::Constants::from_row(row)),
        _ => return None,
    })
}

/// Rows and columns 2, 7, 12, ...
fn decimate(image: &Image) -> Image {
    let every_fifth = |n: usize| (2..n).step_by(5);
    let (width, height) = (every_fifth(image.width()).count(), every_fifth(image.height()).count());
    let places = every_fifth(image.height()).flat_map(|y| every_fifth(image.width()).map(move |x| (y, x)));
    let rgb = places.flat_map(|(y, x)| image.rgb()[3 * (y * image.width() + x)..][..3].to_vec()).collect();
    Image::new(width, height, rgb).expect("sizes match")
}

fn expected(case: &Value) -> Image {
    let sheet = load_png(text(&case["file"]));
    let (top, size) = (number(&case["top"]) as usize, number(&case["size"]) as usize);
    let stride = 3 * sheet.width();
    Image::new(size, size, sheet.rgb()[top * stride..(top + size) * stride].to_vec()).expect("square cases")
}

fn set_of(case: &Value) -> Option<CorruptionSet> {
    match text(&case["set"]) {
        "imagenet_c_224" | "imagenet_constants_32" => Some(CorruptionSet::ImageNetC),
        "cifar_c_32" => Some(CorruptionSet::CifarC),
        "imagenet_c_bar_224" | "imagenet_c_bar_32" => Some(CorruptionSet::ImageNetCBar),
        "cifar10_c_bar_32" => Some(CorruptionSet::CifarCBar),
        _ => None,
    }
}

#[test]
fn every_case_of_the_manifest_matches_within_its_tolerance() {
    let manifest = load_json("manifest.json");
    let bank = Bank::load();
    let clean = [224, 32].map(|side| load_png(&format!("clean/astronaut_{side}.png")));
    let (mut checked, mut exact, mut failures) = (0, 0, Vec::new());
    for case in manifest["cases"].as_array().expect("a list") {
        let Some(set) = set_of(case) else { continue };
        let (name, severity) = (text(&case["corruption"]), number(&case["severity"]) as usize);
        let row = find(set, name).expect("golden names are published names").rows[severity - 1];
        assert_eq!(row, numbers(&case["constants"]), "constants of {name} {severity}");
        let image = &clean[usize::from(number(&case["size"]) == 32.0)];
        let found = bank.apply(name, image, row, &case["inject"]);
        checked += 1;
        if sha256(&found) == text(&case["sha256_rgb"]) {
            exact += 1;
            continue;
        }
        let difference = Difference::between(&found, &expected(case));
        let (max_abs, max_fraction) = (number(&case["max_abs"]) as u8, number(&case["max_frac"]));
        println!("{set} {name} {severity}: {} samples differ, worst {}", difference.count, difference.worst);
        if let Some(problem) = difference.beyond(max_abs, max_fraction) {
            failures.push(format!("{set} {name} {severity}: {problem}"));
        }
    }
    println!("{exact} of {checked} cases are equal byte for byte");
    assert_eq!(checked, 287);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn ccc_pairs_match_after_each_step_and_after_storage() {
    let manifest = load_json("manifest.json");
    let bank = Bank::load();
    let clean = load_png("clean/astronaut_224.png");
    let cases = manifest["cases"].as_array().expect("a list").iter().filter(|case| text(&case["set"]) == "ccc_224");
    let mut checked = 0;
    for case in cases {
        let mut image = clean.clone();
        for step in case["inject"]["steps"].as_array().expect("a list") {
            let name = text(&step["corruption"]);
            image = bank.apply(name, &image, &numbers(&step["constants"]), &step["inject"]);
            assert_eq!(sha256(&image), text(&step["sha256_rgb"]), "{name} of {}", text(&case["file"]));
        }
        let stored = blocks::jpeg::round_trip(&image, STORED_QUALITY);
        assert_eq!(sha256(&stored), text(&case["sha256_rgb"]), "{}", text(&case["file"]));
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn the_stored_clean_picture_is_equal_byte_for_byte() {
    let stored = blocks::jpeg::round_trip(&load_png("clean/astronaut_224.png"), STORED_QUALITY);
    assert_eq!(stored, load_png("jpeg85/astronaut_224.png"));
}
